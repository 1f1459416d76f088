"""What is protected inside the workspace: repositories, settings, editor folders; there, missing or linked.

Landlock cannot do this, and says so; see `test_landlock_says_what_it_cannot_do`.
"""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.sandbox.profile import PROTECTED_NAMES
from agent_tools.sandbox.sandbox import Sandbox
from tests.support.sandboxes import SandboxTester, tree

WHO = "-c user.name=n -c user.email=n@example.org"


@pytest.fixture
def repository(bubblewrap: SandboxTester) -> SandboxTester:
    bubblewrap.git("init", "-q", ".")
    (bubblewrap.root / "a.txt").write_text("one\n")
    bubblewrap.git("add", ".")
    bubblewrap.git("commit", "-qm", "first")
    return bubblewrap


def test_git_works_inside(repository: SandboxTester) -> None:
    before = tree(repository.root)
    done = repository(
        f'set -e; git() {{ command git {WHO} "$@"; }}; echo two >> a.txt; git status --short; git add -A\n'
        "git commit -qm second; git log --oneline | wc -l; git checkout -qb side; echo three >> a.txt; git stash -q\n"
        "git stash pop -q; git commit -qam x\n"
        "git checkout -q -; git merge -q side; git tag v1; git gc -q; git repack -adq; git fsck; git diff HEAD~1 --stat"
    )
    assert done.code == 0, done.out
    assert done.out.startswith(" M a.txt\n2\n")
    repository.git("status")
    left = {p for p in tree(repository.root) - before if not p.startswith((".git/logs/", ".git/refs/"))}
    names = ("COMMIT_EDITMSG", "ORIG_HEAD", "packed-refs", "info/refs", "AUTO_MERGE")
    assert left <= {f".git/{name}" for name in names}


def test_what_a_commit_would_contain_is_what_was_there(repository: SandboxTester) -> None:
    repository("echo new > new.txt; git add -A; git status --short > ../seen; git status --short")
    assert repository("git status --short").out == "A  new.txt\n"


@pytest.mark.parametrize(
    "attack",
    [
        "echo '[core] fsmonitor = evil' >> .git/config",
        "git config core.fsmonitor evil",
        "echo evil > .git/hooks/pre-commit",
        "mkdir .git/hooks/x",
        "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/config .git/c; echo evil > .git/config",
        "echo '* filter=evil' > .git/info/attributes",
        "rm -f .git/info/attributes; echo '* filter=evil' > .git/info/a; mv -f .git/info/a .git/info/attributes",
        "echo '*' >> .git/info/exclude",
        "rm -rf .git/info; mkdir .git/info; echo '* filter=evil' > .git/info/attributes",
        "mv .git/info .git/i; mkdir .git/info; echo '* filter=evil' > .git/info/attributes",
        "rm -rf .git/info; ln -s .. .git/info; echo '* filter=evil' > attributes",
        "cp -r .git other; mkdir other/h; echo ../other > .git/commondir",
        "rm .git/commondir; echo ../other > .git/commondir",
        "echo '[core] fsmonitor = evil' > .git/config.worktree",
        "rm .git/config.worktree; echo evil > .git/config.worktree",
        "mv .git .gone && cp -r .gone .git && echo evil >> .git/config",
        "rm -rf .git; git init -q; echo evil >> .git/config",
        "ln -f a.txt .git/config",
        "ln -sfn a.txt .git/hooks",
        "mkdir -p .git/worktrees/x && echo evil >> .git/modules/x/config",
    ],
)
def test_a_repository_keeps_its_configuration_and_hooks(repository: SandboxTester, attack: str) -> None:
    (repository.root / ".git/modules/x").mkdir(parents=True)
    (repository.root / ".git/modules/x/config").write_text("[core]\n")
    git = repository.root / ".git"

    def held() -> list[tuple[str, bytes]]:
        patterns = ("config*", "commondir", "hooks/*", "info/exclude", "info/attributes", "modules/x/*")
        places = [place for pattern in patterns for place in git.glob(pattern)]
        return sorted((str(p), p.read_bytes()) for p in places)

    before = held()
    repository(attack)
    assert held() == before and git.is_dir() and not git.is_symlink()
    if "rm -rf .git;" not in attack:
        repository.git("status")


