"""What programs do to files beside what a rule for them says, where a table of commands is not enough."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.rules import read_rule, split_rules
from agent_cli.policy.policy import Policy
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.programs.patches import files_of_patch
from agent_cli.policy.programs.table import ROWS
from agent_cli.policy.shell.analysis import analyse
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace


def decide(root: Path, command: str, **lists: str) -> Decision:
    rules = [read_rule(kind, rule, "test", root) for kind, text in lists.items() for rule in split_rules(text)]  # type: ignore[arg-type]
    gate = Policy(Workspace(root), rules, home=str(root.parent), env={"PATH": "/usr/bin:/bin"})
    return gate.decide("Bash", [Effect("run", command)])


@pytest.mark.parametrize("command", ["grep -r x .", "cp -r . ../copy", "tar cf x.tar ."])
def test_a_file_of_secrets_does_not_end_the_search_for_what_is_denied(tmp_path: Path, command: str) -> None:
    root = tmp_path / "work"
    for name in (".env", "a/.env", "z/deep/plans/x", "b/c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    decided = decide(root, command, allow="Bash", deny="Read(plans/)")
    assert decided.level is Level.ASK
    assert decided.final
    assert any(part.rule == "Read(plans/)" for part in decided.parts)


def test_a_patch_is_judged_by_the_files_that_it_names(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "p").write_text("diff --git a/old b/keys/new\nrename from old\nrename to keys/new\n")
    assert {"old", "keys/new"} <= set(files_of_patch(str(root / "p")) or ())
    assert decide(root, "git apply p", allow="Bash", deny="Edit(keys/**)").level is Level.DENY
    assert decide(root, "git apply p", allow="Bash", deny="Edit(other/**)").level is Level.ALLOW
    assert decide(root, "git apply nothing", allow="Bash", deny="Edit(other/**)").level is Level.ASK


@pytest.mark.parametrize(
    ("rule", "command", "reason"),
    [
        ("curl", "curl --url file:///etc/shadow", "looks like it holds secrets: /etc/shadow"),
        ("curl", "curl --url file://x/etc/shadow https://a.b", "looks like it holds secrets: /etc/shadow"),
        ("curl", "curl https://a.b", ""),
        ("terraform", "terraform fmt ../x", "changes a file outside the workspace"),
        ("go build", "go build -asmflags=-I/x", "go with -asmflags, which a rule for go alone does not cover"),
        ("go build", "go build -asmflags=-S", ""),
        ("bash", "bash -? ls", "shell code that is not known"),
        ("cat", "cat < /dev/tcp/192.0.2.1/80", "opens a network connection"),
        ("id", "printf %%%n x", "printf, which sets a variable"),
        ("id", "printf %%n x", ""),
    ],
)
def test_what_is_asked_about_a_program_that_a_rule_allows(tmp_path: Path, rule: str, command: str, reason: str) -> None:
    found = decide(tmp_path, command, allow=f"Bash({rule}:*)")
    assert found.level is (Level.ASK if reason else Level.ALLOW), found.reason
    assert reason in found.reason


def test_a_script_that_may_read_any_file_is_compared_with_what_is_denied(tmp_path: Path) -> None:
    for script in ("r .env", "s/x/cat .env/e", "R .env"):
        found = decide(tmp_path, f"sed '{script}' a", allow="Bash(sed:*)", deny="Read(.env)")
        assert (found.level, found.final, found.by) == (Level.ASK, True, "rule"), script
    found = decide(tmp_path, "sed 'w x' a", allow="Bash(sed:*)", deny="Read(.env)")
    assert (found.level, found.final, found.by) == (Level.ASK, False, "default")


def test_a_rule_that_names_the_target_covers_it(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    assert decide(root, "cp a /srv/x", allow="Bash(cp:*)").level is Level.ASK
    assert decide(root, "cp a /srv/x", allow="Bash(cp a /srv/x)").level is Level.ALLOW
    assert decide(root, "cp a /srv/x /srv/y", allow="Bash(cp a /srv/x:*)").level is Level.ASK
    assert decide(root, "tar --to-command=cat -xf a", allow="Bash(tar --to-command=cat:*)").level is Level.ALLOW


FOLLOWING = [
    "grep -R x src", "grep -nR x src", "egrep --dereference-recursive x src", "rg -L x src", "rg -uu --follow x src",
    "cp -rL src ../copy", "cp -r --dereference src out", "cp -RLv src out", "rsync -rL src/ out",
    "rsync -ak --copy-links src/ out", "tar chf x.tar src", "tar -c --dereference -f x.tar src", "zip -r x.zip src",
    "scp -r src host:", "7z a x.7z src", "diff -r src docs",
]  # fmt: skip
STAYING = [
    "grep -r x src", "rg x src", "cp -r src out", "cp -rP src out", "rsync -a src/ out", "tar cf x.tar src",
    "zip -ry x.zip src", "zip -r --symlinks x.zip src",
]  # fmt: skip


@pytest.mark.parametrize("linked", ["file", "folder"])
@pytest.mark.parametrize("command", [*FOLLOWING, *STAYING])
def test_links_below_a_folder_are_followed_where_the_program_follows_them(
    tmp_path: Path, command: str, linked: str
) -> None:
    root, other = tmp_path / "work", tmp_path / "other"
    for folder in (root / "src/deep", root / "docs", other / "plans"):
        folder.mkdir(parents=True)
    (other / "plans/x").write_text("x")
    (root / "src/deep/link").symlink_to(other / "plans/x" if linked == "file" else other)
    (root / "src/deep/round").symlink_to(root / "src")
    assert decide(root, command, allow="Bash", deny="Read(other/**)").level is Level.ALLOW
    found = decide(root, command, allow="Bash", deny=f"Read(/{other}/plans/**)")
    assert (found.level is not Level.ALLOW) == (command in FOLLOWING)


def test_more_files_than_are_looked_at_are_asked_about(tmp_path: Path) -> None:
    root = tmp_path / "work"
    for number in range(40):
        folder = root / f"{number:02}"
        folder.mkdir(parents=True)
        for name in range(30):
            (folder / f"{name}.txt").touch()
    assert decide(root, "cat */1.txt").level is Level.ALLOW
    assert "too many files to look at each" in decide(root, "cat */*.txt").reason


def test_a_removal_takes_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    assert decide(root, "rm link", allow="Bash(rm:*)").level is Level.ALLOW
    assert decide(root, "rm -r link/x", allow="Bash(rm:*)").level is Level.ASK


def test_a_text_of_cat_is_not_believed_once_cat_may_be_another() -> None:
    message = "git commit -m \"$(cat <<'E'\nx\nE\n)\""
    assert not analyse(message).unknown
    assert analyse(f"cat() {{ id; }}; {message}").unknown
    assert analyse(f"PATH=.; {message}").unknown


ODD_WORDS = ("", "-", "--", "--o", "-o", "-x", "-C", "--file", "-f", "a b c", "-tx", "--=", "-=", "x -- -y", "-e '' x")


def test_odd_words_are_read_without_an_error() -> None:
    for line in (f"{name} {words}" for name in sorted(ROWS) for words in ODD_WORDS):
        for part in analyse(line, "/w").parts:
            assert isinstance(invocation(part).touches, tuple), line


def _archive(path: Path, *names: str, link: str = "") -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
        if link:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            if link.startswith("="):
                info.type, info.linkname = tarfile.LNKTYPE, link[1:]
            tar.addfile(info)


@pytest.mark.parametrize(
    ("names", "link", "level"),
    [
        (("src/a", "b"), "", Level.ALLOW),
        (("src/a",), "b", Level.ALLOW),
        (("x/.git/hooks/pre-commit",), "", Level.ASK),
        (("deep/x/.agentrc",), "", Level.ASK),
        (("../x",), "", Level.ASK),
        (("a",), "/etc", Level.ASK),
        (("a",), "../..", Level.ASK),
        (("a",), "=a", Level.ALLOW),
        (("a",), "=.git/hooks/pre-commit", Level.ASK),
    ],
)
def test_an_archive_is_judged_by_the_files_that_it_holds(
    tmp_path: Path, names: tuple[str, ...], link: str, level: Level
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    _archive(root / "a.tgz", *names, link=link)
    for command in ("tar xzf a.tgz", "tar -x --strip-components=1 -f a.tgz", "tar xz < a.tgz"):
        assert decide(root, command, allow="Bash(tar:*)").level is level, command


def test_an_archive_that_cannot_be_looked_into_asks(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "damaged.tgz").write_bytes(b"\x1f\x8b\x08 and no more")
    with zipfile.ZipFile(root / "a.zip", "w") as opened:
        opened.writestr("src/.vscode/tasks.json", "{}")
    with zipfile.ZipFile(root / "b.zip", "w") as opened:
        opened.writestr("src/a", "")
    with zipfile.ZipFile(root / "link.zip", "w") as opened:
        link = zipfile.ZipInfo("src/link")
        link.external_attr = 0o120777 << 16
        opened.writestr(link, "/etc")
    both = ["Bash(tar:*)", "Bash(curl:*)"]
    assert decide(root, "unzip link.zip", allow="Bash(unzip:*)").level is Level.ASK
    for command in ("tar xzf damaged.tgz", "curl https://a.b | tar xz", "curl -O https://a.b/x.tgz && tar xzf x.tgz"):
        assert decide(root, command, allow=",".join(both)).level is Level.ASK, command
    assert decide(root, "unzip a.zip", allow="Bash(unzip:*)").level is Level.ASK
    assert decide(root, "unzip b.zip", allow="Bash(unzip:*)").level is Level.ALLOW
    assert decide(root, "unzip b.zip -d out", allow="Bash(unzip:*)", deny="Edit(out/**)").level is Level.DENY


def test_a_patch_that_comes_by_a_redirection_is_judged_by_its_names(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "good").write_text("--- a/x\n+++ b/x\n")
    (root / "bad").write_text("--- a/x\n+++ b/.agentrc\n")
    (root / "old").write_text("Index: .envrc\n*** .envrc\n1c1\n")
    assert decide(root, "patch -p1 < good", allow="Bash(patch:*)").level is Level.ALLOW
    for command in ("patch -p1 < bad", "patch < old", "git apply < bad", "id | patch -p1"):
        assert decide(root, command, allow="Bash(patch:*),Bash(git apply:*),Bash(id)").level is Level.ASK, command


def test_a_link_that_leads_outside_or_to_what_is_denied_asks(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src/a").write_text("x")
    (root / "out").symlink_to(tmp_path)
    for command in ("ln -s .. up", "ln -s ../.. src/up", "ln -s / r", "ln .git/config x", "mv out o2"):
        assert decide(root, command, allow="Bash(ln:*),Bash(mv:*)").level is Level.ASK, command
    for command in ("ln -s src s", "ln -s ../a src/b", "ln -sr src/a b", "ln src/a b"):
        assert decide(root, command, allow="Bash(ln:*)").level is Level.ALLOW, command
    assert decide(root, "ln -s src s", allow="Bash", deny="Edit(src/**)").level is Level.ASK
    assert decide(root, "ln -s src s", allow="Bash", deny="Read(src/**)").level is Level.ASK


_KIT = "~/.claude/get-shit-done/bin/tool"


@pytest.mark.parametrize(
    "line",
    [f"node {_KIT}.cjs init", f"node --no-warnings {_KIT}.mjs", f"python3 -u {_KIT}.py --all", f"bash {_KIT}.sh",
     f"bash -eu {_KIT}.sh x", f"ruby {_KIT}.rb", f"perl {_KIT}.pl", f"php {_KIT}.php", f"deno run {_KIT}.ts",
     f"lua {_KIT}.lua"],
)  # fmt: skip
def test_a_rule_for_an_interpreter_covers_the_programs_of_toolkits(tmp_path: Path, line: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    line = line.replace("~", str(tmp_path))
    rule = f"Bash({line.split()[0]}:*)"
    decided = decide(root, line, allow=rule)
    assert decided.level is Level.ALLOW, decided.reason
    assert decide(root, line).level is Level.ASK
    assert decide(root, line, allow=rule, deny=f"Read(/{tmp_path}/.claude/**)").level is not Level.ALLOW


@pytest.mark.parametrize(
    "line",
    ["node ~/.claude/settings.json", "python3 ~/.ssh/id_rsa", "bash ~/.claude/projects/x.sh", "bash ~/.claude/ide/x.sh",
     "node x.js ~/.claude/hooks/a.js", "node ~/.claude/kit/x.js ~/.claude/kit/y.js", "python3 ~/tools/x.py",
     "python3 x.py /etc/hosts", "node --diagnostic-dir /srv x.js", "node -r ~/.claude/kit/x.js y.js",
     "python3 run ~/.claude/kit/x.py", "sqlite3 ~/.claude/kit/x.db", "source ~/.claude/kit/env.sh"],
)  # fmt: skip
def test_it_covers_no_other_file_outside(tmp_path: Path, line: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    line = line.replace("~", str(tmp_path))
    assert decide(root, line, allow=f"Bash({line.split()[0]}:*)").level is Level.ASK
