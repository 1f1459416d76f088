"""`python -m agent_tools.generate` writes tools.json: traits of the built-in tools, and schemas of their arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_tools.base import Tool
from agent_tools.record import Value, to_json
from agent_tools.registry import ASKED_BEFORE_CALLS, ROWS, TRAITS, load_class
from agent_tools.schema import build_schema

FILE = Path(__file__).parent / "tools.json"


def generate_schemas() -> str:
    """Return the expected content of tools.json, one tool per line."""
    lines = []
    for row in ROWS:
        tool = load_class(row)
        entry = {
            "class": row,
            "traits": {name: _plain(getattr(tool, name)) for name in Tool.__annotations__ if _is_set(tool, name)},
            "overrides": [name for name in ASKED_BEFORE_CALLS if getattr(tool, name) is not getattr(Tool, name)],
            "schema": build_schema(tool.Args),
        }
        lines.append(f'"{tool.name}":{json.dumps(entry, separators=(",", ":"))}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _is_set(tool: type[Tool[Any]], name: str) -> bool:
    return name in TRAITS and getattr(tool, name) != getattr(Tool, name, None)


def _plain(trait: Any) -> Any:
    return to_json(trait) if isinstance(trait, Value) else dict(trait) if hasattr(trait, "keys") else trait


if __name__ == "__main__":
    FILE.write_text(generate_schemas(), "utf-8")
