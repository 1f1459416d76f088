"""Lines with SGR sequences as the fragments that prompt-toolkit draws, clipped to a width in cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from prompt_toolkit.utils import get_cwidth

Fragment = tuple[str, str]

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BRIGHT = ("brightblack", *(f"bright{name}" for name in _NAMES[1:7]), "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


@lru_cache(2048)
def fragments(line: str, width: int) -> tuple[Fragment, ...]:
    """The line as styled text of at most `width` cells; tabs are four blanks."""
    found: list[Fragment] = []
    state: dict[str, str] = {}
    position, left = 0, width
    for match in _ESCAPE.finditer(line):
        left = _add(found, line[position : match.start()], state, left)
        position = match.end()
        if match[1] is not None:
            _apply(state, [int(n or 0) for n in match[1].split(";")])
    _add(found, line[position:], state, left)
    return tuple(found)


def _add(found: list[Fragment], text: str, state: dict[str, str], left: int) -> int:
    if not text or left <= 0:
        return left
    shown = clip(text.replace("\t", "    "), left)
    found.append((" ".join(state.values()), shown))
    return left - cells(shown) if len(shown) == len(text) else left - max(cells(shown), 1)


def cells(text: str) -> int:
    """How many cells a text takes as prompt-toolkit draws it: character by character."""
    return len(text) if text.isascii() else sum(get_cwidth(c) for c in text)


def clip(text: str, width: int) -> str:
    """The beginning of a text that fits into `width` cells."""
    if width <= 0:
        return ""
    if text.isascii() or len(text) * 2 <= width:
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += get_cwidth(char)
        if used > width:
            return text[:index]
    return text


def wrapped(text: str, width: int) -> list[str]:
    """A line of plain text in rows of at most `width` cells, cut where a terminal would."""
    rows = []
    while text:
        row = clip(text, max(width, 2)) or text[0]
        rows.append(row)
        text = text[len(row) :]
    return rows or [""]


def count_rows(lines: Iterable[str], width: int) -> int:
    """How many rows plain lines take on a terminal of that width."""
    return sum(max(1, -(-cells(line) // max(width, 1))) for line in lines)


def _apply(state: dict[str, str], codes: list[int]) -> None:
    while codes:
        code = codes.pop(0)
        if code == 0:
            state.clear()
        elif code in _ON:
            state[_ON[code]] = _ON[code]
        elif code in _OFF:
            for name in _OFF[code]:
                state.pop(name, None)
        elif code in (38, 48):
            _extended(state, "fg" if code == 38 else "bg", codes)
        elif code in (39, 49):
            state.pop("fg" if code == 39 else "bg", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            state["fg"] = "fg:ansi" + (_NAMES[code - 30] if code < 40 else _BRIGHT[code - 90])
        elif 40 <= code <= 47 or 100 <= code <= 107:
            state["bg"] = "bg:ansi" + (_NAMES[code - 40] if code < 50 else _BRIGHT[code - 100])


def _extended(state: dict[str, str], ground: str, codes: list[int]) -> None:
    """A colour of the 256, or one of 16 million."""
    if codes[:1] == [5] and len(codes) > 1:
        state[ground] = f"{ground}:{_indexed(codes[1])}"
        del codes[:2]
    elif codes[:1] == [2] and len(codes) > 3:
        red, green, blue = codes[1:4]
        state[ground] = f"{ground}:#{red:02x}{green:02x}{blue:02x}"
        del codes[:4]


def _indexed(number: int) -> str:
    if number < 16:
        return "ansi" + (_NAMES + _BRIGHT)[number]
    if number < 232:
        red, rest = divmod(number - 16, 36)
        green, blue = divmod(rest, 6)
        return f"#{_LEVELS[red]:02x}{_LEVELS[green]:02x}{_LEVELS[blue]:02x}"
    grey = 8 + 10 * (min(number, 255) - 232)
    return f"#{grey:02x}{grey:02x}{grey:02x}"
