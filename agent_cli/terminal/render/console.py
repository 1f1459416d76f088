"""The door to Rich: one console for a session, and the few styles that the plain front end has.

Every text that was not written by this program passes `inert` before it is shown; Rich markup is never interpreted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.terminal import has_color, has_styles
from agent_tools.text import escape_controls

STYLES = {
    "tool": "bold",
    "dim": "dim",
    "bad": "red",
    "good": "green",
    "ask": "bold yellow",
    "add": "green",
    "del": "red",
}


class _Console(Console):
    """Rich's console, which leaves a reader that has gone to the one place that ends the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(color: str, env: Mapping[str, str], *, plain: bool, file: Any = None) -> Console:
    """A console on standard output, or on `file` for text that gets there in the end.

    Colours only where it is a terminal that can, or the setting says "always". Without them a terminal still has bold
    and underline; in plain mode, and in a pipe, there is nothing but text.
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


def hanging(text: Text, console: Console, first: str, more: str) -> Iterator[Text]:
    """A line wrapped by words, with what stands before its first row and before the others."""
    for number, row in enumerate(text.wrap(console, max(console.width - len(more), 20))):
        row.rstrip()
        yield Text(more if number else first).append_text(row)


def by_words(line: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """A line of foreign text in rows that keep its indentation. more: what stands before all but the first, too."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return hanging(styled(line.strip(" "), style), console, indent, indent + more)


def prose(text: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """Foreign text that is read and not copied: on a terminal wrapped as in `by_words`."""
    for line in text.split("\n"):
        if console.is_terminal:
            yield from by_words(line, console, style, more)
        else:
            yield styled(line, style)


def print_prose(text: str, console: Console) -> None:
    """Print such a text; its rows after the first are indented."""
    for row in prose(text, console, more="  "):
        console.print(row)


def shown_path(path: Path, home: Path | None) -> str:
    """A folder as people write it."""
    inside = home is not None and path.is_relative_to(home) and path != home
    return f"~/{path.relative_to(home)}" if inside and home is not None else str(path)


def styled(text: str, style: str = "") -> Text:
    """A line of foreign text, made harmless."""
    return Text(escape_controls(text), style=STYLES.get(style, ""))
