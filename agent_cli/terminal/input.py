"""A line that a user types, without an editor."""

from __future__ import annotations

import os
import select
import sys
import termios
from contextlib import suppress

# Keys are no answer while a sentence may be under way: so long after the question, and after the last key.
GUARD = 0.6


def read_line(prompt: str) -> str:
    """One line, without NUL characters. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stdout.write("\n")
        raise EOFError
    return line.rstrip("\n").replace("\0", "")


def wait_until_quiet() -> None:
    """Drop what was typed before a question could be seen, and what is being typed when it comes: no answer to it.

    Returns GUARD seconds after the question or the last key, so that a line that is under way cannot answer; at once
    where nobody types, as with a pipe. Raises KeyboardInterrupt on Ctrl-C.
    """
    try:
        before = termios.tcgetattr(0)
    except (OSError, termios.error):
        return
    quiet = termios.tcgetattr(0)
    # Each key at once and unseen: a line that is not sent yet could not be told from none.
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, quiet)
        while select.select([0], [], [], GUARD)[0]:
            if not os.read(0, 1024):
                return  # the terminal is gone
    except (OSError, termios.error):
        return
    finally:
        # Where the terminal is gone by now, the next read tells.
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSAFLUSH, before)
