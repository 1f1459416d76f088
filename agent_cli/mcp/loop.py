"""One thread with one event loop, for all servers of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


class Loop:
    """The thread. It is started by the first use, and never keeps the program from ending."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._stopped = False

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin this work on the loop; cancelling what is returned cancels it. After `stop` it is cancelled already."""
        import asyncio  # 40 ms, which a run pays that starts a server
        from concurrent.futures import Future

        with self._guard:
            if self._stopped:
                work.close()
                refused: Future[Any] = Future()
                refused.cancel()
                return refused
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # What tasks leave unhandled has been dealt with where they are awaited.
                self._loop.set_exception_handler(lambda loop, context: None)
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="mcp", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Have this called on the loop, where there still is one."""
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.run_until_complete(_end_others())
        loop.close()

    def stop(self, seconds: float) -> None:
        """End what runs, and the thread, if that is done in time."""
        with self._guard:
            self._stopped = True
        if self._loop is not None and self._thread is not None:
            self.call(self._loop.stop)
            self._thread.join(seconds)


async def _end_others() -> None:
    """End the tasks that are left: one that is only dropped closes nothing, and its coroutine is never awaited."""
    import asyncio

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
