"""Where a one-shot run writes: answers to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agent_cli.core.output_errors import OutputError
from agent_tools.text import escape_controls


def print_notice(text: str) -> None:
    """A line on standard error, inert on a terminal; a closed one is nobody's loss."""
    try:
        sys.stderr.write(f"{_for(2, text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wrapped_for(descriptor: int, text: str, indent: str = "") -> str:
    """A text with its lines wrapped at words, where they go to a terminal. indent: before each continued line."""
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
    """A JSON text on a line of standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """To standard output, at once; undecodable characters never fail the run. Inert on a terminal, which the text of a
    model must not steer; a file or a pipe gets the text as it is. Raises OutputError, or BrokenPipeError where the
    reader has gone."""
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
