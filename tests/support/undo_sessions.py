"""Commands whose changes can be undone, in folders of several kinds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store, StoreConfig
from agent_cli.undo.undo import UndoManager
from agent_tools.base import Effect
from tests.support.repositories import GIT, git


class Session:
    """Commands run in a folder; the state before and after each is recorded."""

    def __init__(self, root: Path, bounds: SizeLimits | None = None) -> None:
        self.root = root
        state = root.parent / "state/snapshots/p"
        self.where = StoreConfig(
            state, (root,), os.environ["PATH"], str(root.parent / "home"), "s", bounds or SizeLimits()
        )
        self.recorder = Recorder(self.where, str, lambda: "m")
        self.count = 0
        self.notes: list[str] = []

    def run(self, command: str, *, new: bool = True) -> None:
        self.count += 1
        self.recorder.turn([UserMessage(command)], new=new)
        effects = [Effect("run", command)]
        self.notes += self.recorder.before(f"c{self.count}", "Bash", command, effects, str(self.root))
        subprocess.run(["bash", "-c", command], cwd=self.root, env=GIT, check=True, capture_output=True)
        self.notes += self.recorder.after(f"c{self.count}")

    @property
    def work(self) -> UndoManager:
        return UndoManager(Store(self.where))

    def undo(self, turn: int | None = None) -> tuple[list[str], tuple[str, ...]]:
        """Undo the latest turn; what was not put back, and the notes."""
        work = self.work
        number = turn or work.latest()
        assert number is not None
        plan = work.plan([number])
        assert not work.undo([number], plan.of("ready"))
        return [f"{Path(i.path).name}: {i.why}" for i in plan.of("ask", "lost")], plan.notes


def make(root: Path, kind: str) -> Path:
    """The folder to work in, of one kind."""
    if kind == "none":
        return root
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    if kind == "staged":
        (root / "staged.txt").write_text("staged\n")
        git(root, "add", "staged.txt")
        (root / "staged.txt").write_text("and changed\n")
        git(root, "stash", "store", "-m", "kept", git(root, "stash", "create").strip())
    elif kind == "merging":
        git(root, "checkout", "-qb", "other")
        (root / "a.txt").write_text("theirs\n")
        git(root, "commit", "-qam", "theirs")
        git(root, "checkout", "-q", "main")
        (root / "a.txt").write_text("ours\n")
        git(root, "commit", "-qam", "ours")
        with pytest.raises(subprocess.CalledProcessError):
            git(root, "merge", "-q", "other")
    elif kind == "worktree":
        git(root, "worktree", "add", "-q", str(root.parent / "tree/wt"))
        return root.parent / "tree/wt"
    elif kind == "submodule":
        (root.parent / "lib").mkdir()
        (root.parent / "lib/l.txt").write_text("lib\n")
        git(root.parent / "lib", "init", "-q")
        git(root.parent / "lib", "add", "-A")
        git(root.parent / "lib", "commit", "-qm", "lib")
        git(root, "submodule", "--quiet", "add", str(root.parent / "lib"), "sub")
    return root
