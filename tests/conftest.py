"""Fixtures that several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A small workspace: a folder with an empty `.git` and one file, `a.txt`; its parent is there for a home."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.txt").write_text("hello world\n")
    return folder
