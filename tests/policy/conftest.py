"""The folder that most decisions are about."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with an empty `src`."""
    (tmp_path / "work/src").mkdir(parents=True)
    return tmp_path / "work"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the program's state."""
    return tmp_path / "state"
