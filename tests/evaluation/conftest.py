"""Folders of tasks, and the command that runs them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent

Evaluate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tasks(work: Path) -> Path:
    """Two tasks: one whose result is the answer, one whose result is a file."""
    folder = work.parent / "tasks"
    make_task(folder / "answer", 'grep -qx 42 "$AGENT_EVAL_RESULT" || { echo not the answer; exit 1; }')
    make_task(folder / "file", "grep -qsx made b.txt || { echo no b.txt; exit 1; }", {"a.txt": "hello\n"})
    return folder


@pytest.fixture
def evaluate(work: Path) -> Evaluate:
    """Return a function that runs `agent eval`, on a machine that counts as a container, without a sandbox."""

    def run(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return agent(["eval", *map(str, args)], work, {"IS_SANDBOX": "1", **env}, timeout=110)

    return run


@pytest.fixture
def make() -> Callable[..., Path]:
    return make_task


def make_task(folder: Path, check: str, files: dict[str, str] | None = None, toml: str = "") -> Path:
    """Write a task."""
    (folder / "repo").mkdir(parents=True)
    for name, text in (files or {}).items():
        (folder / "repo" / name).write_text(text)
    (folder / "prompt.md").write_text("Do it.\n")
    (folder / "check").write_text(f"#!/bin/sh\n{check}\n")
    (folder / "check").chmod(0o755)
    if toml:
        (folder / "task.toml").write_text(toml)
    return folder


@pytest.fixture
def by_name() -> Callable[[str], dict[tuple[str, str], dict[str, Any]]]:
    def read(out: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the runs of --output-format json by task and the end of the model's name."""
        return {(run["task"], Path(run["model"]).stem): run for run in json.loads(out)["runs"]}

    return read
