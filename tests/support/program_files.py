"""The files of the program, by the names of their modules."""

from __future__ import annotations

from pathlib import Path

from tests.support.fork_server import ROOT


def modules() -> dict[str, Path]:
    found = {}
    for base, package in ((ROOT, "agent_cli"), (ROOT / "tools", "agent_tools")):
        for path in sorted((base / package).rglob("*.py")):
            if "project" in path.parts:
                continue
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
