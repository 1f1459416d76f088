"""Ask on the terminal before something is done."""

from __future__ import annotations

import sys


def can_ask() -> bool:
    """Return True if the user sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on standard error; return True for a yes. Anything else, and the end of input, is a no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
