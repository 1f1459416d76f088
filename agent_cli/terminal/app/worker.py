"""The thread that works: one job at a time, every end reported to the screen.

From the thread that works to the thread that draws: a bounded queue of items, and questions that wait for an answer.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from agent_cli.core.events import TextDelta, ThinkingDelta, ToolProgress
from agent_cli.terminal.slash import ExitRequestedError
from agent_tools.cancel import CancelledError
from agent_tools.record import Value
from agent_tools.text import escape_controls

LIMIT = 256 * 1024
_BASE = 64


class EventQueue:
    """`emit` from any thread, `take` from the one that made it. `wake` is called when there is news."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._items: deque[tuple[Any, int]] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._closed = False
        self._taker = threading.get_ident()

    def emit(self, item: Any) -> None:
        """Hand over an item; waits while too much is pending, unless it is the taker's own."""
        size = _BASE + len(getattr(item, "text", "") or "")
        with self._changed:
            while self._pending >= LIMIT and not self._closed and threading.get_ident() != self._taker:
                self._changed.wait()
            if self._closed:
                return
            self._items.append((item, size))
            self._pending += size
            first = len(self._items) == 1
        if first:
            self._wake()

    def take(self) -> Any | None:
        """The next item, pieces of the same text joined; None where there is none."""
        with self._changed:
            if not self._items:
                return None
            item = self._next()
            parts = [item.text] if isinstance(item, (TextDelta, ThinkingDelta)) else []
            while parts and self._items and type(self._items[0][0]) is type(item):
                parts.append(self._next().text)
            while isinstance(item, ToolProgress) and self._items and _goes_on(item, self._items[0][0]):
                item = item.but(text=item.text + self._next().text)
            self._changed.notify_all()
        return item.but(text="".join(parts)) if len(parts) > 1 else item

    def _next(self) -> Any:
        item, size = self._items.popleft()
        self._pending -= size
        return item

    @property
    def empty(self) -> bool:
        return not self._items

    def close(self) -> None:
        """Nobody draws any more: whoever waits goes on, and what is sent from now on is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _goes_on(item: ToolProgress, other: object) -> bool:
    return isinstance(other, ToolProgress) and other.call_id == item.call_id and len(item.text) < 65_536


class PendingReply:
    """A question that one thread waits at and another answers. The first answer counts."""

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

    def wait(self) -> Any:
        """The answer. Raises CancelledError."""
        self._done.wait()
        if self._cancelled:
            raise CancelledError
        return self._answer


PATIENCE = 3.0


class Printed(Value):
    """Lines that are made of harmless text already."""

    text: str


class UserEcho(Value):
    """A message of the user's that was not typed into the line."""

    text: str


class JobFinished(Value):
    """A job is over. leave: so is the session."""

    leave: bool = False


class Sink:
    """A file whose text goes to the screen, whole lines at a time. foreign: the text has to be made harmless first."""

    def __init__(self, bridge: EventQueue, *, foreign: bool = False) -> None:
        self._bridge, self._foreign = bridge, foreign
        self._held = ""

    def write(self, text: str) -> int:
        whole, end, self._held = (self._held + (escape_controls(text) if self._foreign else text)).rpartition("\n")
        if end:
            self._bridge.emit(Printed(whole + end))
        return len(text)

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False


class Worker:
    """Runs jobs on a thread of its own. failed: what a job, or a command beside it, did not expect."""

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
        """Note what a job, or a command beside it, did not expect."""
        self.failed = error

    def stop(self, meanwhile: Callable[[], None]) -> None:
        """No more jobs; the last one gets a moment to end, and `meanwhile` is called over and over."""
        self._jobs.put(None)
        end = time.monotonic() + PATIENCE
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
            except BaseException as error:  # noqa: BLE001 - raised again on the main thread, where endings are worded
                self.fail(error)
            self._bridge.emit(JobFinished(leave))
