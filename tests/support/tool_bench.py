"""One tool call after another in a workspace with real files, from arguments as a model writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_tools.base import Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.read_state import call_source
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN

TOOLS: dict[str, Tool[Any]] = {tool.name: tool for tool in BUILTIN}


class Bench:
    """Calls tools in one context and keeps the progress of the last call."""

    def __init__(self, root: Path) -> None:
        self.ctx = ToolContext(Workspace(root), env=dict(os.environ))
        self.root = self.ctx.workspace.root
        self.progress: list[str] = []
        self.calls = 0

    def args(self, name: str, arguments: dict[str, Any]) -> Any:
        return TOOLS[name].read(arguments)

    def __call__(self, name: str, /, **arguments: Any) -> ToolResult:
        args = self.args(name, arguments)
        TOOLS[name].effects(args, self.ctx)
        assert "\n" not in TOOLS[name].summary(args, self.ctx)
        self.calls += 1
        self.ctx.source = call_source(name, str(self.calls))
        outcome = TOOLS[name].run(args, self.ctx)
        self.progress = []
        if isinstance(outcome, ToolResult):
            return outcome
        while True:
            try:
                part = next(outcome)
                assert isinstance(part, Progress)
                self.progress.append(part.text)
            except StopIteration as stop:
                assert isinstance(stop.value, ToolResult)
                return stop.value

    def fails(self, name: str, /, **arguments: Any) -> str:
        """The message of a call that must fail."""
        with pytest.raises(ToolError) as caught:
            self(name, **arguments)
        return str(caught.value)

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
