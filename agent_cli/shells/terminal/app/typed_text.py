"""Typed text: its rows, wrapped at spaces, its characters, of several code points each, and how it is undone.

A private part of prompt-toolkit's buffer is used: its `_undo_stack`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import vi_mode
from prompt_toolkit.formatted_text import OneStyleAndTextTuple, StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.utils import get_cwidth

from agent_cli.shells.terminal.render.ansi import cells

_JOINER = "\N{ZERO WIDTH JOINER}"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_TAGS = range(0xE0020, 0xE0080)
# Code points that are looked at before a position: longer characters do not exist, but long runs of flags do.
_MAX_LOOK_BACK = 64
_CACHED_LINES = 64


def wrap_typed(line: str, width: int) -> list[int]:
    """Wrap a line at spaces. Return for each character how many blank cells stand before it; -1 for one left out.

    A space that does not fit at the end of a row is left out. A longer word than a row is cut.
    """
    before = [0] * len(line)
    used = 0
    for part in re.finditer(r"\s|\S+", line):
        size, at = cells(part[0]), part.start()
        if part[0].isspace():
            if used + size > width:
                before[at] = -1
            else:
                used += size
        elif used + size <= width or not used:
            used += size
        elif size <= width:
            before[at], used = width - used, size
        else:
            used += size
        if used > width:
            # A word over several rows: a wide character may leave a cell free at the end of one.
            used = used % width or width
    return before


@lru_cache(4)
def count_typed_rows(text: str, width: int) -> int:
    """Return the rows that a text takes."""
    rows = 0
    for line in text.split("\n"):
        rows, used = rows + 1, 0
        for pad, char in zip(wrap_typed(line, width), line, strict=True):
            for size in (*[1] * pad, *[get_cwidth(char)] * (pad >= 0)):
                # A wide character may leave a cell free.
                rows, used = (rows + 1, size) if used + size > width else (rows, used + size)
    return rows


class WrapAtSpaces(Processor):
    """Wrap lines at spaces: blank cells fill the rows. label: cells before each row."""

    def __init__(self, label: Callable[[], int]) -> None:
        self._label = label
        # Each line is drawn several times in a frame.
        self._wrapped = lru_cache(_CACHED_LINES)(_wrap_fragments)

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        width = transformation_input.width - self._label()
        return self._wrapped(tuple(transformation_input.fragments), width)


def _wrap_fragments(given: tuple[OneStyleAndTextTuple, ...], width: int) -> Transformation:
    fragments = explode_text_fragments(list(given))
    line = "".join(text for _, text, *_ in fragments)
    if width < 2 or cells(line) <= width:
        return Transformation(list(given))
    shown: StyleAndTextTuples = []
    # Where each character is shown; one that is left out is where the next one is.
    places: list[int] = []
    length = 0
    for pad, fragment in zip(wrap_typed(line, width), fragments, strict=True):
        if pad > 0:
            shown.append(("", " " * pad))
        length += max(pad, 0)
        places.append(length)
        if pad >= 0:
            shown.append(fragment)
            length += 1
    places.append(length)

    def to_display(index: int) -> int:
        return places[index] if index < len(places) else length + index - len(places) + 1

    def to_source(index: int) -> int:
        return min(bisect_left(places, index), len(places) - 1)

    return Transformation(shown, to_display, to_source)


def length_before(text: str) -> int:
    """Return how many code points the last character of a text has; 0 for an empty text."""
    start = max(0, len(text) - _MAX_LOOK_BACK)
    ends = _ends(text[start:])
    return len(text) - start - (ends[-2] if len(ends) > 1 else 0) if ends else 0


def length_after(text: str) -> int:
    """Return how many code points the first character of a text has; 0 for an empty text."""
    ends = _ends(text[:_MAX_LOOK_BACK])
    return ends[0] if ends else 0


def _ends(text: str) -> list[int]:
    """Return where each character of a text ends."""
    ends: list[int] = []
    flags = 0
    for at, char in enumerate(text):
        number = ord(char)
        pair = number in _FLAG_LETTERS and flags % 2 == 1
        joined = at > 0 and (
            unicodedata.category(char) in ("Mn", "Me", "Mc")
            or char == _JOINER
            or text[at - 1] == _JOINER
            or number in _SKIN_TONES
            or number in _TAGS
            or pair
        )
        flags = flags + 1 if number in _FLAG_LETTERS else 0
        if joined and ends:
            ends[-1] = at + 1
        else:
            ends.append(at + 1)
    return ends


class TypedBuffer(Buffer):
    """A buffer whose undo takes back what was typed or deleted at once: a word, or all of it in the vi mode.

    Prompt-toolkit saves the text before each key: it loses what its own commands say about that.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        # The latest saved text, if only one character has changed since the one before, and whether it was added.
        self._run: tuple[str, bool] | None = None

    def save_to_undo_stack(self, clear_redo_stack: bool = True) -> None:
        stack, text = self._undo_stack, self.text
        before, at = stack[-1] if stack else ("", 0)
        added = len(text) > len(before)
        if (text, self.cursor_position) == (before, at):
            pass
        elif stack and _changes_one(before, at, text, self.cursor_position):
            begins = added and not text[at].isspace() and before[:at][-1:].isspace()
            if self._run == (before, added) and (not begins or vi_mode()):
                stack.pop()
            self._run = text, added
        else:
            self._run = None
        super().save_to_undo_stack(clear_redo_stack)


def _changes_one(before: str, at: int, after: str, cursor: int) -> bool:
    """Return True if one character was typed or deleted before the cursor. at, cursor: where it was, and is."""
    if len(after) > len(before):
        return cursor == at + 1 and after == before[:at] + after[at:cursor] + before[at:]
    return cursor == at - 1 and after == before[:cursor] + before[at:]
