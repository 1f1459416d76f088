"""A workspace in which a function runs while a call writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent_tools.fs.workspace import Workspace
from tests.support.tool_bench import Bench


class RacingWorkspace(Workspace):
    """A workspace that calls a function just before the nth file is written."""

    happens: Callable[[], object] = staticmethod(lambda: None)
    at = 0

    def replace(self, path: Path, data: bytes, before: bytes | None) -> None:
        self.at -= 1
        if self.at == 0:
            self.happens()
        super().replace(path, data, before)


def racing(bench: Bench, at: int, happens: Callable[[], object]) -> None:
    bench.ctx.workspace = workspace = RacingWorkspace(bench.root)
    workspace.at, workspace.happens = at, happens
