"""All MCP servers of a session: begun beside everything else, waited for within bounds, ended within bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from agent_cli.mcp.config import DeclaredServer
from agent_cli.mcp.loop import Loop
from agent_cli.mcp.server import Server
from agent_cli.mcp.server_state import ServerSettings
from agent_cli.mcp.tool_search import ToolSearch, UseTool
from agent_cli.mcp.tools import McpTool
from agent_tools.base import Tool

# Ending all of them takes no longer than this, whatever they do.
CLOSE = 1.7
# Characters a token stands for, and the window where the model's is not known.
_PER_TOKEN = 4
_WINDOW = 128_000


class Servers:
    """The servers by name. changed: called, on any thread, when what they offer has changed. offered: whether a tool
    may be used at all.
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
        """Start all that may be started; none is waited for.

        after: seconds from now. needed: only those of which it is not known what they offer.
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
            # Within the guard, so that none starts behind `close`.
            for server in self.all.values():
                if not (needed and server.recalled and not server.may_start):
                    server.start()

    def wait(self, seconds: float, *, needed: bool = False) -> None:
        """Start them where that was not done, and wait until all are up or have failed, but no longer than that.

        One of which it is known what it offers is not waited for.
        """
        self.begin(needed=needed)
        end = time.monotonic() + seconds
        for server in self.all.values():
            if server.status == "starting" and not (needed and server.recalled):
                server.wait(max(0.0, end - time.monotonic()))

    def come_back(self, seconds: float) -> None:
        """Start those anew that wanted a login, where the user has logged in since, and wait so long for them."""
        came = [s for s in self.all.values() if s.status == "login" and s.login_state() == "there"]
        for server in came:
            server.restart(0.0)
        end = time.monotonic() + seconds
        for server in came:
            server.wait(max(0.0, end - time.monotonic()))

    def tools(self) -> dict[str, McpTool]:
        """The tools of all servers, by full name, in the order of the servers."""
        found: dict[str, McpTool] = {}
        for server in list(self.all.values()):
            for full, offer in list(server.tools.items()):
                if full not in found and self.offered(full):
                    known = self._made.get(full)
                    found[full] = known if known is not None and known.offer == offer else McpTool(server, offer)
        self._made = found
        return found

    def sent(self, how: Literal["auto", "always", "never"], share: float, window: int | None) -> list[Tool[Any]]:
        """The tools that go with every request of the session: those of the servers, or the two that find them."""
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
        """Return the news that the user has not seen yet, a sentence each."""
        news, self._news[:] = self._news[:], []
        return news

    def close(self) -> None:
        """End all of them, and their processes, within CLOSE seconds."""
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
