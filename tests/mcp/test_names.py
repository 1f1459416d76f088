"""Names of servers and their tools: a rule for a server covers all of its tools, and no other's."""

from __future__ import annotations

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.kernel.rules import names_tool
from agent_cli.mcp.catalog import full_name
from agent_cli.mcp.config import DeclaredServer

TOOLS = ("x", "_x", "__x", "a__b", "x" * 200, "Bash", "../x", "é\n")
LONGEST = "_".join("ab" for _ in range(13)) + "_x"


def _mistake(name: str) -> str:
    return DeclaredServer(name, McpServer(command="x"), "here", "project").problem


@pytest.mark.parametrize("name", ["git", "a-b", "a_b", "x" * 40, LONGEST])
def test_a_rule_for_a_server_covers_all_its_tools(name: str) -> None:
    assert _mistake(name) == ""
    for tool in TOOLS:
        full = full_name(name, tool)
        assert len(full) <= 64
        assert names_tool([f"mcp__{name}"], full), full
        assert not names_tool([f"mcp__{name[:-1]}", f"mcp__{name}x"], full)


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "-a", "a b", "a.b", "é", "x" * 41, f"{LONGEST}_y", "a/b"])
def test_other_names_are_mistakes(name: str) -> None:
    assert _mistake(name)