@pytest.mark.parametrize(
    ("name", "there"), [(".git", False), *((name, there) for name in PROTECTED_NAMES for there in (True, False))]
)
def test_settings_are_protected_whether_they_exist_or_not(bubblewrap: SandboxTester, name: str, there: bool) -> None:
    path = bubblewrap.root / name
    is_file = name in (".agentrc", ".agentrc.local", ".mcp.json")
    if there and is_file:
        path.write_text("old")
    elif there:
        path.mkdir()
    before = tree(bubblewrap.root)
    for attack in (
        f"echo evil > {name}",
        f"echo evil > {name}/settings.json",
        f"mkdir -p {name}/hooks && echo evil > {name}/hooks/x",
        f"rm -rf {name}; mkdir {name}; echo evil > {name}/x",
        f"echo evil > x; mv -f x {name}; rm -f x",
        f"rmdir {name}; ln -s /tmp {name}",
        f"mv {name} elsewhere && echo evil > {name}",
    ):
        out = bubblewrap(attack).out
        assert out or not there, attack
        assert tree(bubblewrap.root) - {"x"} == before, attack
        (bubblewrap.root / "x").unlink(missing_ok=True)
    assert not path.is_file() or path.read_text() == "old"


def test_a_link_under_another_programs_name_is_left_alone(bubblewrap: SandboxTester) -> None:
    (bubblewrap.root / ".cursor").mkdir()
    (bubblewrap.root / "elsewhere").mkdir()
    (bubblewrap.root / ".codex").symlink_to("elsewhere")
    done = bubblewrap("echo x > .cursor/mcp.json; mkdir .gemini; echo x > .codex/config")
    assert done.out.count("Read-only file system") == 1
    assert {".cursor", ".codex", "elsewhere/config"} <= tree(bubblewrap.root)
    assert ".gemini" not in tree(bubblewrap.root)


def test_a_protected_link_stops_the_sandbox(repository: SandboxTester) -> None:
    (repository.root / "shared").mkdir()
    (repository.root / ".claude").symlink_to("shared")
    profile = repository.profile()
    assert ".claude is a symbolic link" in repository.sandbox.obstacle(profile)
    with pytest.raises(ToolError, match=r"\.claude is a symbolic link, which cannot be protected. Ask to run"):
        repository("true")
    (repository.root / ".claude").unlink()
    assert repository.sandbox.obstacle(profile) == "" and repository("true").code == 0


def test_a_worktree_commits_to_its_repository_whose_parts_are_protected(repository: SandboxTester) -> None:
    repository.git("worktree", "add", "-q", "../tree")
    main, repository.root = repository.root, repository.root.parent / "tree"
    repository.roots = [repository.root]
    before = tree(main)
    done = repository(f"echo x > new && git add new && git {WHO} commit -qm inside && git log --oneline | wc -l")
    assert done.out == "2\n" and done.code == 0
    for attack in (
        f"echo evil >> {main}/.git/config",
        f"echo evil > {main}/.git/hooks/pre-commit",
        f"echo evil > {main}/.git/worktrees/tree/commondir",
        f"echo evil > {main}/.git/worktrees/tree/config.worktree",
        f"rm .git; echo 'gitdir: {main}/other' > .git",
        f"echo evil > {main}/a.txt",
    ):
        assert "evil" not in repository(attack).out
    assert (repository.root / ".git").read_text() == f"gitdir: {main}/.git/worktrees/tree\n"
    assert "evil" not in (main / ".git/config").read_text() + (main / "a.txt").read_text()
    assert (main / ".git/worktrees/tree/commondir").read_text() == "../..\n"
    assert {p for p in tree(main) - before if "refs" not in p and "logs" not in p} <= {
        f".git/worktrees/tree/{n}" for n in ("COMMIT_EDITMSG", "logs", "AUTO_MERGE")
    }


