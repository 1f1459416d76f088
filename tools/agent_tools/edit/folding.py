"""Fold what cannot be seen of a text: kinds of spaces, quotes and dashes, invisible characters, composed letters.

A folded text knows where each of its characters is in the original, so that a match in it can be edited there.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from unicodedata import combining, normalize

from agent_tools.edit.diff import common_start
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools import lookalikes as alike

_ASCII_FORMS = {ord(c): "'" for c in "‘’‚‛′"} | {ord(c): '"' for c in "“”„‟″"}
_ASCII_FORMS |= {ord(c): "-" for c in "‐‑‒–—―−"}
_ASCII_FORMS |= {ord(c): " " for c in "\u00a0\u1680\u202f\u205f\u3000"} | dict.fromkeys(range(0x2000, 0x200B), " ")
# Soft hyphens, zero-width characters, marks of direction, variation selectors, byte order marks.
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_DROPPED = re.compile(f"[{_INVISIBLE}]+")
# Vowels and final consonants of Korean syllables, and letters of Indic scripts, may be composed with the one before.
_COMPOSED = re.compile("[\u1161-\u1175\u11a8-\u11c2\u0900-\u0dff\u1000-\u109f]")
_ODD = re.compile(rf"\r\n|[{_INVISIBLE}]+|[\0-\x7f]?[^\0-\x7f]+")
_MAX_BLEND_PRODUCT = 4_000_000


def asciify(text: str) -> str:
    """Replace typographic quotes, dashes and spaces with their ASCII forms, character for character."""
    return text if text.isascii() else text.translate(_ASCII_FORMS)


def fold(text: str) -> str:
    """Return a text without the differences that cannot be seen."""
    return text if text.isascii() else normalize("NFC", asciify(_DROPPED.sub("", text)))


class FoldedText:
    """A folded text, and the positions of its characters in the original.

    Line ends are folded to "\\n". lookalikes: letters that look like Latin ones are folded, too.
    """

    def __init__(self, original: str, *, lookalikes: bool = False) -> None:
        self.original = original
        # Boundaries: from each, characters are the same up to the next; or they are one piece, which cannot be divided.
        self._folded, self._from, self._same = [0], [0], [True]
        parts: list[str] = []
        at = length = 0
        for found in _ODD.finditer(original):
            for start, end, text in _pieces(found, lookalikes):
                if start > at:
                    parts.append(original[at:start])
                    length += start - at
                self._add(length, start, same=False)
                parts.append(text)
                length, at = length + len(text), end
                self._add(length, end, same=True)
        parts.append(original[at:])
        self.text = "".join(parts)

    def _add(self, folded: int, original: int, *, same: bool) -> None:
        self._folded.append(folded)
        self._from.append(original)
        self._same.append(same)

    def start(self, position: int) -> int | None:
        """Return where the text from a position begins in the original; None within a piece."""
        return self._original(bisect_right(self._folded, position) - 1, position)

    def end(self, position: int) -> int | None:
        """Return where the text up to a position ends in the original; None within a piece."""
        first = bisect_left(self._folded, position)
        if first < len(self._folded) and self._folded[first] == position:
            return self._from[first]
        return self._original(first - 1, position)

    def _original(self, boundary: int, position: int) -> int | None:
        ahead = position - self._folded[boundary]
        return self._from[boundary] + ahead if self._same[boundary] or not ahead else None


def find_folded(content: str, part: str, *, lookalikes: bool = False) -> list[tuple[int, int]]:
    """Return the start and end of each place where a text is `part` when both are folded; none for blanks."""
    if content.isascii() and part.isascii():
        return []
    folded, wanted = (_folded(text.replace("\r\n", "\n"), lookalikes) for text in (content, part))
    at = folded.find(wanted) if wanted.strip() else -1
    places = []
    # Only the lines of a place are folded with their positions.
    raw, number, line, start = content, 0, 0, 0
    while at >= 0:
        number = folded.count("\n", line, at)
        line = folded.rfind("\n", 0, at) + 1
        for _ in range(number):
            start = raw.index("\n", start) + 1
        end = start
        for _ in range(wanted.count("\n") + 1):
            end = (raw.find("\n", end) + 1) or len(raw)
        lines = FoldedText(raw[start:end], lookalikes=lookalikes)
        if lines.text.startswith(wanted, at - line):
            first, last = lines.start(at - line), lines.end(at - line + len(wanted))
            if first is not None and last is not None and first < last:
                places.append((start + first, start + last))
        at = folded.find(wanted, at + 1)
    return places


def _pieces(found: re.Match[str], lookalikes: bool) -> list[tuple[int, int, str]]:
    """Return the start, end and folded form of each piece of a match that is not the same when folded."""
    if found[0] == "\r\n":
        return [(found.start(), found.end(), "\n")]
    pieces, at = [], found.start()
    while at < found.end():
        end = at + 1
        while end < found.end() and (combining(found.string[end]) or _COMPOSED.match(found.string[end])):
            end += 1
        raw = found.string[at:end]
        if (text := _folded(raw, lookalikes)) != raw:
            pieces.append((at, end, text))
        at = end
    return pieces


def _folded(text: str, lookalikes: bool) -> str:
    return alike.latin_form(fold(text)) if lookalikes else fold(text)


def blend(raw: str, old: str, new: str) -> str:
    """Return `new` with the file's own characters wherever it repeats `old`, which is the same as `raw` when folded."""
    theirs, one, other = FoldedText(raw), FoldedText(old), FoldedText(new)
    if raw == old or theirs.text != one.text or one.text == other.text:
        return new
    a, b = one.text, other.text
    head = common_start(a, b)
    tail = common_start(a[head:][::-1], b[head:][::-1])
    codes = [("equal", 0, head, 0, head), ("replace", head, len(a) - tail, head, len(b) - tail)]
    if (len(a) - head - tail) * (len(b) - head - tail) < _MAX_BLEND_PRODUCT:
        from difflib import SequenceMatcher

        matcher = SequenceMatcher(None, a[head : len(a) - tail], b[head : len(b) - tail], autojunk=False)
        codes[1:] = [(tag, *(n + head for n in place)) for tag, *place in matcher.get_opcodes()]  # type: ignore[misc]
    codes.append(("equal", len(a) - tail, len(a), len(b) - tail, len(b)))
    out = []
    for tag, i1, i2, j1, j2 in codes:
        piece = _slice(theirs, i1, i2) if tag == "equal" else None
        out.append(piece if piece is not None else _slice(other, j1, j2))
    return new if None in out else "".join(filter(None, out))


def _slice(text: FoldedText, first: int, last: int) -> str | None:
    """Return the original of a part of a folded text; None if it would divide a piece."""
    if first == last:
        return ""
    start, end = text.start(first), text.end(last)
    return None if start is None or end is None else text.original[start:end]
