"""Ask on the terminal before something is done."""

from __future__ import annotations

import sys


def can_ask() -> bool:
    """Return True if standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on standard error; return True only for "y" or "yes"."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
