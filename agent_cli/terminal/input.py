"""A line that a person types, without an editor."""

from __future__ import annotations

import sys


def read_line(prompt: str) -> str:
    """One line, without NUL characters. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stdout.write("\n")
        raise EOFError
    return line.rstrip("\n").replace("\0", "")
