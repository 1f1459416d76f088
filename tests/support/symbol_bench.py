"""Calls of the tools for symbols, prepared and run as the engine does it, and a Python project with homonyms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_tools.base import ToolError
from tests.support.tool_bench import TOOLS, Bench

CORE = '''"""load is not load."""


def load(path):
    # load in a comment
    return "load: " + path


class Store:
    def load(self):
        return load("é😀") + "load"
'''
USE = """from pkg.core import Store, load
from pkg import core


def other():
    load = 3
    return load


print(load("x"), core.load("y"), Store().load(), "load")
"""


class SymbolBench(Bench):
    """Calls as the engine prepares them."""

    def call(self, name: str, between: Callable[[], object] = lambda: None, /, **arguments: Any) -> str:
        """What the model reads. between: what happens between the preparation and the run."""
        tool, args = TOOLS[name].resolve_target(TOOLS[name].read(arguments), self.ctx)
        args = tool.resolve_paths(args, self.ctx)
        assert tool.effects(args, self.ctx) and "\n" not in tool.summary(args, self.ctx)
        tool.preview(args, self.ctx)
        between()
        outcome = tool.run(args, self.ctx)
        while not hasattr(outcome, "text"):
            try:
                next(outcome)
            except StopIteration as stop:
                outcome = stop.value
        return str(outcome.text)

    def refused(self, name: str, /, *between: Callable[[], object], **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            self.call(name, *between, **arguments)
        return str(caught.value)
