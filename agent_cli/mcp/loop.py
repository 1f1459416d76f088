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
    """The thread. It starts on first use and never keeps the program from ending."""

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
        """Cancel what runs and join the thread, for at most `seconds`."""
        with self._guard:
            self._stopped = True
        if self._loop is not None and self._thread is not None:
            self.call(self._loop.stop)
            self._thread.join(seconds)


async def _end_others() -> None:
    """Cancel the remaining tasks: dropped tasks would close nothing and leave coroutines never awaited."""
    import asyncio

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
