"""One token per turn that says "stop now", and wakes whatever is blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancelled(Exception):
    """Work ended because the token was cancelled."""


class CancelToken:
    """Set once, from any thread or signal handler. Callbacks run in the canceller's thread and must not block."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        """Stop: wakes waiters, then runs the callbacks once. Cancelling again does nothing."""
        if self._event.is_set():
            return
        self._event.set()
        for callback in list(self._callbacks.values()):
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` on cancellation (at once, if that already happened); returns what unregisters it."""
        key = self._next = self._next + 1
        self._callbacks[key] = callback
        if self._event.is_set():
            callback()
        return lambda: self._callbacks.pop(key, None) and None

    def wait(self, seconds: float) -> bool:
        """Sleep for up to `seconds`; True as soon as the token is cancelled."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raise `Cancelled` if the token was cancelled."""
        if self._event.is_set():
            raise Cancelled
