"""What a run without a terminal takes in: standard input, within limits, joined with the prompt, and signals."""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from collections.abc import Callable
from typing import Any

from agent_tools.process.child import stop_signals
from agent_tools.record import Value


class Signals:
    """The stop signals interrupt the run, so that its result is still printed; a second one ends the process."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._before: dict[int, Any] = {}
        self.caught = 0

    def __enter__(self) -> None:
        for number in stop_signals():
            self._before[number] = signal.signal(number, self._on_signal)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.caught:
            os._exit(128 + number)
        self.caught = number
        self._interrupt()


NOTICE_AFTER = 2.0
_CHUNK = 1 << 16


class Piped(Value):
    """Standard input. cut: it was longer than the limit. skipped: a pipe stayed silent and was not read."""

    text: str = ""
    cut: bool = False
    skipped: bool = False


class NotTextError(Exception):
    """Standard input is binary; the message is a sentence."""


def read_stdin(fd: int, limit: int, wait: float | None, say: Callable[[str], None]) -> Piped:
    """Read up to `limit` bytes. wait: seconds that a pipe may stay silent; None waits for its end.

    A terminal and a closed descriptor count as empty. Raises NotTextError for binary data.
    """
    try:
        mode = os.fstat(fd).st_mode
        if os.isatty(fd):
            return Piped()
    except OSError:
        return Piped()
    pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if pipe and wait is not None and not _answers(fd, wait, say):
        return Piped(skipped=True)
    data = bytearray()
    while len(data) <= limit:
        chunk = os.read(fd, _CHUNK)
        if not chunk:
            break
        data += chunk
    cut = len(data) > limit
    kept = bytes(data[:limit])
    if b"\0" in kept[:8192]:
        raise NotTextError("Standard input is binary; pipe text, or name the file in the prompt.")
    return Piped(kept.decode("utf-8", "ignore" if cut else "replace"), cut)


def _answers(fd: int, wait: float, say: Callable[[str], None]) -> bool:
    """Return True if the pipe has data or ends within `wait` seconds; announce a longer wait."""
    end = time.monotonic() + wait
    first = min(NOTICE_AFTER, wait)
    if select.select([fd], [], [], first)[0]:
        return True
    if wait > first:
        say(f"Waiting up to {wait:g} s for standard input (close it with < /dev/null) ...")
        if select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
            return True
    say(f"Nothing arrived on standard input for {wait:g} s and was not read.")
    return False


def compose_prompt(prompt: str, piped: Piped, limit: int) -> str:
    """Return the user message: the prompt, then the piped input, and notes about a cut."""
    parts = [p for p in (prompt, piped.text.rstrip("\n")) if p]
    if piped.cut:
        parts.append(f"[Standard input was cut here, after {limit} bytes; the rest was not read.]")
    if piped.skipped:
        parts.append("[Standard input was connected but stayed silent, and was not read.]")
    return "\n".join(parts)
