"""Who compiles the test modules: in a fresh clone the workers of pytest-xdist do it together."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import pytest

from tests.support.fork_server import ROOT


def share_compilation(config: pytest.Config) -> None:
    """Import the test modules in a worker that collects all of them, its own share first.

    Rewriting the assertions of a module takes longer than all else of collection. Workers that import in the same order
    all do it for every module at the same time; as each begins elsewhere, most find what another has written.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    for share in range(number, number + count):
        for path in paths[share % count :: count]:
            # What cannot be imported, or skips itself, is reported when it is collected.
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
