"""The input of a run without a terminal: standard input, read within limits and joined with the prompt."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable

from agent_tools.record import Value

NOTICE_AFTER_SECONDS = 2.0
_CHUNK_BYTES = 1 << 16


class PipedInput(Value):
    """The text of standard input.

    cut: it was longer than the limit.
    skipped: a pipe stayed silent and was not read.
    """

    text: str = ""
    cut: bool = False
    skipped: bool = False


class NotTextError(Exception):
    """Standard input is binary."""


def read_stdin(fd: int, limit: int, wait: float | None, say: Callable[[str], None]) -> PipedInput:
    """Read up to `limit` bytes. A terminal and a closed descriptor count as empty. Raises NotTextError for binary data.

    wait: seconds that a pipe may stay silent; None: wait for its end.
    say: called with notices for the user.
    """
    try:
        mode = os.fstat(fd).st_mode
        if os.isatty(fd):
            return PipedInput()
    except OSError:
        return PipedInput()
    pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if pipe and wait is not None and not _has_input(fd, wait, say):
        return PipedInput(skipped=True)
    data = bytearray()
    while len(data) <= limit:
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            break
        data += chunk
    cut = len(data) > limit
    head = bytes(data[:limit])
    if b"\0" in head[:8192]:
        raise NotTextError("Standard input is binary; pipe text, or name the file in the prompt.")
    return PipedInput(head.decode("utf-8", "ignore" if cut else "replace"), cut)


def _has_input(fd: int, wait: float, say: Callable[[str], None]) -> bool:
    """Return True if the pipe has data or ends within `wait` seconds; announce a longer wait."""
    end = time.monotonic() + wait
    first = min(NOTICE_AFTER_SECONDS, wait)
    if select.select([fd], [], [], first)[0]:
        return True
    if wait > first:
        say(f"Waiting up to {wait:g} s for standard input (close it with < /dev/null) ...")
        if select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
            return True
    say(f"Nothing arrived on standard input for {wait:g} s and was not read.")
    return False


def compose_prompt(prompt: str, piped: PipedInput, limit: int) -> str:
    """Return the user message: the prompt, the piped input, and a note if that is incomplete."""
    parts = [p for p in (prompt, piped.text.rstrip("\n")) if p]
    if piped.cut:
        parts.append(f"[Standard input was cut here, after {limit} bytes; the rest was not read.]")
    if piped.skipped:
        parts.append("[Standard input was connected but stayed silent, and was not read.]")
    return "\n".join(parts)
