"""The cancel token of a turn: signals "stop now" and wakes blocked calls."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_SECONDS = 0.02


class CancelledError(Exception):
    """Work ended because the token was cancelled."""


class CancelToken:
    """A flag set once, from any thread or signal handler. Callbacks run in the cancelling thread and must not block.

    Uses a plain flag and short sleeps, no lock: a signal handler may interrupt this very thread while it waits, and
    could then never acquire a lock that the thread holds.
    """

    def __init__(self) -> None:
        self._cancelled = self._skipped = False
        # Who or what cancelled, for the result of a call that was running.
        self.reason = "interrupted by the user"
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self, reason: str = "") -> None:
        """Cancel: wake waiters, then run the callbacks once. Cancelling again does nothing."""
        if self._cancelled:
            return
        self.reason = reason or self.reason
        self._cancelled = True
        for callback in list(self._callbacks.values()):
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` on cancellation, at once if already cancelled; return a function that unregisters it."""
        key = object()
        self._callbacks[key] = callback
        if self._cancelled:
            callback()
        return lambda: self._callbacks.pop(key, None) and None

    def wait(self, seconds: float) -> bool:
        """Sleep for up to `seconds`; return True as soon as the token is cancelled."""
        end = time.monotonic() + seconds
        while not self._cancelled and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_SECONDS))
        return self._cancelled

    def pause(self, seconds: float) -> bool:
        """Like `wait`, but `skip_pause` ends it, too."""
        end = time.monotonic() + seconds
        self._skipped = False
        while not (self._cancelled or self._skipped) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_SECONDS))
        return self._cancelled

    def skip_pause(self) -> None:
        """End the pause of now; from any thread."""
        self._skipped = True

    def check(self) -> None:
        """Raise CancelledError if the token was cancelled."""
        if self._cancelled:
            raise CancelledError
