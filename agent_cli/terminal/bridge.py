"""From the thread that works to the thread that draws: a bounded queue of items, and questions that wait for an answer.

The worker never touches the terminal. What it sends is held until the drawing thread takes it; where more than LIMIT
bytes wait, the sender waits too, so that no flood of output fills the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from agent_cli.core.events import TextDelta, ThinkingDelta, ToolProgress
from agent_tools.cancel import CancelledError

LIMIT = 256 * 1024
_BASE = 64


class Bridge:
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
