"""Commands that show the files that another command lists: judged by what they read, not by the unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule, split_rules
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.repositories import git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a\n")
    (root / "b.md").write_text("b\n")
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    return root


def level(root: Path, command: str, allow: str = "", deny: str = "") -> Level:
    rules = [read_rule("allow", r, "test", root) for r in split_rules(allow)]
    rules += [read_rule("deny", r, "test", root) for r in split_rules(deny)]
    policy = Policy(Workspace(root), rules, home=str(root.parent / "home"), env={"PATH": "/usr/bin:/bin", "FOO": "x"})
    return policy.decide("Bash", [Effect("run", command)]).level


READING = [
    "git ls-files | xargs wc -l", "wc -l $(git ls-files)", "cat `git ls-files`", "git ls-files -z | xargs -0 wc -l",
    "git ls-files '*.py' | head -5 | xargs cat", "git ls-files | grep test | xargs wc -l",
    "git ls-files | sort | uniq | xargs -I{} head -1 {}", "cat $(git diff --name-only)", "rg --files | xargs head -1",
    "find . -type f | xargs grep -l x", "find src -name '*.py' -print0 | xargs -0 wc -l",
    "grep -rl x src | xargs grep -n y", "find . -name '*.py' -exec grep -n foo {} +", "find src -exec ls -l {} \\;",
    "ls *.md | xargs wc -l", "x=$(git rev-parse HEAD); echo $x", 'while read l; do echo "$l"; done < b.md',
    'echo "$(git log -1 --format=%s)"', 'git ls-files | while read -r f; do echo "${f%.py}"; done',
    "for f in $(git ls-files); do echo $f; done", 'for f in src/*.py; do wc -l "$f"; done',
    "git grep -l a | xargs head -3", "echo $HOME",
]  # fmt: skip


@pytest.mark.parametrize("command", READING)
def test_showing_what_is_listed_only_reads(repo: Path, command: str) -> None:
    assert level(repo, command) is Level.ALLOW
    assert level(repo, command, deny="Read(other/**)") is not Level.DENY


ASKING = [
    "echo /etc/shadow | xargs cat", "git ls-files | xargs rm", "git ls-files | xargs cat <<< /etc/shadow",
    "git ls-files | xargs cat <<END\n/etc/shadow\nEND", "git ls-files | xargs cat < b.md",
    "git ls-files | xargs sh -c x", "git ls-files; echo /etc/passwd | xargs cat",
    "git ls-files | xargs cat; echo /etc/passwd | xargs cat", "(git ls-files; echo /etc/passwd) | xargs cat",
    "git ls-files && xargs cat", "git ls-files 2>&1 | xargs cat", "git ls-files | sed s/a/b/ | xargs cat",
    "git ls-files | grep -o /etc | xargs cat", "git ls-files | xargs -a b.md cat",
    "cat $(git ls-files; echo /etc/passwd)", "cat $(echo /etc/passwd)", "cat $(cat b.md)", "cat b.md | xargs cat",
    "git -C .. ls-files | xargs cat", "git ls-files | xargs -d x cat", "find . -printf '/etc/passwd' | xargs cat",
    "find / -name passwd | xargs cat", "git log --name-only | xargs cat", "x=$SECRET; echo $x",
    "FOO=y; echo $FOO; echo $BAR", "read PATH < b.md; echo $PATH", "x=$(cat /etc/shadow); echo $x", "echo ${!FOO}",
    "git ls-files | xargs cat | sh", "git ls-files | tee x | xargs cat", "ls src | xargs -I{} rm src/{}",
    "git ls-files | env xargs cat -- $BAR",
]  # fmt: skip


@pytest.mark.parametrize("command", ASKING)
def test_names_from_elsewhere_ask(repo: Path, command: str) -> None:
    assert level(repo, command) is Level.ASK


def test_secrets_and_links_among_the_listed_files_ask(repo: Path) -> None:
    (repo / ".env").write_text("KEY=x")
    assert level(repo, "git ls-files | xargs wc -l") is Level.ALLOW  # git does not list it
    assert level(repo, "git ls-files -o | xargs cat") is Level.ASK
    assert level(repo, "find . -type f | xargs cat") is Level.ASK
    git(repo, "add", "-f", ".env")
    assert level(repo, "git ls-files | xargs cat") is Level.ASK
    git(repo, "rm", "-qf", ".env")
    (repo / "out").symlink_to("/etc")
    assert level(repo, "find . -exec grep x {} +") is Level.ASK
    git(repo, "add", "out")
    assert level(repo, "git ls-files | xargs cat") is Level.ASK


def test_a_name_that_is_split_into_another_asks(repo: Path) -> None:
    folder = repo / "x /etc"
    folder.mkdir(parents=True)
    (folder / "passwd").write_text("")
    assert level(repo, "find . -type f | xargs cat") is Level.ASK
    assert level(repo, "find . -type f -print0 | xargs -0 cat") is Level.ALLOW
    git(repo, "add", ".")
    assert level(repo, "git ls-files | xargs cat") is Level.ASK
    assert level(repo, "cat $(git ls-files)") is Level.ASK


@pytest.mark.parametrize("command", ['echo "$(<b.md)"', 'echo "$(< .env)"', "cat $(<b.md)", "wc -l $(< b.md)"])
def test_a_file_in_place_of_a_command_is_judged_as_a_file(repo: Path, command: str) -> None:
    (repo / ".env").write_text("KEY=x")
    assert level(repo, command) is (Level.ALLOW if command == 'echo "$(<b.md)"' else Level.ASK)


def test_a_denied_file_among_the_listed_ones_is_not_read(repo: Path) -> None:
    for command in ("git ls-files | xargs cat", "cat $(git ls-files)", "find src | xargs cat", "find . -exec cat {} +"):
        assert level(repo, command, deny="Read(src/a.py)") is not Level.ALLOW


def test_next_to_a_command_that_writes_the_names_are_not_known(repo: Path) -> None:
    assert level(repo, "mv b.md 'x /etc/passwd' && git ls-files | xargs cat", allow="Bash(mv:*)") is Level.ASK
    assert level(repo, "touch z; cat $(git ls-files)", allow="Bash(touch:*)") is Level.ASK
