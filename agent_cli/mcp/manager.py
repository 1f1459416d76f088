"""All MCP servers of a session: started in the background; waiting for them and stopping them has a time limit.

ToolSearch and UseTool give access to tools that are not in the requests, because their schemas would take too much of
the window or their server started late.

Two more tools list and read the resources of servers, if any server has some. They have the names that models know from
Claude Code.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from agent_cli.mcp.answers import read_contents, truncated_result
from agent_cli.mcp.config import DeclaredServer
from agent_cli.mcp.server import Loop, Server
from agent_cli.mcp.server_state import ServerSettings
from agent_cli.mcp.tools import McpTool, result_within, wait_for
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.results import Media, Note
from agent_tools.text import counted, escape_controls, one_line, shorten
from agent_tools.tool_search import FoundTool, ToolSearch, ToolSource, UseTool

_MAX_LISTED = 500
_FIELDS = ("uri", "name", "mimeType", "description")


class ListResourcesArgs(Value):
    """The arguments of ListMcpResourcesTool."""

    server: Annotated[str, "Only this server's"] = ""


class ReadResourceArgs(Value):
    """The arguments of ReadMcpResourceTool."""

    ALIASES: ClassVar = {"server": ("server_name",)}

    server: Annotated[str, "The name of the server"]
    uri: Annotated[str, "The resource, as listed"]


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
        servers = [_find_server(self._servers, args.server)] if args.server else list(self._servers.values())
        found = [
            {**{k: shorten(str(raw[k]), 300) for k in _FIELDS if raw.get(k)}, "uri": str(raw["uri"]), "server": s.name}
            for s in servers
            if s.status in ("ready", "waiting", "starting")
            for raw in s.resources.values()
        ]
        more = f"\n{len(found) - _MAX_LISTED} more were left out; name a server." if len(found) > _MAX_LISTED else ""
        lines = [escape_controls(json.dumps(entry, ensure_ascii=False)) for entry in found[:_MAX_LISTED]]
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
        server = _find_server(self._servers, args.server)
        wait_for(server, ctx.cancel)
        data = result_within(server.read(args.uri), ctx.cancel, server.name)
        media: list[Media] = []
        text = truncated_result(read_contents(data, media, ctx), ctx) or "(it is empty)"
        return ToolResult(text, Note(shorten(text, 160)), media=tuple(media))


def _find_server(servers: Mapping[str, Server], name: str) -> Server:
    """Return the server of that name. Raises ToolError."""
    if name not in servers:
        raise ToolError(f"There is no MCP server {shorten(name, 60)!r}. The servers are: {', '.join(servers)}.")
    return servers[name]


# As pydantic would generate them; written by hand, since these tools are not part of the generated schemas.
_SERVER = {"type": "string", "description": "The name of the server"}
LIST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"server": {"type": "string", "description": "Only this server's", "default": ""}},
}
READ_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"server": _SERVER, "uri": {"type": "string", "description": "The resource, as listed"}},
    "required": ["server", "uri"],
}


class ServerTools(Value):
    """The tools of the servers, for ToolSearch and UseTool."""

    servers: Callable[[], Iterable[Server]]
    find: Callable[[], dict[str, McpTool]]

    def found(self) -> dict[str, FoundTool]:
        return {name: FoundTool(t, t.offer.name, t.offer.description) for name, t in self.find().items()}

    def listed(self) -> list[str]:
        lines = []
        for server in self.servers():
            if server.status not in ("disabled", "unapproved"):
                names = ", ".join(offer.name for offer in server.tools.values())
                state = "still starting" if server.status in ("starting", "waiting") else "not running"
                lines.append(f"MCP server {server.name}: {names or state}")
        return lines

    def missing(self) -> dict[str, str]:
        return {
            server.name: "" if server.status == "starting" else server.reason or "it does not run"
            for server in self.servers()
            if server.status in ("starting", "failed", "login")
        }


# All servers are stopped within this time.
CLOSE_SECONDS = 1.7
# Assumed characters per token, and window of a model of unknown size.
_CHARS_PER_TOKEN = 4
# Part of the model's window that the schemas of servers' tools may take.
_SCHEMA_SHARE = 0.1
_ASSUMED_WINDOW_TOKENS = 128_000


_HOST_SECONDS = 60.0


class Servers:
    """The servers by name, which one session uses (`join`)."""

    def __init__(self, found: Iterable[DeclaredServer], setup: ServerSettings, disabled: Iterable[str] = ()) -> None:
        self._loop = Loop()
        self._news: list[str] = []
        self._guard = threading.Lock()
        self._started = self._closed = False
        self._tools: dict[str, McpTool] = {}
        self._added: set[str] = set()
        off = set(disabled)
        self._changed: Callable[[], None] = lambda: None
        self._offered: Callable[[str], bool] = lambda name: True
        self._setup = setup
        self._more: tuple[ToolSource, ...] = ()
        self.all = {f.name: self._make(f, f.server.disabled or f.name in off) for f in found}

    def _make(self, found: DeclaredServer, off: bool = False) -> Server:
        return Server(found, self._setup, self._loop, self._news.append, self._on_change, off)

    def _on_change(self) -> None:
        self._changed()

    def join(
        self, *, offered: Callable[[str], bool], changed: Callable[[], None], more: Iterable[ToolSource] = ()
    ) -> None:
        """Let a session use the servers.

        offered: returns whether a tool may be used at all. changed: called, on any thread, when the offers change.
        more: other tools that ToolSearch finds.
        """
        self._offered, self._changed, self._more = offered, changed, tuple(more)

    def start(self, after: float = 0.0, *, needed: bool = False) -> None:
        """Start all servers that may start, without waiting.

        after: delay in seconds.
        needed: start only servers whose offers are unknown.
        """
        if after:
            timer = threading.Timer(after, self.start)
            timer.daemon = True
            timer.start()
            return
        with self._guard:
            if self._started or self._closed:
                return
            self._started = not needed
            # Hold the lock, so that none starts after `close`.
            for server in self.all.values():
                if not (needed and server.from_cache and not server.may_start):
                    server.start()

    def replace_added(self, found: Iterable[DeclaredServer]) -> tuple[list[str], list[str]]:
        """Replace the servers that were added during the session; return the names of the new and the removed ones.

        Servers with the same declaration keep running. New ones are started at once; `wait` waits for them. The servers
        that the session started with are not replaced.
        """
        wanted = {f.name: f for f in found if f.name in self._added or f.name not in self.all}
        gone = [n for n in self.all if n in self._added and (n not in wanted or self.all[n].found != wanted[n])]
        for name in gone:
            self.all[name].disable()
        new = [f for name, f in wanted.items() if name in gone or name not in self.all]
        made = {f.name: self._make(f) for f in new}
        # Other threads read the mapping while it changes.
        self.all = {**{n: s for n, s in self.all.items() if n not in gone}, **made}
        self._added = set(wanted)
        for server in made.values():
            server.start()
        self._changed()
        return list(made), gone

    def wait(self, seconds: float, *, needed: bool = False, from_launch: bool = False) -> list[str]:
        """Start the servers if needed, and wait until all are running or have failed, for at most `seconds`.

        Return the names of those that are still starting.

        needed: do not wait for servers whose offers are known.
        from_launch: the time of each server begins when its process is started.
        """
        self.start(needed=needed)
        end = time.monotonic() + seconds
        waited = [s for s in self.all.values() if s.status == "starting" and not (needed and s.from_cache)]
        for server in waited:
            if from_launch:
                # A server in the host process has no process to start: its host may only be busy.
                server.wait_from_launch(max(seconds, _HOST_SECONDS) if server.found.kind == "sdk" else seconds)
            else:
                server.wait(max(0.0, end - time.monotonic()))
        return [server.name for server in waited if server.status == "starting"]

    def restart_logged_in(self, seconds: float) -> None:
        """Restart servers that needed a login if the user has logged in since; wait up to `seconds` for them."""
        logged_in = [s for s in self.all.values() if s.status == "login" and s.login_state() == "stored"]
        for server in logged_in:
            server.restart(0.0)
        end = time.monotonic() + seconds
        for server in logged_in:
            server.wait(max(0.0, end - time.monotonic()))

    def tools(self) -> dict[str, McpTool]:
        """Return the tools of all servers, by full name, in the order of the servers."""
        found: dict[str, McpTool] = {}
        for server in list(self.all.values()):
            for full, offer in list(server.tools.items()):
                if full not in found and self._offered(full):
                    known = self._tools.get(full)
                    found[full] = known if known is not None and known.offer == offer else McpTool(server, offer)
        self._tools = found
        return found

    def request_tools(self, how: Literal["auto", "always", "never"], window: int | None) -> list[Tool[Any]]:
        """Return the tools for every request: those of the servers, or ToolSearch and UseTool to find them."""
        tools = list(self.tools().values())
        size = sum(tool.offer.size for tool in tools)
        most = _SCHEMA_SHARE * (window or _ASSUMED_WINDOW_TOKENS) * _CHARS_PER_TOKEN
        if how == "always" or (how == "auto" and size > most):
            return self._finders()
        known = ("ready", "disabled")
        late = any(s.status not in known and not (s.from_cache and not s.may_start) for s in self.all.values())
        return [*tools, *(self._finders() if late else [])]

    def _finders(self) -> list[Tool[Any]]:
        sources = (*self._more, ServerTools(self.all.values, self.tools))
        return [ToolSearch(*sources), UseTool(*sources)]

    def take_notifications(self) -> list[str]:
        """Return and clear the pending notifications for the user; each is a sentence."""
        news, self._news[:] = self._news[:], []
        return news

    def close(self) -> None:
        """Stop all servers and their processes within CLOSE_SECONDS."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        running = [f for server in self.all.values() if (f := server.stop()) is not None]
        if not running:
            return
        from concurrent.futures import wait as wait_for_all

        wait_for_all(running, CLOSE_SECONDS)
        for server in self.all.values():
            server.end_at_once()
        self._loop.stop(0.2)
