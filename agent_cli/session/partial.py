"""The text of an answer while it comes: saved a piece at a time, at most once a second, until the message is there.

What is saved never holds a part of a secret whose rest is still to come: the last word waits.
"""

from __future__ import annotations

import _thread  # `threading` costs a one-shot run a millisecond
import signal
import time
from collections.abc import Callable

from agent_cli.core.redact import Redactor

SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Unfinished:
    """Gathers the pieces of an answer; `due` is called, on another thread, about a second after something came."""

    def __init__(self, redact: Redactor, due: Callable[[], None], seconds: float = SECONDS) -> None:
        self._redact = redact
        self._due = due
        self._seconds = seconds
        self._pieces: list[str] = []
        self._saved = ""
        self._armed = False

    def feed(self, text: str) -> None:
        self._pieces.append(text)
        if not self._armed:
            self._armed = True
            # The system may give a signal that comes meanwhile to the new thread, and then it would not end what this
            # one waits for next.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            try:
                _thread.start_new_thread(self._wait, ())
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self) -> None:
        time.sleep(self._seconds)
        self._armed = False
        self._due()

    def end(self) -> None:
        """The message is there, and its pieces are not needed."""
        self._pieces, self._saved = [], ""

    def take(self) -> tuple[int, str]:
        """What can be saved and was not yet: where it begins in the answer, and the text."""
        # Meanwhile more may come on the other thread: only what was there is replaced, in one step.
        pieces, count = self._pieces, len(self._pieces)
        whole = "".join(pieces[:count])
        pieces[:count] = [whole]
        ready = self._redact(whole[: self._redact.settled(whole)])
        start = len(self._saved)
        if not ready.startswith(self._saved):
            return start, ""
        self._saved = ready
        return start, ready[start:]
