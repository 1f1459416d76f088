"""Plain lines on standard output and standard error, as one-shot runs and commands print them.

Answers go to standard output, notices to standard error: escaped on a terminal, unchanged in a pipe.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from agent_cli.kernel.run_environment import OutputError
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls, one_line

with lazy_imports():
    from agent_cli.kernel.session import pending_plans  # only where a time is shown


def local_time(stamp: str) -> str:
    """Format a log timestamp (UTC) to the minute, in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(pending_plans.seconds_of(stamp)))


def echo(text: str) -> None:
    """Print text, ending in a line break. Raises OutputError, or BrokenPipeError if the reader is gone."""
    shown = escape_controls(text) if sys.stdout.isatty() else text
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{shown.rstrip(chr(10))}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def print_json(data: Any) -> None:
    """Print data as indented JSON, in ASCII, so that it works in every locale."""
    echo(json.dumps(data, indent=2))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Format rows as lines; each column is as wide as its longest cell. right: columns to align right."""
    cells = [[escape_controls(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in cells
    ]  # fmt: skip


def print_warning(text: str) -> None:
    """Print a notice that names the program, which other programs print beside it."""
    print_notice(f"agent: {text}")


def print_ignored(texts: Iterable[str]) -> None:
    """Print what was ignored in settings and the like, a sentence each."""
    for text in texts:
        print_warning(f"{one_line(text)}.")


def print_notice(text: str) -> None:
    """Print a line on standard error, escaped and wrapped at words on a terminal; ignore a closed one."""
    try:
        sys.stderr.write(f"{wrap_for_terminal(2, _escape_for_terminal(2, text))}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wrap_for_terminal(descriptor: int, text: str, indent: str = "") -> str:
    """Wrap the lines of a text if the descriptor is a terminal. indent: starts each continuation line."""
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
    """Print data as one line of JSON on standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """Print text to standard output without buffering; characters that cannot be encoded are replaced.

    On a terminal, which a model's text must not control, it is escaped; a file or a pipe gets it unchanged. Raises
    OutputError, or BrokenPipeError if the reader is gone.
    """
    data = _escape_for_terminal(1, text).encode("utf-8", "replace")
    try:
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def _escape_for_terminal(number: int, text: str) -> str:
    return escape_controls(text) if os.isatty(number) else text
