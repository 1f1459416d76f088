"""The environment that providers are reached from."""

from __future__ import annotations

import pytest

from tests.support.stalled_ports import VARIABLES


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
