"""The fixtures of the tool tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.fs import own_files
from tests.support.checkers import CheckerFolder
from tests.support.sandboxes import SandboxTester
from tests.support.tool_bench import Bench


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is moved away goes to a folder of these tests, as in a session, and not to the one of all programs."""
    before = own_files.shared_folder()
    own_files.share_in(tmp_path_factory.getbasetemp() / "state/sandbox")
    yield
    own_files._own.folder = before


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = tmp_path / "work"
    root.mkdir()
    return Bench(root)


@pytest.fixture
def checkers(home: Path) -> Iterator[CheckerFolder]:
    found = CheckerFolder(home)
    yield found
    found.close()


@pytest.fixture
def without_rg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.search.ripgrep.find_rg", lambda ctx: None)


@pytest.fixture(params=["bubblewrap", "landlock"])
def cage(request: pytest.FixtureRequest, tmp_path: Path) -> SandboxTester:
    return SandboxTester(request.param, tmp_path)


@pytest.fixture
def bubblewrap(tmp_path: Path) -> SandboxTester:
    return SandboxTester("bubblewrap", tmp_path)


@pytest.fixture
def landlock(tmp_path: Path) -> SandboxTester:
    return SandboxTester("landlock", tmp_path)
