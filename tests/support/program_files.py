"""The files of the program, by the names of their modules."""

from __future__ import annotations

import ast
import gc
from functools import cache
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


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the syntax tree of a file, itself first, as `ast.walk` gives them; a process parses it once.

    All files together are a million objects that stay, which the collector need not look through again and again.
    """
    gc.disable()
    try:
        return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))
    finally:
        gc.freeze()
        gc.enable()


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module
