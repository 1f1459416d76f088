"""Print text, tables and JSON to standard output: escaped on a terminal, unchanged in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from agent_cli.core.place import OutputError
from agent_tools.text import escape_controls


def echo(text: str) -> None:
    """Print text as whole lines. Raises OutputError, or BrokenPipeError if the reader has gone."""
    shown = escape_controls(text) if sys.stdout.isatty() else text
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{shown.rstrip(chr(10))}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def put_json(data: Any) -> None:
    """Print one indented JSON text; ASCII, so that no locale can break it."""
    echo(json.dumps(data, indent=2))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Format lines of columns as wide as their longest cell. right: columns to align right."""
    cells = [[escape_controls(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in cells
    ]  # fmt: skip
