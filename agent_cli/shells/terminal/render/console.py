"""Access to Rich: one console per session, and the few styles of both front ends.

Text not written by this program passes `escape_controls` before display; Rich markup is never interpreted.

Colours are written as codes of the sixteen, which stand for roles: see `theme`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.kernel.run_environment import has_color, has_styles
from agent_tools.text import escape_controls

STYLES = {
    "tool": "bold",
    "accent": "blue",
    "warn": "yellow",
    "name": "bold blue",
    "dim": "dim",
    "bad": "red",
    "good": "green",
    "ask": "bold yellow",
    "add": "green",
    "del": "red",
}


# The columns before text; in them stand the symbols of calls, and the mark of the user's message.
MARGIN = "  "


class _Console(Console):
    """Rich's console, but a broken pipe raises BrokenPipeError, which ends the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(color: str, env: Mapping[str, str], *, plain: bool, file: Any = None) -> Console:
    """Return a console on standard output, or on `file` for text that ends up there.

    Colours only on a capable terminal, or if the setting is "always". Without colours a terminal still has bold and
    underline; plain mode and pipes get text only.
    """
    terminal, wanted = has_styles(env, plain=plain), has_color(color, env, plain=plain)
    return _Console(
        file=file or sys.stdout,
        force_terminal=terminal or wanted,
        no_color=not wanted,
        color_system="standard" if terminal or wanted else None,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )


# Backgrounds of whole rows. Erasing the line with a background fills the row, and copied text has no padding.
_ROW_FILLS = {"on red": "\x1b[41m\x1b[K\x1b[0m", "on green": "\x1b[42m\x1b[K\x1b[0m"}


def row_fill(line: Text) -> str:
    """Return the sequence that fills the row of a line before it is written; "" without a background."""
    return _ROW_FILLS.get(str(line.style), "")


def hanging(text: Text, console: Console, first: str, more: str) -> Iterator[Text]:
    """Wrap a line by words, with prefixes for its first row and for the others."""
    if text.cell_len <= console.width - len(first) and "\n" not in text.plain:
        yield Text(first).append_text(text)
        return
    for number, row in enumerate(text.wrap(console, max(console.width - len(more), 8))):
        row.rstrip()
        yield Text(more if number else first).append_text(row)


def wrap_words(line: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """Wrap a line of foreign text, keeping its indentation. more: additional indentation of all rows but the first."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return hanging(styled(line.strip(" "), style), console, indent, indent + more)


def prose(text: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """Yield foreign text to be read; on a terminal wrapped as in `wrap_words`."""
    for line in text.split("\n"):
        if console.is_terminal:
            yield from wrap_words(line, console, style, more)
        else:
            yield styled(line, style)


def print_prose(text: str, console: Console) -> None:
    """Print text with `prose`; rows after the first are indented."""
    for row in prose(text, console, more="  "):
        console.print(row)


def abbreviate_home(path: Path, home: Path | None) -> str:
    """Return a directory with ~ for the home directory."""
    inside = home is not None and path.is_relative_to(home) and path != home
    return f"~/{path.relative_to(home)}" if inside and home is not None else str(path)


def styled(text: str, style: str = "") -> Text:
    """Return a line of foreign text, escaped."""
    return Text(escape_controls(text), style=STYLES.get(style, ""))
