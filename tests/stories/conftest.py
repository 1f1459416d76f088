"""The day of a story."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.stories.day import Day, a_day
from tests.tools.faults import own_mounts


@pytest.fixture
def day(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Day]:
    """What `story` asks for: a front end and a fault."""
    front, fault = request.param
    with own_mounts() if fault == "disk" else nullcontext(), a_day(tmp_path, front, fault) as found:
        yield found
