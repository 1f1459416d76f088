"""Proxies of sandboxed commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.loopback import threads
from tests.support.sandbox_proxies import RunningProxy


@pytest.fixture
def proxy(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., RunningProxy]]:
    """Starts proxies; in the end nothing of them is left, and nothing was printed."""
    made: list[RunningProxy] = []

    def start(*domains: str, **more: Any) -> RunningProxy:
        made.append(RunningProxy(domains, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()
    assert threads("sandbox-proxy") == 0
    assert capfd.readouterr() == ("", "")
