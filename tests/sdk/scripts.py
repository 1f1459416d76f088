"""What the tests of the Python API share: a clean environment in this process, scripts, and the logs that are left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import call, clean_env, script


@pytest.fixture
def clean(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the process is that of a clean machine."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in clean_env(work.parent / "home").items():
        monkeypatch.setenv(name, value)


def scripted(work: Path, *replies: dict[str, Any]) -> str:
    return script(work.parent / f"{len(list(work.parent.iterdir()))}.toml", list(replies))


def logs(work: Path) -> list[Path]:
    return sorted((work.parent / "home").rglob("*.jsonl"))


def records(work: Path) -> list[str]:
    (log,) = logs(work)
    return [json.loads(line)["type"] for line in log.read_text("utf-8").splitlines()]


def write(name: str = "b.txt") -> dict[str, Any]:
    return call("Write", file_path=name, content="new\n")
