"""Errors of standard output."""

from __future__ import annotations


class OutputError(Exception):
    """Standard output cannot be written: it is closed, or its disk is full. One sentence, exit code 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}")
