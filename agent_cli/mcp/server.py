"""One MCP server of a session, usable from any thread: start, stop, and requests.

All servers of a session run on one event loop, in one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer
from agent_cli.mcp.server_state import CallListener, ServerSettings, ServerState
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from agent_cli.mcp.supervisor import ServerSupervisor

with lazy_imports():
    from agent_cli.mcp import supervisor


class Loop:
    """The event loop and its thread, which starts on first use and does not keep the program alive."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._stopped = False

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine on the loop; cancelling the future cancels it. After `stop` it is cancelled at once."""
        import asyncio  # 40 ms, only for runs that start a server
        from concurrent.futures import Future

        with self._guard:
            if self._stopped:
                work.close()
                refused: Future[Any] = Future()
                refused.cancel()
                return refused
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Unhandled errors of tasks are reported where the tasks are awaited.
                self._loop.set_exception_handler(lambda loop, context: None)
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="mcp", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, if it still exists."""
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.run_until_complete(_end_others())
        loop.close()

    def stop(self, seconds: float) -> None:
        """Cancel all tasks and join the thread, for at most `seconds`."""
        with self._guard:
            self._stopped = True
        if self._loop is not None and self._thread is not None:
            self.call(self._loop.stop)
            self._thread.join(seconds)


async def _end_others() -> None:
    """Cancel the remaining tasks: abandoned tasks would not close what they opened."""
    import asyncio

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


class Server(ServerState):
    """One server, and its supervisor while it runs."""

    def __init__(
        self,
        found: DeclaredServer,
        setup: ServerSettings,
        loop: Loop,
        notify: Callable[[str], None],
        changed: Callable[[], None],
        disabled: bool = False,
    ) -> None:
        super().__init__(found, setup, notify, changed, disabled)
        self._loop = loop
        self._supervisor: ServerSupervisor | None = None
        self._running: Future[Any] | None = None

    def start(self) -> None:
        """Start it in the background, if it may start and is not running already."""
        if self.status in ("starting", "ready", "disabled"):
            return
        if why := self.may_start:
            self.set_status("unapproved", why)
            self.notify(
                f"the MCP server {self.name} of this project {why}, and was not started ({self.found.line}); "
                f"to start it: agent mcp approve {self.name}, or --trust for one run"
            )
            return
        self.set_status("starting")
        self._running = self._loop.submit(self._supervise())

    async def _supervise(self) -> None:
        # This imports the SDK, which takes half a second, on the loop's thread.
        self._supervisor = supervisor.ServerSupervisor(self)
        await self._supervisor.run()

    def stop(self) -> Future[Any] | None:
        """Request a stop; return a future that is done when the server has stopped."""
        if self._supervisor is not None:
            self._loop.call(self._supervisor.stop)
        elif self._running is not None:
            self._running.cancel()
        return self._running

    def end_at_once(self) -> None:
        """Kill its process group."""
        if self._supervisor is not None:
            self._supervisor.kill()

    def restart(self, seconds: float) -> None:
        """Restart it on the user's request."""
        running = self.stop()
        if running is not None and not running.done():
            try:
                running.result(seconds)
            except (Exception, TimeoutError):  # noqa: BLE001 - however it ended
                self.end_at_once()
        self._supervisor = self._running = None
        self.restarts = 0
        self._settled.clear()
        self.status = "waiting"
        self.start()

    def disable(self) -> None:
        """Stop it for the rest of the session."""
        self.stop()
        self.set_status("disabled")

    # Requests. Each returns a future of plain data that may raise McpRequestError or CancelledError.

    def call(self, tool: str, arguments: dict[str, Any], asking: CallListener) -> Future[Any]:
        async def work(active: ServerSupervisor) -> Any:
            self._asking.append(asking)
            try:
                return await active.link().call(tool, arguments, lambda text: asking("progress", text))
            finally:
                self._asking.remove(asking)

        return self._request(work, self.found.server.timeout or self.setup.call_timeout)

    def read(self, uri: str) -> Future[Any]:
        return self._request(lambda active: active.link().read(uri), self.setup.start_timeout)

    def prompt(self, name: str, arguments: dict[str, str]) -> Future[Any]:
        return self._request(lambda active: active.link().prompt(name, arguments), self.setup.start_timeout)

    def _request(self, work: Callable[[ServerSupervisor], Any], seconds: float) -> Future[Any]:
        async def asked() -> Any:
            if self._supervisor is None:
                raise McpRequestError(f"the MCP server {self.name} is not running: {self.reason or self.status}")
            return await self._supervisor.bounded(_invoke(work, self._supervisor), seconds)

        return self._loop.submit(asked())


async def _invoke(work: Callable[[ServerSupervisor], Any], active: ServerSupervisor) -> Any:
    return await work(active)
