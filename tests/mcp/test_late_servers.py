"""Tools of a server that is still starting, or did not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.tool_search import OwnTools, ToolSearch, UseTool


class Starting(OwnTools):
    """A source with a server that has not answered yet, and one that has ended."""

    def missing(self) -> dict[str, str]:
        return {"docs": "", "web": "it ended with code 3\n\x1b[31m"}


def test_a_call_before_its_server_has_started_names_the_server(tmp_path: Path) -> None:
    ctx, source = ToolContext(Workspace(tmp_path)), Starting((), lambda tool: "")
    with pytest.raises(ToolError, match=r"Still starting: docs\. Call it again later\."):
        UseTool(source).resolve_target(UseTool.Args("mcp__docs__find"), ctx)
    found = ToolSearch(source).run(ToolSearch.Args("find"), ctx)
    assert "Still starting: docs." in getattr(found, "text", "")


def test_a_call_of_a_server_that_did_not_start_gets_the_reason(tmp_path: Path) -> None:
    ctx, source = ToolContext(Workspace(tmp_path)), Starting((), lambda tool: "")
    with pytest.raises(ToolError) as refused:
        UseTool(source).resolve_target(UseTool.Args("mcp__web__get"), ctx)
    text = str(refused.value)
    assert "Not available: web (it ended with code 3" in text and "ToolSearch" not in text and "\x1b" not in text
    found = ToolSearch(source).run(ToolSearch.Args("get"), ctx)
    assert "Not available: web (it ended with code 3" in getattr(found, "text", "")
