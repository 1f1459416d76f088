"""Run one server on the loop: start it, read its offers, watch it, and restart it if it ends unexpectedly.

A server that fails to start is not retried; one that ran and ended is restarted up to MAX_RESTARTS times.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import Any

from agent_cli.config.schema import McpServer
from agent_cli.mcp.catalog import McpRequestError, UnknownOutcomeError
from agent_cli.mcp.client import McpConnection, connected, reason
from agent_cli.mcp.config import MissingVariableError, substitute_env
from agent_cli.mcp.credentials import has_auth_header, login_message
from agent_cli.mcp.jsonrpc import ConnectionEndedError
from agent_cli.mcp.server_state import CallListener, ServerState
from agent_cli.mcp.stdio import ServerProcess, StderrTail
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.mcp import oauth

MAX_RESTARTS = 3
_RESTART_PAUSE_SECONDS = 0.2
# Time between reads of the lists, however often a server reports changes.
_RELIST_SECONDS = 1.0


class ServerSupervisor:
    """Supervises one server. All methods run on the loop's thread."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._setup = server.setup
        self._link: McpConnection | None = None
        self._stop = asyncio.Event()
        self._woken = asyncio.Event()
        # Set unless the server is being started, or started again.
        self._steady = asyncio.Event()
        self._changed = False
        self._gone = False
        self._denied = False
        # The status of the last HTTP answer, if it was an error.
        self._error_status = 0
        # Limits the time of a start that is under way.
        self._start_limit: asyncio.Timeout | None = None
        self._errors = StderrTail(server.log)
        self._processes: list[ServerProcess] = []
        self.process = ServerProcess(self._errors)

    def _new_process(self) -> ServerProcess:
        self._processes = [process for process in self._processes if process.code is None]
        self.process = ServerProcess(self._errors)
        self._processes.append(self.process)
        return self.process

    def kill(self) -> None:
        """Kill its processes, from any thread."""
        for process in list(self._processes):
            process.kill()

    def stop(self) -> None:
        """Stop the server without a restart, also while it starts."""
        self._stop.set()
        self._woken.set()
        if self._start_limit is not None:
            self._start_limit.reschedule(0.0)

    async def run(self) -> None:
        """Run the server until it is stopped or has ended for good."""
        try:
            await self._run()
        finally:
            self._steady.set()

    async def _run(self) -> None:
        server = self._server
        for restart in range(MAX_RESTARTS + 1):
            if restart:
                server.restarts = restart
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _RESTART_PAUSE_SECONDS * 2**restart)
            if self._stop.is_set() or not await self._run_once(restart):
                return
            how = self._how_it_ended()
            again = "it is started again" if restart < MAX_RESTARTS else f"and was started again {restart} times"
            server.set_status("starting" if restart < MAX_RESTARTS else "failed", f"{how}, {again}")
            server.notify(f"the MCP server {server.name} {how}; {again}")

    def _how_it_ended(self) -> str:
        code = self.process.code
        last = self._errors.last
        words = "ended" if code is None else f"ended with code {code}"
        return f"{words} ({last})" if last else words

    async def _run_once(self, restart: int) -> bool:
        """Start and run it once; return True if it ran and ended by itself."""
        server = self._server
        self._gone = self._changed = self._denied = False
        self._error_status = 0
        up = False
        try:
            # Let a stop that was requested while the SDK was imported take effect before anything is started.
            await asyncio.sleep(0)
            declared = substitute_env(server.found.server, self._setup.env)
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._setup.start_timeout) as self._start_limit:
                    link = await stack.enter_async_context(
                        connected(
                            declared,
                            server.found.kind,
                            env=self._setup.server_env() | declared.env,
                            cwd=self._setup.cwd / declared.cwd,
                            roots=self._setup.roots,
                            new_process=self._new_process,
                            gone=self._on_gone,
                            elicit=self._elicit,
                            changed=self._on_changed,
                            auth=self._login(declared),
                            answered=self._on_answer,
                            name=server.name,
                            host=self._setup.host,
                            era=server.era,
                            launched=server.on_launch,
                        )
                    )
                    self.process = link.process or self.process
                    await self._update_offers(link)
                self._start_limit = None
                self._link, up = link, True
                self._steady.set()
                self._mark(declared, wanted=False)
                server.set_status("ready")
                await self._wait(link)
        except MissingVariableError as error:
            server.set_status("failed", str(error))
        except asyncio.CancelledError:
            server.set_status("failed", "it was ended")
            raise
        except Exception as error:  # noqa: BLE001 - errors of a server or its connection affect that server only
            if not up and self._denied and has_auth_header(server.found.server):
                server.set_status("failed", "it rejects the declared Authorization header (401)")
            elif not up and self._denied:
                self._mark(declared, wanted=True)
                server.set_status("login", login_message(server.name, "it"))
            elif not up:
                server.set_status("failed", "it was ended" if self._stop.is_set() else self._why_not_up(error))
        finally:
            self._start_limit = None
            self._link = None
        return up and not self._stop.is_set()

    def _why_not_up(self, error: Exception) -> str:
        if isinstance(error, ConnectionEndedError) and self.process.code is not None:
            return f"it {self._how_it_ended()}"
        last = self._errors.last or (f"HTTP {self._error_status}" if self._error_status else "")
        return f"{reason(error)}{f' ({last})' if last else ''}"

    def _login(self, declared: McpServer) -> Any:
        """Return an object that adds the login to requests; None, without loading oauth, if there is no login."""
        logins = self._setup.logins
        if logins is None or logins.find(declared) is None:
            return None
        return oauth.TokenAuth(declared, logins)

    def _mark(self, declared: McpServer, *, wanted: bool) -> None:
        if self._setup.logins is not None and self._setup.logs is not None and declared.url:
            self._setup.logins.mark(declared, wanted=wanted)

    def _on_answer(self, status: int) -> None:
        self._error_status = status if status >= 400 else 0
        if status < 300 and self._denied and self._link is not None:
            self._server.reason = ""
        if status == 401 or status < 300:
            self._denied = status == 401

    def _on_gone(self) -> None:
        self._gone = True
        self._steady.clear()
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
                        await self._update_offers(link)
                await asyncio.sleep(0 if self._gone else _RELIST_SECONDS)

    async def _update_offers(self, link: McpConnection) -> None:
        tools = await link.tools()
        # Servers without these often answer with an error.
        prompts: list[Any] = []
        resources: list[Any] = []
        with suppress(McpRequestError):
            prompts = await link.prompts()
        with suppress(McpRequestError):
            resources = await link.resources()
        self._server.update_offers(tools, prompts, resources, link)

    async def _elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        """Pass a question of the server to the running call; cancel it if no call runs."""
        if (host := self._setup.host) is not None:
            answer = await asyncio.to_thread(host.elicit, self._server.name, params)
            if answer is not None:
                return answer
        asking: CallListener | None = self._server.asking
        if asking is None:
            return {"action": "cancel"}
        reply: Future[dict[str, Any]] = Future()
        asking("ask", (params, reply))
        return await asyncio.wrap_future(reply)

    def _report_denied(self) -> str:
        """Report that the login is no longer valid; return the error text for the request."""
        self._server.reason = login_message(self._server.name, "it")
        self._server.report_login()
        return self._server.reason

    def link(self) -> McpConnection:
        """Return the open connection. Raises McpRequestError."""
        if self._link is None or self._gone:
            raise McpRequestError(
                f"the MCP server {self._server.name} is not running: {self._server.reason or 'it has ended'}"
            )
        return self._link

    async def bounded(self, work: Any, seconds: float) -> Any:
        """Return the result of the work. Raises McpRequestError on a timeout or if the server ends meanwhile.

        A server that is being started again is waited for.
        """
        started, was_open = time.monotonic(), False
        try:
            async with asyncio.timeout(seconds or None):
                await self._steady.wait()  # it may have ended in the call before, and is started again
                was_open = self._link is not None and not self._gone
                return await work
        except TimeoutError:
            raise UnknownOutcomeError(
                f"no answer within {time.monotonic() - started:.0f} s; the request was cancelled"
            ) from None
        except McpRequestError as error:
            if self._denied and was_open and not has_auth_header(self._server.found.server):
                raise McpRequestError(self._report_denied()) from None
            if self._gone and was_open:
                raise UnknownOutcomeError(f"the server {self._how_it_ended()} before it answered") from None
            raise error
        finally:
            work.close()  # it may not have begun
