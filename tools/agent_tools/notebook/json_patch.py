"""Change one value in JSON text and preserve every other character.

Parsing and rewriting a file would lose its formatting of numbers, escapes and whitespace, and repeated keys. Here an
object or array is split into pieces, some are replaced, and all are joined again.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BLANKS = " \t\n\r"


class Piece:
    """A member of an object or an item of an array, with the whitespace around it. An item has no key."""

    def __init__(self, lead: str, key: str, colon: str, raw: str, trail: str = "") -> None:
        self.lead, self.key, self.colon, self.raw, self.trail = lead, key, colon, raw, trail

    @property
    def name(self) -> str:
        """The decoded key."""
        return str(json.loads(self.key))

    @property
    def text(self) -> str:
        """The piece as written in the file."""
        return self.lead + self.key + self.colon + self.raw + self.trail


class Pieces:
    """An object or array, parsed from valid JSON text.

    start, end: its position. tail: whitespace before the closing bracket; if there are no pieces, its whole content.
    """

    def __init__(self, text: str) -> None:
        decoder = json.JSONDecoder()
        self.start = at = _past_blanks(text, 0)
        self.opening = text[at]
        self.pieces: list[Piece] = []
        begin = at + 1
        at = _past_blanks(text, begin)
        while text[at] not in "}]":
            lead, key, colon = text[begin:at], "", ""
            if self.opening == "{":
                _, after = decoder.raw_decode(text, at)
                value = _past_blanks(text, _past_blanks(text, after) + 1)
                key, colon, at = text[at:after], text[after:value], value
            _, after = decoder.raw_decode(text, at)
            next_at = _past_blanks(text, after)
            last = text[next_at] != ","
            self.pieces.append(Piece(lead, key, colon, text[at:after], "" if last else text[after:next_at]))
            begin = after if last else next_at + 1
            at = _past_blanks(text, begin)
        self.tail = text[begin:at]
        self.end = at + 1

    @property
    def text(self) -> str:
        """The current text."""
        closing = "}" if self.opening == "{" else "]"
        return self.opening + ",".join(piece.text for piece in self.pieces) + self.tail + closing

    def get(self, name: str) -> Piece | None:
        """Return the member of this name; of several the last, which JSON parsers use."""
        return next((piece for piece in reversed(self.pieces) if piece.name == name), None)

    def put(self, name: str, raw: str) -> None:
        """Set a member of an object that has members; a new one is inserted in order if the keys are sorted."""
        if (old := self.get(name)) is not None:
            old.raw = raw
            return
        names = [piece.name for piece in self.pieces]
        after = next((n for n, other in enumerate(names) if other > name), len(names))
        self.insert(after if names == sorted(names) else len(names), raw, json.dumps(name), self.pieces[0].colon)

    def insert(self, at: int, raw: str, key: str = "", colon: str = "") -> None:
        """Insert a piece at `at`, with whitespace like that of its neighbours, of which there must be one."""
        first = self.pieces[0].lead
        other = self.pieces[1].lead if len(self.pieces) > 1 else first or " "
        if at == 0:
            self.pieces[0].lead = other
        self.pieces.insert(at, Piece(other if at else first, key, colon, raw))

    def remove(self, at: int) -> None:
        """Remove a piece."""
        gone = self.pieces.pop(at)
        if not self.pieces:
            self.tail = ""
        elif at == 0:
            self.pieces[0].lead = gone.lead

    def drop(self, name: str) -> None:
        """Remove all members of this name."""
        for at in reversed([n for n, piece in enumerate(self.pieces) if piece.name == name]):
            self.remove(at)


class Style:
    """The formatting of a JSON text. unit: one level of indentation, None if all is on one line."""

    def __init__(self, text: str) -> None:
        outer = Pieces(text)
        lead = outer.pieces[0].lead if outer.pieces else ""
        self.newline = "\r\n" if "\r\n" in lead else "\n"
        self.unit = lead.rpartition("\n")[2] if "\n" in lead else None
        self._colon = outer.pieces[0].colon if outer.pieces else ": "
        second = outer.pieces[1].lead if len(outer.pieces) > 1 else " "
        self._comma = "," if self.unit is not None else "," + second
        # Jupyter writes non-ASCII letters unescaped; some other programs escape them.
        escaped = re.search(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])", text) is not None
        self._ascii = escaped and text.isascii()

    def dump(self, value: Any, lead: str) -> str:
        """Encode a value in this formatting, for a place indented by `lead`."""
        nested = self.unit is not None and "\n" in lead
        raw = json.dumps(
            value,
            ensure_ascii=self._ascii,
            indent=self.unit if nested else None,
            separators=(self._comma, self._colon),
        )
        return raw.replace("\n", self.newline + lead.rpartition("\n")[2]) if nested else raw

    def lead(self, depth: int) -> str:
        """Return the whitespace before a value at this depth."""
        return "" if self.unit is None else self.newline + self.unit * depth


def _past_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
