"""Changing one value in JSON text and leaving every other character of it as it is.

Parsing and writing a file anew would lose how it spells numbers, escapes, blanks and repeated keys. Here an object or
array is taken apart into its pieces, some of them are replaced, and put together again.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BLANKS = " \t\n\r"


class Piece:
    """One member of an object or item of an array, with the blanks before and behind it. An item has no key."""

    def __init__(self, lead: str, key: str, colon: str, raw: str, trail: str = "") -> None:
        self.lead, self.key, self.colon, self.raw, self.trail = lead, key, colon, raw, trail

    @property
    def name(self) -> str:
        """The key as it is meant."""
        return str(json.loads(self.key))

    @property
    def text(self) -> str:
        """The piece as it stands in the file."""
        return self.lead + self.key + self.colon + self.raw + self.trail


class Pieces:
    """The object or array that a text, which is known to be JSON, holds.

    start and end: where it stood. tail: the blanks before its closing bracket; without pieces, all that is in it.
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
        """All of it, as it now stands."""
        closing = "}" if self.opening == "{" else "]"
        return self.opening + ",".join(piece.text for piece in self.pieces) + self.tail + closing

    def get(self, name: str) -> Piece | None:
        """The member of that name; of several, the last, which is the one that readers of JSON take."""
        return next((piece for piece in reversed(self.pieces) if piece.name == name), None)

    def put(self, name: str, raw: str) -> None:
        """Set a member of an object that has members; a new one goes to its place where the keys are sorted."""
        if (old := self.get(name)) is not None:
            old.raw = raw
            return
        names = [piece.name for piece in self.pieces]
        after = next((n for n, other in enumerate(names) if other > name), len(names))
        self.insert(after if names == sorted(names) else len(names), raw, json.dumps(name), self.pieces[0].colon)

    def insert(self, at: int, raw: str, key: str = "", colon: str = "") -> None:
        """Add a piece before the one at `at`, with blanks like those of its neighbours. There must be one."""
        first = self.pieces[0].lead
        other = self.pieces[1].lead if len(self.pieces) > 1 else first or " "
        if at == 0:
            self.pieces[0].lead = other
        self.pieces.insert(at, Piece(other if at else first, key, colon, raw))

    def remove(self, at: int) -> None:
        """Take a piece out."""
        gone = self.pieces.pop(at)
        if not self.pieces:
            self.tail = ""
        elif at == 0:
            self.pieces[0].lead = gone.lead

    def drop(self, name: str) -> None:
        """Remove every member of that name."""
        for at in reversed([n for n, piece in enumerate(self.pieces) if piece.name == name]):
            self.remove(at)


class Style:
    """How a JSON text is written. unit: one level of indentation, None where all is on one line."""

    def __init__(self, text: str) -> None:
        outer = Pieces(text)
        lead = outer.pieces[0].lead if outer.pieces else ""
        self.newline = "\r\n" if "\r\n" in lead else "\n"
        self.unit = lead.rpartition("\n")[2] if "\n" in lead else None
        self._colon = outer.pieces[0].colon if outer.pieces else ": "
        second = outer.pieces[1].lead if len(outer.pieces) > 1 else " "
        self._comma = "," if self.unit is not None else "," + second
        # Jupyter writes letters beyond ASCII as they are; some other programs escape them.
        escaped = re.search(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])", text) is not None
        self._ascii = escaped and text.isascii()

    def dump(self, value: Any, lead: str) -> str:
        """A value as this text would have it, for a place that stands behind the blanks `lead`."""
        nested = self.unit is not None and "\n" in lead
        raw = json.dumps(
            value,
            ensure_ascii=self._ascii,
            indent=self.unit if nested else None,
            separators=(self._comma, self._colon),
        )
        return raw.replace("\n", self.newline + lead.rpartition("\n")[2]) if nested else raw

    def lead(self, depth: int) -> str:
        """The blanks before something that many levels deep."""
        return "" if self.unit is None else self.newline + self.unit * depth


def _past_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
