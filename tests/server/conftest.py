"""A server for the tests that only look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.served import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    work = tmp_path_factory.mktemp("attacked") / "work"
    work.mkdir()
    with served(work) as running:
        yield running
