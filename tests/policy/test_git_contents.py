"""Calls of git that print files: judged like reading those files, whichever way they are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.git_use import Use
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.hostile.git import begin_inner
from tests.support.repositories import git

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose first commit has a secret file and a source; the second renames the secret one."""
    folder = tmp_path_factory.mktemp("contents") / "work"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".env").write_text("KEY=1\nanother line\nand another\n")
    (folder / "src/a.py").write_text("a\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "-a", "-m", "x", "object", git(folder, "rev-parse", "HEAD:.env").strip())
    git(folder, "mv", ".env", "settings.txt")
    git(folder, "commit", "-qm", "two")
    (folder / "plain.txt").write_text("plain\n")
    git(folder, "add", "plain.txt")
    git(folder, "commit", "-qm", "three .env")
    (folder / "src/a.py").write_text("b\n")
    git(folder, "stash", "-q")
    (folder / "src/a.py").write_text("c\n")
    (folder / ".env").write_text("KEY=2\n")
    return folder


def decide(root: Path, command: str, *, use: Use = "plain", cwd: Path | None = None, **lists: str) -> Decision:
    rules = [read_rule(kind, text, "test", root) for kind, text in lists.items()]  # type: ignore[arg-type]
    policy = Policy(Workspace(root, (), cwd or root), rules, env=ENV, git_use=use)
    return policy.decide("Bash", [Effect("run", command)])


@pytest.mark.parametrize(
    "command",
    [
        "git log -p", "git log -p --all", "git log --cc", "git log -p --graph --oneline", "git log -U1 --format=%H",
        "git log -p -S KEY", "git log -p -n 2", "git log -p --follow settings.txt", "git show HEAD~1",
        "git show HEAD~2", "git show HEAD~2 --stat -p", "git show HEAD~1 -M", "git show HEAD~1 --relative",
        "git show HEAD~2:.env", "git show HEAD~2:./.env", "git show :settings.txt object", "git show object",
        "git cat-file -p object", "git cat-file blob HEAD~2:.env", "git cat-file -p HEAD~2:.env", "git diff HEAD~2",
        "git diff HEAD~2 HEAD", "git diff HEAD~2 HEAD --word-diff", "git diff HEAD~2 --check",
        "git diff HEAD~2..HEAD~1 -M -C", "git reflog -p", "git diff HEAD~2:.env HEAD:plain.txt",
        "git grep KEY HEAD~2", "git grep --untracked KEY", "git blame HEAD~2 .env",
        "git grep -h -n --color=always KEY HEAD~2 -- .", "git log -L1,1:settings.txt", "git grep -c KEY HEAD~2",
    ],
)  # fmt: skip
def test_a_secret_is_not_printed_without_a_question(root: Path, command: str) -> None:
    found = decide(root, command)
    assert found.level is Level.ASK, found
    assert found.final or "unknown files" in found.reason


@pytest.mark.parametrize(
    "command",
    [
        "git log", "git log --stat --all", "git log --oneline --graph", "git log -p -1",
        "git log -p HEAD~2.. -- src", "git show", "git show --stat HEAD~2", "git show HEAD~2 --name-only",
        "git show HEAD:src/a.py", "git show main -s", "git diff", "git diff HEAD", "git diff --cached",
        "git diff HEAD~2 --stat", "git diff -- src", "git diff --check", "git grep KEY -- src", "git grep plain",
        "git grep -l KEY", "git grep -n b HEAD", "git cat-file -p HEAD", "git cat-file -t object",
        "git cat-file -p HEAD:src", "git stash show -p", "git stash list -p", "git blame src/a.py", "git status",
        "git status -v", "git log -L1,1:src/a.py", "git log -p --follow src/a.py",
    ],
)  # fmt: skip
def test_what_prints_no_secret_is_not_asked_about(root: Path, command: str) -> None:
    assert decide(root, command).level is Level.ALLOW, decide(root, command)


@pytest.mark.parametrize(
    "command",
    [
        "git diff", "git diff HEAD", "git status -v", "git log -p", "git show HEAD~2", "git show HEAD:src/a.py",
        "git grep -i C", "git grep -n c", "git blame src/a.py", "git stash show -p", "git log -L1,1:src/a.py",
        "git diff -- .", "git log -p --follow src/a.py", "git diff HEAD~2 --word-diff",
        "git cat-file -p HEAD:src/a.py", "git diff --check",
    ],
)  # fmt: skip
def test_a_denial_of_files_holds_also_where_git_is_allowed(root: Path, command: str) -> None:
    for lists in ({"deny": "Read(src/**)"}, {"deny": "Read(src/**)", "allow": "Bash(git:*)"}):
        assert decide(root, command, **lists).level is Level.DENY


def test_a_name_that_a_glob_finds_is_no_revision_of_a_denied_file(root: Path) -> None:
    assert decide(root, "git show *", deny="Read(.env)").level is Level.ALLOW
    named = root / "HEAD~2:.env"
    named.touch()
    try:
        for command in ("git show *", "git show HEAD*", "git show H*~2:*"):
            found = decide(root, command, allow="Bash(git:*)", deny="Read(.env)")
            assert (found.level, found.final) == (Level.ASK, True), command
    finally:
        named.unlink()


def test_all_files_are_compared_before_one_is_asked_about(root: Path) -> None:
    """The secret one comes first in the list of names."""
    assert decide(root, "git show HEAD~2", deny="Read(src/**)").level is Level.DENY


@pytest.mark.parametrize("use", ["plain", "trusted"])
def test_names_from_a_folder_below_are_those_of_the_repository(root: Path, use: Use) -> None:
    found = decide(root, "git show HEAD:src/a.py", use=use, cwd=root / "src", deny="Read(/src/**)")
    assert found.level is Level.DENY
    assert decide(root, "git show HEAD~2", use=use, cwd=root / "src", deny="Read(/src/**)").level is Level.DENY


def test_what_cannot_be_computed_is_asked_about(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = {"deny": "Read(src/**)", "allow": "Bash(git:*)"}
    for use, command in (("unknown", "git diff"), ("plain", "cd ../home && git diff"), ("plain", "git diff nowhere")):
        found = decide(root, command, use=use, **denied)  # type: ignore[arg-type]
        assert found.level is Level.ASK, (use, command, found)
    monkeypatch.setattr("agent_cli.policy.command_reads.GIT_SECONDS", 0.0)
    monkeypatch.setattr("agent_cli.policy.programs.git_reads._MAX_OUTPUT_BYTES", 1)
    assert "unknown files" in decide(root, "git log -p").reason


@pytest.mark.parametrize(
    "command", ["cd src && git diff", "git -C src diff", "git -C src show HEAD -- .", "git -C src log -p -- ."]
)
def test_what_git_prints_from_a_folder_below_is_computed_there(root: Path, command: str) -> None:
    assert decide(root, command, deny="Read(src/**)").level is Level.DENY
    assert decide(root, command, deny="Read(nothing/**)").level is Level.ALLOW


def test_submodules_are_entered_only_where_they_bring_nothing(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    begin_inner(root / "inner")
    git(root, "add", "inner")
    git(root, "commit", "-qm", "x")
    for command in ("git status", "git diff", "git diff HEAD", "git status --ignore-submodules=dirty"):
        assert "would enter a submodule" in decide(root, command, use="trusted").reason
    for command in (
        "git status --ignore-submodules",
        "git diff --cached",
        "git log -1",
        "git diff --ignore-submodules=all",
    ):
        assert decide(root, command, use="trusted").level is Level.ALLOW
    keys = ("core.fsmonitor", "filter.evil.clean", "diff.evil.textconv")
    for key in keys:
        git(root / "inner", "config", "--unset", key)
    assert decide(root, "git status").level is Level.ALLOW
