"""The environment of a process that embeds the program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.program import clean_env


@pytest.fixture
def clean(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the process is that of a clean machine."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in clean_env(work.parent / "home").items():
        monkeypatch.setenv(name, value)
