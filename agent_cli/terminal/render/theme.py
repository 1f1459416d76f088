"""Colour themes, applied to our own output.

Everything is written in the sixteen colours that a terminal can redefine. A theme maps their SGR codes (ECMA-48,
8.3.117) to others; it only sees output of this program, so each front end applies it in one place.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

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
