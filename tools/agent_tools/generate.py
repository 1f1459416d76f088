"""`python -m agent_tools.generate` writes schemas.json: the JSON schemas of the arguments of the built-in tools."""

from __future__ import annotations

import json
from pathlib import Path

from agent_tools.registry import BUILTIN
from agent_tools.schema import build_schema

FILE = Path(__file__).parent / "schemas.json"


def generated() -> str:
    """Return the expected content of schemas.json, one tool per line."""
    lines = (f'"{t.name}":{json.dumps(build_schema(t.Args), separators=(",", ":"))}' for t in BUILTIN)
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(generated(), "utf-8")
