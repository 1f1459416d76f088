"""Runs on the loop: start one server, learn its offers, watch it, and restart it if it ends unexpectedly.

A server that fails to start is not retried; one that was up and ended is restarted up to MOST_RESTARTS times.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import Any

from agent_cli.config.schema import McpServer
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.client import McpConnection, connected, reason
from agent_cli.mcp.config import MissingVariableError, substitute_env
from agent_cli.mcp.credentials import has_own_key, wants_login
from agent_cli.mcp.server_state import Asking, ServerState
from agent_cli.mcp.stdio import ServerProcess
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.mcp import oauth

MOST_RESTARTS = 3
_PAUSE = 0.2
# Minimum seconds between reads of the lists, however often a server reports changes.
_RELIST = 1.0


class ServerSupervisor:
    """Supervises one server. All methods run on the loop's thread."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._setup = server.setup
        self._link: McpConnection | None = None
        self._stop = asyncio.Event()
        self._woken = asyncio.Event()
        self._changed = False
        self._gone = False
        self._denied = False
        self.spawned = ServerProcess(server.log)

    def stop(self) -> None:
        """Stop the server without a restart."""
        self._stop.set()
        self._woken.set()

    async def run(self) -> None:
        """Run the server until it is stopped or has ended for good."""
        server = self._server
        for restart in range(MOST_RESTARTS + 1):
            if restart:
                server.restarts = restart
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _PAUSE * 2**restart)
            if self._stop.is_set() or not await self._once(restart):
                return
            how = self._how_it_ended()
            again = "it is started again" if restart < MOST_RESTARTS else f"and was started again {restart} times"
            server.become("starting" if restart < MOST_RESTARTS else "failed", f"{how}, {again}")
            server.tell(f"the MCP server {server.name} {how}; {again}")

    def _how_it_ended(self) -> str:
        code = self.spawned.code
        last = self.spawned.errors.last
        words = "ended" if code is None else f"ended with code {code}"
        return f"{words} ({last})" if last else words

    async def _once(self, restart: int) -> bool:
        """Start and run it once; return True if it was up and ended by itself."""
        server = self._server
        self._gone = self._changed = self._denied = False
        up = False
        try:
            # A stop requested while the SDK was imported takes effect first: nothing is started.
            await asyncio.sleep(0)
            declared = substitute_env(server.found.server, self._setup.env)
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._setup.start_timeout):
                    link = await stack.enter_async_context(
                        connected(
                            declared,
                            server.found.kind,
                            env=self._setup.server_env() | declared.env,
                            cwd=self._setup.cwd / declared.cwd,
                            roots=self._setup.roots,
                            spawned=self.spawned,
                            gone=self._on_gone,
                            elicit=self._elicit,
                            changed=self._on_changed,
                            auth=self._login(declared),
                            answered=self._on_answer,
                            name=server.name,
                            host=self._setup.host,
                        )
                    )
                    await self._learn(link)
                self._link, up = link, True
                self._mark(declared, wanted=False)
                server.become("ready")
                await self._wait(link)
        except MissingVariableError as error:
            server.become("failed", str(error))
        except asyncio.CancelledError:
            server.become("failed", "it was ended")
            raise
        except Exception as error:  # noqa: BLE001 - errors of a server or its transport affect that server only
            if not up and self._denied and has_own_key(server.found.server):
                server.become("failed", "it rejects the declared Authorization header (401)")
            elif not up and self._denied:
                self._mark(declared, wanted=True)
                server.become("login", wants_login(server.name, "it"))
            elif not up:
                last = self.spawned.errors.last
                server.become("failed", f"{reason(error)}{f' ({last})' if last else ''}")
        finally:
            self._link = None
        return up and not self._stop.is_set()

    def _login(self, declared: McpServer) -> Any:
        """Return the auth that adds the login to requests; None, without loading oauth, if there is no login."""
        logins = self._setup.logins
        if logins is None or logins.of(declared) is None:
            return None
        return oauth.TokenAuth(declared, logins)

    def _mark(self, declared: McpServer, *, wanted: bool) -> None:
        if self._setup.logins is not None and self._setup.logs is not None and declared.url:
            self._setup.logins.mark(declared, wanted=wanted)

    def _on_answer(self, status: int) -> None:
        if status < 300 and self._denied and self._link is not None:
            self._server.reason = ""
        if status == 401 or status < 300:
            self._denied = status == 401

    def _on_gone(self) -> None:
        self._gone = True
        self._woken.set()

    def _on_changed(self, what: str) -> None:
        self._changed = True
        self._woken.set()

    async def _wait(self, link: McpConnection) -> None:
        """Wait until the server is stopped or gone; read its lists again when they change."""
        while not self._stop.is_set() and not self._gone:
            await self._woken.wait()
            self._woken.clear()
            if self._changed and not self._stop.is_set():
                self._changed = False
                with suppress(McpRequestError, TimeoutError):
                    async with asyncio.timeout(self._setup.start_timeout):
                        await self._learn(link)
                await asyncio.sleep(0 if self._gone else _RELIST)

    async def _learn(self, link: McpConnection) -> None:
        tools = await link.tools()
        # Servers without these often answer with an error.
        prompts: list[dict[str, Any]] = []
        resources: list[dict[str, Any]] = []
        with suppress(McpRequestError):
            prompts = await link.prompts()
        with suppress(McpRequestError):
            resources = await link.resources()
        self._server.learn(tools, prompts, resources, link)

    async def _elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        """Pass a question of the server to the running call; without one it is cancelled."""
        asking: Asking | None = self._server.asking
        if asking is None:
            return {"action": "cancel"}
        reply: Future[dict[str, Any]] = Future()
        asking("ask", (params, reply))
        return await asyncio.wrap_future(reply)

    def _shut_out(self) -> str:
        """Report that the login is no longer valid; return the error of the request."""
        self._server.reason = wants_login(self._server.name, "it")
        self._server.name_login()
        return self._server.reason

    def link(self) -> McpConnection:
        """Return the open connection. Raises McpRequestError."""
        if self._link is None:
            raise McpRequestError(
                f"the MCP server {self._server.name} is not running: {self._server.reason or 'it has ended'}"
            )
        return self._link

    async def bounded(self, work: Any, seconds: float) -> Any:
        """Return the result of the work. Raises McpRequestError on a timeout or if the server ends meanwhile."""
        started, was_open = time.monotonic(), self._link is not None
        try:
            async with asyncio.timeout(seconds or None):
                return await work
        except TimeoutError:
            raise McpRequestError(
                f"no answer within {time.monotonic() - started:.0f} s; the request was cancelled"
            ) from None
        except McpRequestError as error:
            if self._denied and was_open and not has_own_key(self._server.found.server):
                raise McpRequestError(self._shut_out()) from None
            if self._gone and was_open:
                raise McpRequestError(f"the server {self._how_it_ended()} before it answered") from None
            raise error
