"""Tools of a server that is still starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.tool_search import OwnTools, ToolSearch, UseTool


class Starting(OwnTools):
    """A source with a server that has not answered yet."""

    def starting(self) -> tuple[str, ...]:
        return ("docs",)


def test_a_call_before_its_server_has_started_names_the_server(tmp_path: Path) -> None:
    ctx, source = ToolContext(Workspace(tmp_path)), Starting((), lambda tool: "")
    with pytest.raises(ToolError, match=r"Still starting: docs\. Call it again later\."):
        UseTool(source).resolve_target(UseTool.Args("mcp__docs__find"), ctx)
    found = ToolSearch(source).run(ToolSearch.Args("find"), ctx)
    assert "Still starting: docs." in getattr(found, "text", "")
