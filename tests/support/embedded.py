"""Shared by the tests of the Python API: a clean environment in this process, scripts, and the logs of sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.scripts import call, script


def scripted(work: Path, *replies: dict[str, Any]) -> str:
    return script(work.parent / f"{len(list(work.parent.iterdir()))}.toml", list(replies))


def logs(work: Path) -> list[Path]:
    return sorted((work.parent / "home").rglob("*.jsonl"))


def records(work: Path) -> list[str]:
    (log,) = logs(work)
    return [json.loads(line)["type"] for line in log.read_text("utf-8").splitlines()]


def write(name: str = "b.txt") -> dict[str, Any]:
    return call("Write", file_path=name, content="new\n")
