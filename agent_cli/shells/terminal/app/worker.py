"""The worker thread, which runs one job at a time and reports the end of each to the screen.

Also: the bounded event queue from the worker to the drawing thread, and the replies that the worker waits for.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from agent_cli import TextDelta, ThinkingDelta, ToolProgress
from agent_cli.shells.terminal.slash import ExitRequestedError
from agent_tools.cancel import CancelledError
from agent_tools.record import Value
from agent_tools.text import escape_controls

MAX_PENDING_CHARS = 256 * 1024
_ITEM_CHARS = 64


class EventQueue:
    """A bounded queue.

    Call `emit` on any thread, `take` on the thread that created it. wake: called when items arrive.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._items: deque[tuple[Any, int]] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._closed = False
        self._taker = threading.get_ident()

    def emit(self, item: Any) -> None:
        """Add an item; block while too much is pending, except on the taker's own thread."""
        size = _ITEM_CHARS + len(getattr(item, "text", "") or "")
        with self._changed:
            while self._pending >= MAX_PENDING_CHARS and not self._closed and threading.get_ident() != self._taker:
                self._changed.wait()
            if self._closed:
                return
            self._items.append((item, size))
            self._pending += size
            first = len(self._items) == 1
        if first:
            self._wake()

    def take(self) -> Any | None:
        """Return the next item, with adjacent deltas merged; None if there is none."""
        with self._changed:
            if not self._items:
                return None
            item = self._next()
            parts = [item.text] if isinstance(item, (TextDelta, ThinkingDelta)) else []
            while parts and self._items and type(self._items[0][0]) is type(item):
                parts.append(self._next().text)
            while isinstance(item, ToolProgress) and self._items and _can_merge(item, self._items[0][0]):
                item = item.replace(text=item.text + self._next().text)
            self._changed.notify_all()
        return item.replace(text="".join(parts)) if len(parts) > 1 else item

    def _next(self) -> Any:
        item, size = self._items.popleft()
        self._pending -= size
        return item

    @property
    def empty(self) -> bool:
        return not self._items

    def close(self) -> None:
        """Stop the queue: release blocked threads and drop further items."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _can_merge(item: ToolProgress, other: object) -> bool:
    return isinstance(other, ToolProgress) and other.call_id == item.call_id and len(item.text) < 65_536


class PendingReply:
    """An answer that one thread waits for and another gives. The first answer counts."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._answer: Any = None
        self._cancelled = False

    def answer(self, value: Any) -> None:
        if not self._done.is_set():
            self._answer = value
            self._done.set()

    def cancel(self) -> None:
        if not self._done.is_set():
            self._cancelled = True
            self._done.set()

    @property
    def done(self) -> bool:
        """True once there is an answer, or it was cancelled."""
        return self._done.is_set()

    def wait(self) -> Any:
        """Wait for the answer. Raises CancelledError."""
        self._done.wait()
        if self._cancelled:
            raise CancelledError
        return self._answer


STOP_SECONDS = 3.0


class Printed(Value):
    """Lines that are already escaped."""

    text: str


class UserEcho(Value):
    """A user message that was not typed into the line."""

    text: str


class JobFinished(Value):
    """The end of a job. leave: the session ends too."""

    leave: bool = False


class Sink:
    """A file whose text goes to the screen, line by line. foreign: escape the text first."""

    def __init__(self, bridge: EventQueue, *, foreign: bool = False) -> None:
        self._bridge, self._foreign = bridge, foreign
        self._partial_line = ""

    def write(self, text: str) -> int:
        whole, end, self._partial_line = (
            self._partial_line + (escape_controls(text) if self._foreign else text)
        ).rpartition("\n")
        if end:
            self._bridge.emit(Printed(whole + end))
        return len(text)

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False


class Worker:
    """Runs jobs on its own thread. failed: unexpected error of a job or of a command during one."""

    def __init__(self, bridge: EventQueue) -> None:
        self._bridge = bridge
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="turn", daemon=True)
        self.failed: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def fail(self, error: BaseException) -> None:
        """Record an unexpected error."""
        self.failed = error

    def stop(self, meanwhile: Callable[[], None]) -> None:
        """Accept no more jobs and give the last one a moment to end, calling `meanwhile` repeatedly."""
        self._jobs.put(None)
        end = time.monotonic() + STOP_SECONDS
        while self._thread.is_alive() and time.monotonic() < end:
            meanwhile()
            self._thread.join(0.01)
        meanwhile()
        self._bridge.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            leave = False
            try:
                job()
            except ExitRequestedError:
                leave = True
            except BaseException as error:  # noqa: BLE001 - raised again on the main thread, which reports it
                self.fail(error)
            self._bridge.emit(JobFinished(leave))
