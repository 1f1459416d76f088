"""ToolSearch and UseTool: access to tools that are not sent with the request.

Their schemas would take too much of the window, or their server came up later: the list sent stays the same, so that
provider caches stay valid. Permissions are decided for the tool that UseTool names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from agent_cli.mcp.server import Server
from agent_cli.mcp.tools import McpTool
from agent_tools.base import Effect, Outcome, Tool, ToolContext, ToolError, ToolResult
from agent_tools.display import Note
from agent_tools.record import Value
from agent_tools.text import counted, shorten

_MOST = 5
_NAMES = 6_000


class ToolSearchArgs(Value):
    """The arguments of ToolSearch."""

    query: Annotated[str, "Words of the task, or select: and names of tools with commas between"]
    max_results: Annotated[int, "How many tools to show"] = _MOST


class ToolSearch(Tool[ToolSearchArgs]):
    """Finds tools of MCP servers by words and shows how to call them."""

    name = "ToolSearch"
    Args = ToolSearchArgs

    def __init__(self, servers: Callable[[], Iterable[Server]], find: Callable[[], dict[str, McpTool]]) -> None:
        self._servers = servers
        self._find = find

    def schema(self) -> dict[str, Any]:
        return SEARCH_SCHEMA

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the names of the tools that can be found, as far as there is room."""
        lines = []
        room = _NAMES
        for server in self._servers():
            if server.status in ("disabled", "unapproved"):
                continue
            names = ", ".join(offer.name for offer in server.tools.values())
            said = names or ("still starting" if server.status in ("starting", "waiting") else "not there")
            line = shorten(f"{server.name}: {said}", max(80, min(room, 1_500)))
            room -= len(line)
            lines.append(line)
        return "MCP servers and their tools:\n" + "\n".join(lines)

    def effects(self, args: ToolSearchArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: ToolSearchArgs, ctx: ToolContext) -> str:
        return f"Find tools: {shorten(args.query, 80)}"

    def run(self, args: ToolSearchArgs, ctx: ToolContext) -> Outcome:
        found = self._found(args.query, max(1, min(args.max_results, 20)))
        starting = [s.name for s in self._servers() if s.status == "starting"]
        late = f"\nStill starting: {', '.join(starting)}." if starting else ""
        if not found:
            known = ", ".join(f"{s.name} ({counted(len(s.tools), 'tool')})" for s in self._servers())
            return ToolResult(f"No tool matches. Available: {known}.{late}", Note("nothing found"))
        blocks = [
            f"{tool.name}\n{tool.offer.description}\narguments: {json.dumps(tool.offer.schema, ensure_ascii=False)}"
            for tool in found
        ]
        text = "\n\n".join(blocks) + f"\n\nCall one with UseTool.{late}"
        return ToolResult(text, Note(", ".join(t.name for t in found)))

    def _found(self, query: str, most: int) -> list[McpTool]:
        tools = self._find()
        if query.startswith("select:"):
            wanted = [name.strip() for name in query.removeprefix("select:").split(",")]
            return [t for t in tools.values() if t.name in wanted or t.offer.name in wanted][:most]
        words = set(_words(query))

        def score(tool: McpTool) -> int:
            name, said = set(_words(tool.name)), set(_words(tool.offer.description))
            near = sum(any(w in n or n in w for n in name) for w in words if len(w) > 2)
            return 6 * len(words & name) + 2 * near + len(words & said)

        ranked = sorted(((score(t), t.name) for t in tools.values()), key=lambda pair: (-pair[0], pair[1]))
        return [tools[name] for points, name in ranked if points][:most]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


class UseToolArgs(Value):
    """The arguments of UseTool."""

    tool: Annotated[str, "The name of the tool, as ToolSearch shows it"]
    arguments: Annotated[dict[str, Any], "Its arguments"] = {}  # noqa: RUF012 - never changed


class UseTool(Tool[UseToolArgs]):
    """Calls a tool of an MCP server by name."""

    name = "UseTool"
    Args = UseToolArgs

    def __init__(self, find: Callable[[], dict[str, McpTool]]) -> None:
        self._find = find

    def schema(self) -> dict[str, Any]:
        return USE_SCHEMA

    def resolve_target(self, args: UseToolArgs, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        tools = self._find()
        tool: Tool[Any] | None = tools.get(args.tool)
        if tool is None:
            import difflib

            near = difflib.get_close_matches(args.tool, tools, 3, 0.5)
            hint = f"Did you mean {', '.join(near)}?" if near else "Find it with ToolSearch."
            raise ToolError(f"There is no tool named {args.tool!r}. {hint}")
        return tool, tool.read(args.arguments)

    def effects(self, args: UseToolArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", args.tool),)

    def summary(self, args: UseToolArgs, ctx: ToolContext) -> str:
        return f"Use {shorten(args.tool, 80)}"

    def run(self, args: UseToolArgs, ctx: ToolContext) -> Outcome:
        tool, inner = self.resolve_target(args, ctx)
        return tool.run(inner, ctx)


# As pydantic would generate them; written by hand, since these tools are not part of the generated schemas.
SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words of the task, or select: and names with commas between"},
        "max_results": {"type": "integer", "description": "How many tools to show", "default": _MOST},
    },
    "required": ["query"],
}
USE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "description": "The name of the tool, as ToolSearch shows it"},
        "arguments": {"type": "object", "description": "Its arguments", "additionalProperties": True},
    },
    "required": ["tool"],
}
