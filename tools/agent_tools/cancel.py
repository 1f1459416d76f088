"""One token per turn that says "stop now", and wakes whatever is blocked."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLICE = 0.02


class CancelledError(Exception):
    """Work ended because the token was cancelled."""


class CancelToken:
    """Set once, from any thread or signal handler. Callbacks run in the canceller's thread and must not block.

    A plain flag and short sleeps, no lock: a signal handler may interrupt this very thread while it waits, and a lock
    that it holds then could never be taken.
    """

    def __init__(self) -> None:
        self._cancelled = False
        # Who or what cancelled, as the result of a call that was under way says it.
        self.reason = "interrupted by the user"
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self, reason: str = "") -> None:
        """Stop: wakes waiters, then runs the callbacks once. Cancelling again does nothing."""
        if self._cancelled:
            return
        self.reason = reason or self.reason
        self._cancelled = True
        for callback in list(self._callbacks.values()):
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` on cancellation (at once, if that already happened); returns what unregisters it."""
        key = object()
        self._callbacks[key] = callback
        if self._cancelled:
            callback()
        return lambda: self._callbacks.pop(key, None) and None

    def wait(self, seconds: float) -> bool:
        """Sleep for up to `seconds`; True as soon as the token is cancelled."""
        end = time.monotonic() + seconds
        while not self._cancelled and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE))
        return self._cancelled

    def check(self) -> None:
        """Raise `Cancelled` if the token was cancelled."""
        if self._cancelled:
            raise CancelledError
