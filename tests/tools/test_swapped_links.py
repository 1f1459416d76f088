"""Folders and files that turn into links while they are written to: nothing ever lands outside the workspace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.fs.workspace import Workspace

SWAPS = 10_000


class Swapper(threading.Thread):
    """Keeps putting a link in the place of something, and back."""

    def __init__(self, victim: Path, link: Path) -> None:
        super().__init__(daemon=True)
        self._victim, self._link, self._aside = victim, link, victim.with_name("aside")
        self._stopped = False
        self.swaps = 0

    def run(self) -> None:
        while not self._stopped:
            self._victim.rename(self._aside)
            self._link.rename(self._victim)
            self._victim.rename(self._link)
            self._aside.rename(self._victim)
            self.swaps += 1

    def stop(self) -> None:
        self._stopped = True
        self.join()


def attempts(swapper: Swapper, write: Callable[[int], None]) -> int:
    """Write again and again while links are swapped in; how often it worked."""
    done = number = 0
    swapper.start()
    try:
        while swapper.swaps < SWAPS or not done:
            number += 1
            try:
                write(number)
                done += 1
            except ToolError:
                pass
    finally:
        swapper.stop()
    return done


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text("precious")
    return folder


def writing(workspace: Workspace, path: Path) -> Callable[[int], None]:
    """Return what writes a file again and again, and never sees what is outside."""

    def write(number: int) -> None:
        before = workspace.read_if_there(path)
        assert before != b"precious", "a link was followed"
        if before is None:
            raise ToolError("away just now")
        workspace.replace(path, f"text {number}".encode(), before)

    return write


def test_a_folder_that_becomes_a_link(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("first")
    (tmp_path / "link").symlink_to(outside)
    workspace = Workspace(root)
    path = workspace.root / "sub" / "a.txt"

    assert attempts(Swapper(root / "sub", tmp_path / "link"), writing(workspace, path)) > 0
    assert [p.name for p in outside.iterdir()] == ["a.txt"]
    assert (outside / "a.txt").read_text() == "precious"
    assert not [p for p in (root / "sub").iterdir() if p.name != "a.txt"], "temporary files stay behind"


def test_a_file_that_becomes_a_link(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("first")
    (tmp_path / "link").symlink_to(outside / "a.txt")
    workspace = Workspace(root)
    path = workspace.root / "a.txt"

    assert attempts(Swapper(root / "a.txt", tmp_path / "link"), writing(workspace, path)) > 0
    assert (outside / "a.txt").read_text() == "precious"
