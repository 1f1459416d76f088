"""All MCP servers of a session: started in the background, waited for and stopped within time limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from agent_cli.mcp.config import DeclaredServer
from agent_cli.mcp.server import Loop, Server
from agent_cli.mcp.server_state import ServerSettings
from agent_cli.mcp.tool_search import ToolSearch, UseTool
from agent_cli.mcp.tools import McpTool
from agent_tools.base import Tool

# Seconds in which all servers are stopped, whatever they do.
CLOSE = 1.7
# Characters per token, and the window size if the model's is unknown.
_PER_TOKEN = 4
_WINDOW = 128_000


class Servers:
    """The servers by name.

    changed: called, on any thread, when the offers change.
    offered: returns whether a tool may be used at all.
    """

    def __init__(self, found: Iterable[DeclaredServer], setup: ServerSettings, disabled: Iterable[str] = ()) -> None:
        self._loop = Loop()
        self._news: list[str] = []
        self._guard = threading.Lock()
        self._begun = self._closed = False
        self._made: dict[str, McpTool] = {}
        off = set(disabled)
        self.changed: Callable[[], None] = lambda: None
        self.offered: Callable[[str], bool] = lambda name: True
        self.all = {f.name: Server(f, setup, self._loop, self._news.append, f.name in off) for f in found}
        for server in self.all.values():
            server.changed = self._on_change

    def _on_change(self) -> None:
        self.changed()

    def begin(self, after: float = 0.0, *, needed: bool = False) -> None:
        """Start all servers that may start, without waiting.

        after: delay in seconds.
        needed: only servers whose offers are unknown.
        """
        if after:
            timer = threading.Timer(after, self.begin)
            timer.daemon = True
            timer.start()
            return
        with self._guard:
            if self._begun or self._closed:
                return
            self._begun = not needed
            # Inside the lock, so that none starts after `close`.
            for server in self.all.values():
                if not (needed and server.recalled and not server.may_start):
                    server.start()

    def wait(self, seconds: float, *, needed: bool = False) -> None:
        """Start the servers if needed and wait until all are up or have failed, for at most `seconds`.

        needed: do not wait for servers whose offers are known.
        """
        self.begin(needed=needed)
        end = time.monotonic() + seconds
        for server in self.all.values():
            if server.status == "starting" and not (needed and server.recalled):
                server.wait(max(0.0, end - time.monotonic()))

    def come_back(self, seconds: float) -> None:
        """Restart servers that wanted a login if the user has logged in since, and wait up to `seconds` for them."""
        came = [s for s in self.all.values() if s.status == "login" and s.login_state() == "there"]
        for server in came:
            server.restart(0.0)
        end = time.monotonic() + seconds
        for server in came:
            server.wait(max(0.0, end - time.monotonic()))

    def tools(self) -> dict[str, McpTool]:
        """Return the tools of all servers, by full name, in the order of the servers."""
        found: dict[str, McpTool] = {}
        for server in list(self.all.values()):
            for full, offer in list(server.tools.items()):
                if full not in found and self.offered(full):
                    known = self._made.get(full)
                    found[full] = known if known is not None and known.offer == offer else McpTool(server, offer)
        self._made = found
        return found

    def sent(self, how: Literal["auto", "always", "never"], share: float, window: int | None) -> list[Tool[Any]]:
        """Return the tools sent with every request: those of the servers, or ToolSearch and UseTool to find them."""
        tools = list(self.tools().values())
        size = sum(tool.offer.size for tool in tools)
        if how == "always" or (how == "auto" and size > share * (window or _WINDOW) * _PER_TOKEN):
            return self._finders()
        known = ("ready", "disabled")
        late = any(s.status not in known and not (s.recalled and not s.may_start) for s in self.all.values())
        return [*tools, *(self._finders() if late else [])]

    def _finders(self) -> list[Tool[Any]]:
        return [ToolSearch(self.all.values, self.tools), UseTool(self.tools)]

    def news(self) -> list[str]:
        """Return and clear the pending notifications for the user, a sentence each."""
        news, self._news[:] = self._news[:], []
        return news

    def close(self) -> None:
        """Stop all servers and their processes within CLOSE seconds."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        running = [f for server in self.all.values() if (f := server.stop()) is not None]
        if not running:
            return
        from concurrent.futures import wait as wait_for_all

        wait_for_all(running, CLOSE)
        for server in self.all.values():
            server.end_at_once()
        self._loop.stop(0.2)
