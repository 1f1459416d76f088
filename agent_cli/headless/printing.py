"""Output of a one-shot run: answers to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agent_cli.core.place import OutputError
from agent_tools.text import escape_controls


def print_notice(text: str) -> None:
    """Print a line on standard error, escaped on a terminal; ignore a closed one."""
    try:
        sys.stderr.write(f"{_for(2, text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wrapped_for(descriptor: int, text: str, indent: str = "") -> str:
    """Wrap the lines of a text at words if they go to a terminal. indent: before each continued line."""
    try:
        width = os.get_terminal_size(descriptor).columns
    except OSError:
        return text
    import textwrap

    shape = textwrap.TextWrapper(
        max(width, 40), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(shape.fill(line) if len(line) > width else line for line in text.split("\n"))


def print_line(fields: Any) -> None:
    """Print a JSON text as one line of standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """Print text to standard output at once; undecodable characters never fail the run.

    Escaped on a terminal, which a model's text must not control; a file or a pipe gets the text unchanged. Raises
    OutputError, or BrokenPipeError if the reader has gone.
    """
    data = _for(1, text).encode("utf-8", "replace")
    try:
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def _for(number: int, text: str) -> str:
    return escape_controls(text) if os.isatty(number) else text
