"""The tools for resources of MCP servers, offered while a server has any: one lists them, one reads one.

They have the names that models know from Claude Code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from agent_cli.mcp.server import Server
from agent_cli.mcp.tools import resource_text, result_within, truncated_result, wait_for
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.display import Note
from agent_tools.record import Value
from agent_tools.results import Media
from agent_tools.text import counted, escape_controls, one_line, shorten

_MOST = 500
_FIELDS = ("uri", "name", "mimeType", "description")


class ListResourcesArgs(Value):
    """The arguments of ListMcpResourcesTool."""

    server: Annotated[str, "Only those of this server"] = ""


class ReadResourceArgs(Value):
    """The arguments of ReadMcpResourceTool."""

    ALIASES: ClassVar = {"server": ("server_name",)}

    server: Annotated[str, "The name of the server"]
    uri: Annotated[str, "The resource, as it is listed"]


class ListMcpResources(Tool[ListResourcesArgs]):
    """Lists the resources of the servers."""

    name = "ListMcpResourcesTool"
    description = "Lists the resources that MCP servers offer; ReadMcpResourceTool reads one."
    Args = ListResourcesArgs

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def schema(self) -> dict[str, Any]:
        return LIST_SCHEMA

    def effects(self, args: ListResourcesArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: ListResourcesArgs, ctx: ToolContext) -> str:
        return f"List the resources of {shorten(args.server, 40) or 'all servers'}"

    def run(self, args: ListResourcesArgs, ctx: ToolContext) -> ToolResult:
        servers = [_named(self._servers, args.server)] if args.server else list(self._servers.values())
        found = [
            {**{k: shorten(str(raw[k]), 300) for k in _FIELDS if raw.get(k)}, "uri": str(raw["uri"]), "server": s.name}
            for s in servers
            if s.status in ("ready", "waiting", "starting")
            for raw in s.resources.values()
        ]
        more = f"\n{len(found) - _MOST} more were left out; name a server." if len(found) > _MOST else ""
        lines = [escape_controls(json.dumps(entry, ensure_ascii=False)) for entry in found[:_MOST]]
        return ToolResult("\n".join(lines) + more or "There are no resources.", Note(counted(len(found), "resource")))


class ReadMcpResource(Tool[ReadResourceArgs]):
    """Reads a resource of a server; asks like a tool of that server."""

    name = "ReadMcpResourceTool"
    description = "Reads a resource of an MCP server. Binary data is saved to a file, which the result names."
    Args = ReadResourceArgs

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def schema(self) -> dict[str, Any]:
        return READ_SCHEMA

    def effects(self, args: ReadResourceArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", f"{one_line(args.server)}: {one_line(args.uri)}"),)

    def summary(self, args: ReadResourceArgs, ctx: ToolContext) -> str:
        return f"{shorten(args.server, 40)}: read {shorten(args.uri, 100)}"

    def run(self, args: ReadResourceArgs, ctx: ToolContext) -> ToolResult:
        server = _named(self._servers, args.server)
        wait_for(server, ctx.cancel)
        data = result_within(server.read(args.uri), ctx.cancel, server.name)
        media: list[Media] = []
        parts = [resource_text(content, media, ctx) for content in data.get("contents") or []]
        text = truncated_result("\n".join(parts), ctx) or "(it is empty)"
        return ToolResult(text, Note(shorten(text, 160)), media=tuple(media))


def _named(servers: Mapping[str, Server], name: str) -> Server:
    """Return the server of that name. Raises ToolError."""
    if name not in servers:
        raise ToolError(f"There is no MCP server {shorten(name, 60)!r}. The servers are: {', '.join(servers)}.")
    return servers[name]


# As pydantic would generate them; written by hand, since these tools are not part of the generated schemas.
_SERVER = {"type": "string", "description": "The name of the server"}
LIST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"server": {"type": "string", "description": "Only those of this server", "default": ""}},
}
READ_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"server": _SERVER, "uri": {"type": "string", "description": "The resource, as it is listed"}},
    "required": ["server", "uri"],
}
