"""The day of a story."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_faults import own_mounts
from tests.support.stories.day import Day, a_day

_TOLD: pytest.StashKey[bool] = pytest.StashKey()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A day takes seconds."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Note whether a story was told to its end, for the fixture."""
    report = yield
    if report.when == "call":
        item.stash[_TOLD] = report.passed
    return report


@pytest.fixture
def day(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Day]:
    """What `story` asks for, a front end and a fault; how the day ended is checked where the story was told."""
    front, fault = request.param
    with own_mounts() if fault == "disk" else nullcontext(), a_day(tmp_path, front, fault) as found:
        yield found
        if request.node.stash.get(_TOLD, False):
            found.over()