def test_a_pointer_to_someone_elses_directory_opens_nothing(bubblewrap: SandboxTester) -> None:
    theirs = bubblewrap.root.parent / "theirs"
    (theirs / "refs").mkdir(parents=True)
    (theirs / "HEAD").write_text("ref: refs/heads/main\n")
    (bubblewrap.root / ".git").write_text(f"gitdir: {theirs}\n")
    bubblewrap(f"echo evil > {theirs}/x")
    assert tree(theirs) == {"refs", "HEAD"}
    os.mkfifo(theirs / "gitdir")
    assert bubblewrap("true").code == 0


def test_nothing_is_left_behind_by_commands_side_by_side(repository: SandboxTester) -> None:
    before = tree(repository.root)
    other = SandboxTester("bubblewrap", repository.root.parent)
    ends = [threading.Thread(target=c, args=(f"sleep 0.{n}",)) for n, c in enumerate([repository, other] * 3)]
    for end in ends:
        end.start()
    last = repository("sleep 0.3; for n in 1 2 3 4 5 6 7 8; do echo evil > .mcp.json; sleep 0.05; done; echo end")
    for end in ends:
        end.join()
    assert last.out.endswith("end\n") and tree(repository.root) == before


def test_a_crash_leaves_only_what_git_ignores_and_the_next_command_removes_it(repository: SandboxTester) -> None:
    before = tree(repository.root)
    ready = repository.sandbox.prepare(["true"], repository.root, {}, repository.profile())
    left = {".git/commondir", ".git/config.worktree", ".git/info/attributes"}
    assert tree(repository.root) - before == left
    repository.git("status")
    # As if the program had been killed here: the locks go, what was made stays.
    for descriptor in list(ready._finish.args[1]._directories.values()):  # type: ignore[union-attr,attr-defined]
        os.close(descriptor)
    ready._finish.args[2].close()  # type: ignore[union-attr,attr-defined]
    ready._finish = None
    ready.close()
    assert repository("true").code == 0 and tree(repository.root) == before


def test_a_workspace_that_cannot_be_written_needs_no_placeholders(bubblewrap: SandboxTester) -> None:
    if os.geteuid() == 0:
        pytest.skip("NOT TESTED: root writes everywhere")
    bubblewrap.root.chmod(0o555)
    assert bubblewrap("ls -A; touch x").out.startswith("touch:")
    bubblewrap.root.chmod(0o755)


def test_a_held_lock_does_not_hold_a_command_up_for_long(repository: SandboxTester) -> None:
    holder = subprocess.Popen(
        ["flock", "-x", str(repository.root / ".git"), "sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert repository("echo fine").out == "fine\n"
    finally:
        os.killpg(holder.pid, 9)
        holder.wait()
    repository("true")
    assert not (repository.root / ".git/commondir").exists()


def test_landlock_says_what_it_cannot_do(landlock: SandboxTester) -> None:
    landlock.git("init", "-q", ".")
    assert landlock("git config a.b c").code == 0
    assert landlock.sandbox.limits[0] == "protected files inside the workspace can be written"
    assert Sandbox("bubblewrap").limits == ()
    assert Path(landlock.root / ".mcp.json").exists() is False


def test_a_bare_repository_as_workspace_keeps_its_configuration_and_hooks(bubblewrap: SandboxTester) -> None:
    bubblewrap.git("init", "-q", "--bare", ".")
    before = (bubblewrap.root / "config").read_bytes(), tree(bubblewrap.root / "hooks")
    bubblewrap("echo evil >> config; echo evil > hooks/post-receive; mv hooks h; mv config c; echo .. > commondir")
    assert ((bubblewrap.root / "config").read_bytes(), tree(bubblewrap.root / "hooks")) == before
    assert not (bubblewrap.root / "commondir").exists()
    who = "git -c user.name=n -c user.email=n@example.org"
    done = bubblewrap(
        f"{who} commit-tree -m x $({who} mktree </dev/null) > id && git update-ref refs/heads/x $(cat id)"
    )
    assert done.code == 0, done.out
