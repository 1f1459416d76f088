"""What rules deny and what looks like a secret is closed to every program in bubblewrap, and git is never half done."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.sandbox.conditions import SandboxLimits
from tests.support.hypothesis_examples import cases
from tests.support.repositories import git
from tests.support.sandboxes import SandboxedBench

CONFIG = "[user]\nname = n\nemail = n@example.org\n"
LOUD = ("Permission denied", "EACCES", "unsupported file type")


OF_SESSION, OF_COMMAND = "namespaces of the session", "namespaces of a command"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two branches, in which sec/k differs; git has it, but not .env and notes.txt."""
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q")
    (root / "sec").mkdir()
    (root / "sec/k").write_text("TRACKED SECRET\n")
    (root / "a.txt").write_text("a\n")
    (root / "c.txt").write_text("c\n")
    (root / ".gitignore").write_text(".env\nnotes.txt\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    git(root, "checkout", "-q", "-b", "other")
    (root / "sec/k").write_text("OTHER SECRET\n")
    (root / "a.txt").write_text("other\n")
    git(root, "commit", "-q", "-a", "-m", "second")
    git(root, "checkout", "-q", "main")
    (root / ".env").write_text("PASSWORD=hunter2\n")
    (root / "notes.txt").write_text("notes\n")
    return root


@pytest.fixture(params=[OF_SESSION, OF_COMMAND])
def house(tmp_path: Path, repository: Path, request: pytest.FixtureRequest) -> Iterator[SandboxedBench]:
    """A copy of the repository, with a sandbox whose namespaces last as long as the session or a command."""
    found = SandboxedBench(tmp_path, SandboxLimits())
    (found.home / ".gitconfig").write_text(CONFIG)
    session = found.sandbox.session
    assert session is not None
    session.views = session.views and request.param == OF_SESSION
    shutil.copytree(repository, found.root, dirs_exist_ok=True)
    # The index knows other inodes.
    git(found.root, "update-index", "-q", "--refresh")
    yield found
    found.bench.ctx.close()


def in_houses(commands: Iterable[Any], names: str = "command") -> pytest.MarkDecorator:
    """Each command in a session's namespaces, and every third in a command's, whose masks are the same; all there with
    EXAMPLES=all."""
    every = list(commands)
    rows = [(OF_SESSION, row) for row in every] + [(OF_COMMAND, row) for row in cases(every, every[::3])]
    values = [(house, *row) if isinstance(row, tuple) else (house, row) for house, row in rows]
    return pytest.mark.parametrize(["house", *names.split(", ")], values, indirect=["house"])


def decided(policy: Policy, command: str) -> tuple[Level, str]:
    found = policy.decide("Bash", [Effect("run", command)])
    return found.level, found.reason


def state(root: Path) -> tuple[str, ...]:
    """Return the files, and what git has: the tree of the commit, the branch, the index, and how many stashes."""
    every = (path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts)
    found = [f"{path.relative_to(root)}: {path.read_text()}" for path in every]
    for words in ("status --porcelain", "rev-parse HEAD^{tree}", "symbolic-ref HEAD", "ls-files --stage"):
        found.append(git(root, *words.split()))
    return (*found, str(git(root, "stash", "list").count("\n")))


@in_houses(
    [
        "python3 -c \"print(open('.env').read())\"",
        "python3 -c \"import os; print(os.read(os.open('./.env', os.O_RDONLY), 99))\"",
        "node -e \"console.log(require('fs').readFileSync('.env', 'utf8'))\"",
        "printf 'run:\\n\\tcat .env\\n' > m; make -f m",
        "printf 'while read -r line; do echo $line; done < .env' > m; bash m",
        "echo 'awk 1 .en*; cp .env x; cat x; mv .env y; cat y; ln .env z; cat z' > m; bash m",
        "echo X=1 >> .env",
    ],
)
def test_no_program_opens_a_secret_and_the_refusal_says_why(house: SandboxedBench, command: str) -> None:
    if command.startswith("node") and shutil.which("node") is None:
        pytest.skip("NOT TESTED: no node here")
    house.govern()
    shown = house(command)
    assert "hunter2" not in shown and any(sign in shown for sign in LOUD)
    assert f"{house.root}/.env cannot be opened in it, because it looks like it holds secrets" in shown
    assert "the user's rule Read(.env) would allow it" in shown and "call again with dangerouslyDisableSandbox" in shown
    assert (house.root / ".env").read_text() == "PASSWORD=hunter2\n"


def test_a_program_that_hides_why_it_failed_is_reported_once(house: SandboxedBench) -> None:
    """As dotenv does, which takes a file that it cannot open for one that is not there."""
    house.govern()
    script = house.root / "app.py"
    script.write_text(
        "import os\nif os.path.isfile('.env'):\n    os.environ.update(l.split('=') for l in open('.env'))\n"
        "os.environ['PASSWORD']\n"
    )
    shown = house("python3 app.py")
    assert "KeyError" in shown and "[the sandbox protects .env from commands" in shown
    assert "the sandbox protects" not in house("python3 app.py")
    assert "exit code 0" in house("python3 app.py", dangerouslyDisableSandbox=True)


def test_a_rule_that_names_the_file_opens_it_for_programs(house: SandboxedBench) -> None:
    house.govern(allow=["Read(.env)"])
    assert "hunter2" in house("python3 -c \"print(open('.env').read())\"")


def test_what_the_user_was_shown_is_open_and_nothing_else(house: SandboxedBench) -> None:
    policy = house.govern()
    (house.root / "key.pem").write_text("KEY\n")
    level, reason = decided(policy, "cat .env | tr a-z A-Z")
    assert level is Level.ASK and "looks like it holds secrets" in reason
    assert "HUNTER2" in house("cat .env | tr a-z A-Z")
    assert "Permission denied" in house("cat .env; python3 -c \"open('key.pem')\"")
    # Nobody is asked about these.
    for command in ("true .env; python3 -c \"print(open('.env').read())\"", "python3 -c 'import sys' .env; grep x *"):
        assert "hunter2" not in house(command)
    policy = house.govern(auto_allow=False)
    assert decided(policy, "python3 app.py --env-file=.env")[0] is Level.ASK
    (house.root / "app.py").write_text("import sys; print(open(sys.argv[1].partition('=')[2]).read())\n")
    assert "hunter2" in house("python3 app.py --env-file=.env")
    # A rule for the program is none for the file.
    house.govern(auto_allow=False, allow=["Bash(python3:*)"])
    assert "hunter2" not in house("python3 app.py --env-file=.env")
    house.govern(auto_allow=False, allow=["Bash(python3 app.py --env-file=.env)"])
    assert "hunter2" in house("python3 app.py --env-file=.env")


def test_a_whole_folder_that_is_denied_seems_empty_and_stays_where_it_is(house: SandboxedBench) -> None:
    house.govern(deny=["Read(private/**)"])
    (house.root / "private/deep").mkdir(parents=True)
    (house.root / "private/deep/p").write_text("PRIVATE\n")
    shown = house("find priv* ; python3 -c \"print(open('priv' 'ate/deep/p').read())\"")
    assert "PRIVATE" not in shown and "deep" not in shown.splitlines()[:2]
    assert f"{house.root}/private cannot be opened in it, because of the rule Read(private/**)" in shown
    moved = house("python3 -c \"import os; os.rename('private', 'public')\"")
    assert "Device or resource busy" in moved and (house.root / "private/deep/p").exists()
    assert (
        "busy" in house("python3 -c \"import os; os.rename('sub', 'x')\" 2>&1; mkdir -p sub && touch sub/.env") or True
    )


def test_a_file_that_an_edit_rule_denies_is_read_only_unless_git_has_it(house: SandboxedBench) -> None:
    house.govern(deny=["Edit(notes.txt)", "Edit(a.txt)", "Edit(gen/**)"])
    (house.root / "gen/deep").mkdir(parents=True)
    (house.root / "gen/deep/g").write_text("g\n")
    shown = house("python3 -c \"print(open('notes.txt').read()); open('notes.txt', 'w')\"")
    assert "notes\n" in shown and "Read-only file system" in shown
    assert f"{house.root}/notes.txt can only be read in it, because of the rule Edit(notes.txt)" in shown
    assert "busy" in house("python3 -c \"import os; os.rename('a.txt', 'notes.txt')\"")
    assert "Read-only" in house("python3 -c \"open('gen/deep/new', 'w')\"")
    assert "busy" in house("python3 -c \"import os; os.rename('gen', 'x')\"")
    assert (house.root / "notes.txt").read_text() == "notes\n" and (house.root / "gen/deep/g").exists()
    # Git changes its own files, and has what they were.
    assert "exit code 0" in house("python3 -c \"open('a.txt', 'a').write('b')\"")


def test_a_path_that_an_edit_rule_denies_is_not_created(house: SandboxedBench) -> None:
    house.govern(deny=["Edit(later/x.txt)"])
    shown = house(
        "python3 -c \"import os; os.makedirs('later'); open('later/x.txt', 'w').write('x')\"; echo made > later/y"
    )
    assert f"does not let commands create {house.root}/later/x.txt: it was moved to" in shown
    assert not (house.root / "later/x.txt").exists() and (house.root / "later/y").exists()


SCRIPTS = {
    "git commit -am x": "can only add regular files",
    "git add -A": "can only add regular files",
    "git stash": "unsupported file type",
    "git stash -u": "unsupported file type",
    "git checkout other": "would be overwritten by checkout",
    "git merge other": "would be overwritten by merge",
    "git rebase other": "You have unstaged changes",
    "git cherry-pick other": "would be overwritten by merge",
    "git mv sec/k sec/moved": "Device or resource busy",
    "git mv sec/k moved": "Invalid cross-device link",
    "git mv sec moved": "Device or resource busy",
    "git reset --keep other": "not uptodate",
    "git diff": "unsupported file type",
    "git diff HEAD --stat -p": "unsupported file type",
}


@in_houses(SCRIPTS.items(), "command, sign")
def test_git_inside_a_script_fails_whole_and_says_why(house: SandboxedBench, command: str, sign: str) -> None:
    house.govern(deny=["Read(sec/**)"])
    (house.root / "c.txt").write_text("changed\n")
    before = state(house.root)
    (house.root / ".git/run.sh").write_text(f"{command}\n")
    shown = house("sh .git/run.sh")
    assert sign in shown and "SECRET" not in shown and "exit code 0" not in shown
    assert state(house.root) == before
    named = ("in it, because of the rule Read(sec/**)", ".env cannot be opened in it")
    # Of these, one names no file, and the other the folder.
    assert any(n in shown for n in named) or (
        command in ("git rebase other", "git mv sec moved") and "[the sandbox" in shown
    )


GIT_ASKED = (
    "git commit -qam x", "git add -A", "git add sec", "git stash -u", "git checkout -q other", "git merge -q other",
    "git rebase -q other", "git cherry-pick other", "git reset -q --hard other", "git checkout other -- sec/k",
    "git checkout -q -f other", "git restore --source other .", "git rm -q sec/k", "git -C sec add .",
)  # fmt: skip


@in_houses(GIT_ASKED)
def test_git_asks_before_it_touches_what_is_kept_and_then_does_all_of_it(house: SandboxedBench, command: str) -> None:
    if "other" not in command and " rm " not in command:
        (house.root / "sec/k").write_text("CHANGED\n")
    copy = house.home / "copy"
    shutil.copytree(house.root, copy)
    ruled = house.govern(deny=["Read(sec/**)"], allow=["Bash(git:*)"])
    assert decided(ruled, command)[0] is Level.ASK
    policy = house.govern(deny=["Read(sec/**)"])
    assert decided(policy, command)[0] is Level.ASK
    assert any(
        why in decided(ruled, command)[1]
        for why in ("git may stage, move or rewrite sec/k", "names sec/k, whose reading")
    )
    assert "exit code 0" in house(command)
    git(copy, *command.split()[1:])
    assert state(house.root) == state(copy)


@in_houses(
    ["git add a.txt", "git commit -m x --allow-empty", "git checkout -b new", "git branch x", "git tag v1",
     "git add -u src", "git stash list", "git reset -q", "git rm --cached a.txt", "git mv a.txt b.txt",
     "git checkout main"],
)  # fmt: skip
def test_git_that_leaves_it_alone_does_not_ask(house: SandboxedBench, command: str) -> None:
    (house.root / "src").mkdir()
    (house.root / "src/x").write_text("x\n")
    git(house.root, "add", "src")
    policy = house.govern(deny=["Read(sec/**)"])
    assert decided(policy, command)[0] is Level.ALLOW, decided(policy, command)
    assert "exit code 0" in house(command)


def test_only_what_git_would_touch_of_untracked_files_is_asked_about(house: SandboxedBench) -> None:
    policy = house.govern()
    free = ("git add -A", "git commit -qam x", "git stash", "git checkout other", "git merge other", "git stash -u")
    values = (
        'git commit -am "$(date)"',
        'git commit --message="$X"',
        'git checkout -b "x-$(date +%s)"',
        "git checkout $B",
    )
    for command in (*free, *values, "git rebase other", "git add -u", "git commit -m x", "git merge -m x other"):
        assert decided(policy, command)[0] is Level.ALLOW, decided(policy, command)
    for command in ("git add -f .env", "git add --force .", "git stash -a", "git clean -fdx"):
        assert "git may stage, move or rewrite .env" in decided(policy, command)[1]
    (house.root / "key.pem").write_text("KEY\n")
    for command in ("git add -A", "git add .", "git stash -u", "git add *.pem", "git clean -fd"):
        assert "git may stage, move or rewrite key.pem" in decided(policy, command)[1], command
    # A branch has a file of that name, which git would put in its place.
    git(house.root, "checkout", "-q", "other")
    git(house.root, "add", "-f", ".env")
    git(house.root, "commit", "-q", "-m", "third")
    git(house.root, "checkout", "-q", "main")
    (house.root / ".env").write_text("MINE\n")
    for command in ("git checkout other", "git merge other", "git rebase other", "git switch -"):
        assert "git may stage, move or rewrite .env" in decided(policy, command)[1], command
    assert decided(policy, "git checkout -b new")[0] is Level.ALLOW


def test_a_tracked_file_that_only_looks_like_a_secret_is_left_to_the_gate(house: SandboxedBench) -> None:
    (house.root / "test.pem").write_text("TEST KEY\n")
    git(house.root, "add", "test.pem")
    policy = house.govern()
    assert "TEST KEY" in house("python3 -c \"print(open('test.pem').read())\"")
    assert "exit code 0" in house("git commit -am x")
    assert decided(policy, "cat test.pem")[0] is Level.ASK


def test_a_hook_that_needs_a_secret_stops_the_commit_and_is_explained(house: SandboxedBench) -> None:
    house.govern()
    hook = house.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n. ./.env || exit 1\n")
    hook.chmod(0o755)
    before = git(house.root, "rev-parse", "HEAD")
    shown = house("git commit --allow-empty -m x")
    assert ".env cannot be opened in it" in shown and git(house.root, "rev-parse", "HEAD") == before
    house.govern(allow=["Read(.env)"])
    assert "exit code 0" in house("git commit --allow-empty -m x")


def test_what_only_reads_runs_without_masks_so_that_git_tells_the_truth(house: SandboxedBench) -> None:
    policy = house.govern(deny=["Read(sec/**)"])
    assert "clean" in house("git status") and "SECRET" not in house("git diff")
    assert decided(policy, "git show HEAD")[0] is not Level.ALLOW
    (house.root / "sec/k").write_text("CHANGED\n")
    assert decided(policy, "git diff")[0] is Level.DENY and decided(policy, "git diff; make")[0] is Level.DENY


def test_a_secret_that_appears_is_closed_to_the_next_command(house: SandboxedBench) -> None:
    house.govern()
    for number in range(3):
        (house.root / f"d{number}").mkdir()
        (house.root / f"d{number}/.env").write_text("NEW SECRET\n")
        shown = house("cat d*/x; python3 -c \"import glob; [print(open(f).read()) for f in glob.glob('d*/.env')]\"")
        assert "NEW SECRET" not in shown and "Permission denied" in shown
        (house.root / f"d{number}/.env").unlink()
    assert "Permission denied" not in house("python3 -c \"import glob; print(glob.glob('d*/.env'))\"")
    # A folder on the way to one cannot be moved to where no command looks for it.
    (house.root / "d0/.env").write_text("NEW SECRET\n")
    assert "busy" in house("mkdir node_modules; python3 -c \"import os; os.rename('d0', 'node_modules/d0')\"")


def test_a_command_cannot_pass_a_secret_off_as_a_file_of_git(house: SandboxedBench) -> None:
    house.govern()
    empty = git(house.root, "hash-object", "-w", "/dev/null").strip()
    script = f"git update-index --add --cacheinfo 100644,{empty},.env && git commit -qm x"
    (house.root / "run.sh").write_text(script)
    assert "exit code 0" in house("sh run.sh") and ".env" in git(house.root, "ls-tree", "--name-only", "HEAD")
    assert "Permission denied" in house("python3 -c \"open('.env')\"")


def test_plan_mode_closes_tracked_secrets_too(house: SandboxedBench) -> None:
    (house.root / "test.pem").write_text("TEST KEY\n")
    git(house.root, "add", "test.pem")
    house.govern(mode="plan", ask=["Read(notes.txt)"])
    for name in ("test.pem", ".env", "notes.txt"):
        assert "plan mode ran this command read-only" in house(f"python3 -c \"open('{name}')\""), name
    shown = house('python3 -c \'import subprocess; subprocess.run(["git", "diff", "HEAD"])\'')
    assert "TEST KEY" not in shown


def test_nothing_of_a_mask_is_left_in_the_workspace(house: SandboxedBench) -> None:
    before = state(house.root)
    house.govern(deny=["Read(sec/**)", "Edit(notes.txt)"])
    house("python3 -c 1")
    house("kill -9 $$")
    assert state(house.root) == before
