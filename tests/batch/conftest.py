"""A batch of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import Batches


@pytest.fixture
def batches(work: Path) -> Batches:
    return Batches(work)
