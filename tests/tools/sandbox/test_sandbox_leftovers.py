"""What older versions of the sandbox left in a workspace: removed, unless it is the user's or still in use."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.sandboxes import SandboxTester


@pytest.fixture
def repository(bubblewrap: SandboxTester) -> SandboxTester:
    bubblewrap.git("init", "-q", ".")
    (bubblewrap.root / "a.txt").write_text("one\n")
    return bubblewrap


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()} - {".git"}


@pytest.mark.parametrize("made", [lambda p: p.mkdir(0o1555), lambda p: os.mknod(p, 0o140600)], ids=["folder", "socket"])
def test_leftovers_of_older_versions_are_removed(repository: SandboxTester, made: Callable[[Path], None]) -> None:
    for name in (".agentrc", ".vscode"):
        made(repository.root / name)
    assert repository("ls -A").out.split() == [".git", "a.txt"]
    assert names(repository.root) == {"a.txt"}


def test_an_empty_folder_of_the_user_is_no_leftover(repository: SandboxTester) -> None:
    (repository.root / ".vscode").mkdir()
    (repository.root / ".idea").mkdir(0o555)
    assert "Read-only" in repository("touch .vscode/x; ls -A").out
    assert {".vscode", ".idea"} <= names(repository.root)


def test_leftovers_that_an_older_version_still_uses_stay(repository: SandboxTester) -> None:
    (repository.root / ".vscode").mkdir(0o1555)
    holder = os.open(repository.root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    try:
        assert repository("chmod 755 .vscode; echo evil > .vscode/tasks.json").code == 0
        assert not (repository.root / ".vscode/tasks.json").exists()
    finally:
        os.close(holder)
