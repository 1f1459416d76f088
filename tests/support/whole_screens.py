"""Whole screens of the program as text that can be reviewed: how one is read, masked, written down and checked."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pyte.screens import Char

from agent_cli import __version__
from tests.support.pty_screen import PATIENCE, Drawn, StyledScreen

SCREENS = Path(__file__).parents[1] / "pty" / "screens"
UPDATE = bool(os.environ.get("UPDATE_SCREENS"))
# Seconds for which a screen that is not as expected has to stay as it is until it counts as final.
FINAL, QUIET = 8.0, 1.2
# What differs from run to run, and what stands for it.
MASKS = (
    (re.compile(r"agent-[a-z0-9_]{8}(?=/)"), "agent-XXXXXXXX"),
    (re.compile(rf"(?<=agent ){re.escape(__version__)}"), "V"),
    (re.compile(r"\b\d+(\.\d+)? ?s\b|\b\d+ ms\b|\b\d+m \d\ds\b"), "Ns"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){0,4}([0-9a-f]{8})?\b"), "ID"),
    (re.compile(r"↑ \S+ ↓ \S+"), "↑ N ↓ N"),
    (re.compile(r"\b\d:\d\d\b"), "N:NN"),
    # The conversation has paths and times, whose tokens are estimated.
    (re.compile(r"\b\d,\d{3}(?= tokens \(estimated\))|(?<=■ conversation       )\d,\d{3}"), "N,NNN"),
    # Markers that move while work is going on.
    (re.compile(r"^\S(?= .*\besc\b)|[\u2801-\u28ff]"), "*"),
)


_SEEN_ON_BLANKS = re.compile(r" on |reverse|underline|strike")


class View(NamedTuple):
    """A window in which scenes are drawn. look: "dark", "light", "16" colours, or "none" for no colours."""

    columns: int
    rows: int
    look: str = "dark"

    @property
    def size(self) -> str:
        return f"{self.columns}x{self.rows}"

    @property
    def env(self) -> dict[str, str]:
        """The environment of a program that is to look like this."""
        if self.look == "none":
            return {"NO_COLOR": "1"}
        if self.look == "16":
            return {"TERM": "xterm"}
        return {"COLORTERM": "truecolor", "AGENT_TERMINAL_THEME": self.look}


MIDDLE = 80, 24
VIEWS = (*(View(*MIDDLE, look) for look in ("dark", "light", "16", "none")),
         View(40, 15), View(100, 32), View(160, 45))  # fmt: skip


class Row(NamedTuple):
    """A row of a screen: its characters, and the style of each."""

    text: str
    styles: tuple[str, ...]


def style_of(cell: Char) -> str:
    """Return the look of a cell in words; "" for plain text."""
    return _look(cell.fg, cell.bg, cell.bold, cell.italics, cell.underscore, cell.reverse, cell.strikethrough)


@cache
def _look(fg: str, bg: str, *on: bool) -> str:
    words = [name for name, set_ in zip(("bold", "italic", "underline", "reverse", "strike"), on, strict=True) if set_]
    words += [word for word in fg.split() if word != "default"]
    return " ".join([*words, *([f"on {bg}"] if bg != "default" else [])])


def rows_of(screen: Drawn, masks: Sequence[tuple[re.Pattern[str], str]] = MASKS) -> list[Row]:
    """Return the last rows that were drawn, as many as the window has, masked.

    How far the screen has scrolled depends on what stood below for a moment, so it is not looked at.
    """
    drawn = screen.screen
    lines = [*drawn.above, *(drawn.buffer[y] for y in range(drawn.lines))]
    rows = [row_of([line[x] for x in range(drawn.columns)], masks) for line in lines]
    while rows and not rows[-1].text and not any(rows[-1].styles):
        rows.pop()
    return rows[-drawn.lines :]


def row_of(cells: Sequence[Char], masks: Sequence[tuple[re.Pattern[str], str]]) -> Row:
    """Return a row from its cells, masked, without blanks at the end that show nothing."""
    # The second half of a wide character has no data.
    pairs = [(char, style_of(cell)) for cell in cells for char in cell.data[:1]]
    text, styles = "".join(char for char, _ in pairs), [style for _, style in pairs]
    for mask, stands in masks:
        for found in reversed(list(mask.finditer(text))):
            begin, end = found.span()
            text = text[:begin] + stands + text[end:]
            styles[begin:end] = [styles[begin]] * len(stands)
    for place in range(len(text) - 1, -1, -1):
        # The end of a run that shows nothing may or may not be drawn again.
        after = styles[place + 1] if place + 1 < len(text) else ""
        if text[place] == " " and styles[place] != after and not _SEEN_ON_BLANKS.search(styles[place]):
            styles[place] = ""
    filled = len(text)
    while filled and text[filled - 1] == " " and not styles[filled - 1]:
        filled -= 1
    return Row(text[:filled], tuple(styles[:filled]))


def plain(rows: Iterable[Row]) -> str:
    """Return the text of rows."""
    return "".join(f"{row.text.rstrip()}\n" for row in rows)


def style_runs(rows: Iterable[Row]) -> str:
    """Return the runs of one style, a line each: row, columns, style, text."""
    lines = []
    for number, row in enumerate(rows, 1):
        for at, style, text in runs_of(row):
            if style:
                place = f"{number:>3} {at + 1:>3}-{at + len(text):<3}"
                lines.append(f"{place} {style:<24} {text.rstrip()}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def runs_of(row: Row) -> Iterator[tuple[int, str, str]]:
    """Yield the parts of a row that look the same: where each begins, its style, its text."""
    at = 0
    for style, group in groupby(row.styles):
        count = len(list(group))
        yield at, style, row.text[at : at + count]
        at += count


class Stored:
    """The stored screens of one scene. At 80 by 24 a file has the styles of each look as well."""

    def __init__(self, scene: str) -> None:
        self._scene = scene
        self._parts: dict[str, str] = {}

    def path(self, view: View) -> Path:
        return SCREENS / view.size / f"{self._scene}.txt"

    def sections(self, view: View, rows: Sequence[Row]) -> dict[str, str]:
        """Return what a screen is stored as, by the heading of its section; the first has none."""
        text = plain(rows)
        if (view.columns, view.rows) != MIDDLE:
            return {"": text}
        if view.look == "dark":
            self._dark = text
            return {"": text, "dark": style_runs(rows)}
        words = {f"{view.look}: text": text} if text != self._dark else {}
        return {**words, view.look: style_runs(rows)}

    def wanted(self, view: View) -> dict[str, str]:
        """Return the stored sections of a view."""
        try:
            text = self.path(view).read_text("utf-8")
        except FileNotFoundError:
            return {}
        first, *others = re.split(r"^──── (.*) ────\n", text, flags=re.MULTILINE)
        sections = {"": first, **dict(zip(others[::2], others[1::2], strict=True))}
        mine = ("", "dark") if view.look == "dark" else (f"{view.look}: text", view.look)
        return {name: body for name, body in sections.items() if name in mine}

    def store(self, view: View, sections: dict[str, str]) -> None:
        """Write the sections of a view; those of other looks in the same file stay until they are written."""
        path = self.path(view)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._parts = {**(self._parts if view.look != "dark" else {}), **sections}
        path.write_text(
            "".join(f"──── {name} ────\n{body}" if name else body for name, body in self._parts.items()), "utf-8"
        )


def hold(screen: Drawn, stored: Stored, view: View, *, hurry: bool = False) -> str:
    """Compare a screen with the stored one, or store it; return a diff, "" if they are equal.

    The last frame may still be on its way: what differs counts once it has not changed for some time.
    hurry: the test fails already, so a short time will do.
    """

    if UPDATE:
        stored.store(view, stored.sections(view, _settle(screen, QUIET, lambda rows: False)))
        return ""
    wanted = stored.wanted(view)
    rows = _settle(screen, QUIET if hurry else FINAL, lambda rows: stored.sections(view, rows) == wanted)
    found = stored.sections(view, rows)
    lines: list[str] = []
    for name in {**wanted, **found}:
        title = f"{view.size}/{stored.path(view).name} {name}".rstrip()
        before, after = wanted.get(name, "").splitlines(), found.get(name, "").splitlines()
        lines += difflib.unified_diff(before, after, f"stored {title}", f"now {title}", lineterm="", n=2)
    return "\n".join(lines)


def _settle(screen: Drawn, seconds: float, done: Callable[[Sequence[Row]], bool]) -> list[Row]:
    """Wait until the rows are as they should be, or nothing new has come for so long; return them."""
    rows = rows_of(screen)
    since = time.monotonic()
    end = since + PATIENCE
    over = done(rows)
    while not over and time.monotonic() < min(end, since + seconds):
        if screen.read(0.1) and (now := rows_of(screen)) != rows:
            rows, since, over = now, time.monotonic(), done(now)
    return rows


def _words(text: str) -> set[str]:
    """The words of a text, as they stand and without the punctuation around them."""
    found = set(text.split())
    return found | {word.strip("()[]{}<>,.;:!?\"'`·•") for word in found}


def faults(screen: StyledScreen, vocabulary: Iterable[str]) -> list[str]:
    """Return the faults that no screen may have.

    vocabulary: texts whose words must not be broken or cut at the right edge.
    """
    columns = screen.columns
    rows = [str(line).rstrip() for line in screen.display]
    while rows and not rows[-1]:
        rows.pop()
    found = [f"wider than the window: {text!r}" for text in screen.overrun]
    first = next((number for number, row in enumerate(rows) if row), 0)
    for number in range(first + 1, len(rows)):
        if not rows[number] and not rows[number - 1]:
            found.append(f"two blank rows: {number} and {number + 1}")
    words = {word for text in vocabulary for word in _words(text) if len(word) < columns - 6}
    for number, row in enumerate(rows):
        tokens = row.split()
        last = tokens[-1] if tokens else ""
        cut = len(row) >= columns - 2 and last[-1:].isalnum() and last not in words
        if cut and (word := next((w for w in words if w.startswith(last) and len(last) > 1), "")):
            found.append(f"row {number + 1} breaks {word!r}: {row!r}")
    return found


def squeezed(text: str) -> str:
    """Return a text without the blanks, borders and line breaks that wrapping puts into it."""
    return re.sub(r"[\s│┃▌▎|]+", "", text)


def missing(visible: str, texts: Iterable[str]) -> list[str]:
    """Return those of the texts that are not in a window, however they are wrapped."""
    shown = squeezed(visible)
    return [text for text in texts if squeezed(text) not in shown]
