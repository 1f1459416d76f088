"""Access to Rich: one console per session, the few styles of the plain front end, and the colour themes.

Text not written by this program passes `escape_controls` before display; Rich markup is never interpreted.

Everything is written in the sixteen colours that a terminal can redefine. A theme maps their SGR codes (ECMA-48,
8.3.117) to others; it only sees output of this program, so each front end applies it in one place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.place import has_color, has_styles
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
    """Rich's console; a broken pipe is left to the one place that ends the program."""

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


def hanging(text: Text, console: Console, first: str, more: str) -> Iterator[Text]:
    """Wrap a line by words, with prefixes for its first row and for the others."""
    for number, row in enumerate(text.wrap(console, max(console.width - len(more), 20))):
        row.rstrip()
        yield Text(more if number else first).append_text(row)


def by_words(line: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """Wrap a line of foreign text, keeping its indentation. more: additional indentation of all rows but the first."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return hanging(styled(line.strip(" "), style), console, indent, indent + more)


def prose(text: str, console: Console, style: str = "", more: str = "") -> Iterator[Text]:
    """Yield foreign text to be read; on a terminal wrapped as in `by_words`."""
    for line in text.split("\n"):
        if console.is_terminal:
            yield from by_words(line, console, style, more)
        else:
            yield styled(line, style)


def print_prose(text: str, console: Console) -> None:
    """Print text with `prose`; rows after the first are indented."""
    for row in prose(text, console, more="  "):
        console.print(row)


def shown_path(path: Path, home: Path | None) -> str:
    """Return a directory with ~ for the home directory."""
    inside = home is not None and path.is_relative_to(home) and path != home
    return f"~/{path.relative_to(home)}" if inside and home is not None else str(path)


def styled(text: str, style: str = "") -> Text:
    """Return a line of foreign text, escaped."""
    return Text(escape_controls(text), style=STYLES.get(style, ""))


_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_HUES = range(30, 38)
Codes = dict[int, tuple[int, ...]]
# Yellow and cyan are pale on white; "contrast" uses no dim and only bold bright colours.
THEMES: dict[str, Codes] = {
    "dark": {},
    "light": {33: (35,), 36: (34,), 93: (35,), 96: (34,)},
    "contrast": {2: (), **{hue: (1, hue + 60) for hue in _HUES if hue != 30}},
    "none": dict.fromkeys((*_HUES, *range(40, 48), *range(90, 98), *range(100, 108)), ()),
}
# The same for what prompt-toolkit draws.
_DRAWN = {
    "dark": {"ask": "bold ansiyellow", "hint": "ansiyellow", "dim": "dim"},
    "light": {"ask": "bold ansimagenta", "hint": "ansimagenta", "dim": "dim"},
    "contrast": {"ask": "bold ansibrightyellow", "hint": "bold ansibrightyellow", "dim": ""},
    "none": {"ask": "bold", "hint": "", "dim": "dim"},
}


def drawn(theme: str) -> dict[str, str]:
    """Return the styles of the live region, by class."""
    return {"status": "bold", "now": "bold", "prompt": "bold", "chosen": "reverse", **_DRAWN[theme]}


def recolored(text: str, theme: str) -> str:
    """Apply a theme to a text with our own SGR sequences."""
    return _SGR.sub(lambda match: _translated(match[1], theme), text) if THEMES[theme] else text


@lru_cache(512)
def _translated(codes: str, theme: str) -> str:
    given = [int(code or 0) for code in codes.split(";")]
    mapped = [new for code in given for new in THEMES[theme].get(code, (code,))]
    return f"\x1b[{';'.join(map(str, mapped))}m" if mapped else ""


class ThemedStream:
    """A text file that applies a theme."""

    def __init__(self, file: Any, theme: str) -> None:
        self._file = file
        self.theme = theme

    def write(self, text: str) -> int:
        self._file.write(recolored(text, self.theme))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
