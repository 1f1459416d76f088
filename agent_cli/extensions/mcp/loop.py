"""One thread with one event loop, for all servers of a session."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
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

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin this work on the loop; cancelling what is returned cancels it."""
        import asyncio  # 40 ms, which a run pays that starts a server

        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # What tasks leave unhandled has been dealt with where they are awaited.
                self._loop.set_exception_handler(lambda loop, context: None)
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="mcp", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()

    def stop(self, seconds: float) -> None:
        """End the thread, if it ends in time."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(seconds)
