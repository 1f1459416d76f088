"""Fixtures of the races."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.link_swaps import SwapWorkspace


@pytest.fixture
def ground(tmp_path: Path) -> SwapWorkspace:
    return SwapWorkspace(tmp_path)


@pytest.fixture(params=["openat2", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open a path; the second is what systems without openat2 have."""
    if request.param != "openat2":
        monkeypatch.setattr("agent_tools.fs.files._load_openat2", lambda: None)
    return str(request.param)


@pytest.fixture(params=["ripgrep", "without ripgrep"])
def searcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "ripgrep":
        monkeypatch.setattr("agent_tools.search.ripgrep.find_rg", lambda ctx: None)
    return str(request.param)
