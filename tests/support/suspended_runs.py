"""Runs that wait for a user, and the commands that decide."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.support.program import agent
from tests.support.scripts import call, script


def once(line: str) -> dict[str, Any]:
    return call("Bash", command=f"echo {line} >> log")


def log(work: Path) -> list[str]:
    return (work / "log").read_text().split() if (work / "log").exists() else []


def suspend(work: Path, replies: list[dict[str, Any]], *flags: str) -> subprocess.CompletedProcess[str]:
    model = script(work / "s.toml", replies)
    done = agent(["-p", "--model", model, "--on-ask", "suspend", *flags, "do it"], work)
    assert done.returncode == 3, done.stderr
    return done


def pending(work: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(agent(["pending", "--json"], work).stdout)
    return found


PLAN = call("ExitPlanMode", plan="# Plan\n1. Write b.txt")


WRITE = call("Write", file_path="b.txt", content="x")


def plan_run(work: Path, *more: dict[str, Any]) -> None:
    model = script(work / "s.toml", [{"calls": [PLAN]}, *more])
    done = agent(["-p", "--model", model, "--permission-mode", "plan", "plan it"], work)
    assert (done.returncode, done.stdout) == (3, "# Plan\n1. Write b.txt\n"), done.stderr


def printed(text: str) -> list[str]:
    """Return the commands that a list offers."""
    return [line.strip(" >") for line in text.splitlines() if line.strip(" >").startswith("agent ")]


def as_printed(command: str, work: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return agent([*shlex.split(command)[1:], *more], work)
