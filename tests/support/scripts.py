"""Scripts for the scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.fork_server import ROOT as ROOT


def script(path: Path, replies: list[dict[str, Any]]) -> str:
    """Write a script for the scripted model; returns the model's name."""
    tables = ("[[reply]]\n" + "\n".join(f"{k} = {_toml(v)}" for k, v in r.items()) for r in replies)
    path.write_text("\n".join(tables), "utf-8")
    return f"scripted:{path}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a script."""
    return {"name": name, "arguments": arguments}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # Characters as they are: TOML has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"calls": [call("Bash", command=command, **more)]}


def task(kind: str = "general", prompt: str = "find it") -> dict[str, Any]:
    return call("Task", subagent_type=kind, description="find it", prompt=prompt)
