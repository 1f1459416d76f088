"""Match whole lines, ignoring whitespace at their ends, typography, and one indentation difference common to all.

Text that an edit does not change inside such a match keeps the file's own characters and line ends; text that it adds
is shifted with the indentation. Unicode form is ignored too. Also undoes one level of escaping too many, as when a
model writes JSON in JSON: `\"` for `"`, `\n` for a line end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from math import gcd

from agent_tools.edit.diff import changes, common_start
from agent_tools.fs.encoding import line_end, split_lines
from agent_tools.record import Value
from agent_tools.results import ToolError

_ALIKE = {ord(c): "'" for c in "‘’‚‛′"} | {ord(c): '"' for c in "“”„‟″"}
_ALIKE |= {ord(c): "-" for c in "‐‑‒–—―−"}
_ALIKE |= {ord(c): " " for c in "\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000"}


def plain_line(line: str) -> str:
    """Replace typographic quotes, dashes and spaces with their ASCII forms, character for character."""
    return line if line.isascii() else line.translate(_ALIKE)


def core_of(line: str) -> str:
    """Return the part of a line that is compared: without whitespace at the ends, typography and Unicode form."""
    if line.isascii():
        return line.strip()
    from unicodedata import normalize

    return normalize("NFC", plain_line(line)).strip()


def indent_of(line: str) -> str:
    """Return the leading whitespace of a line."""
    found = re.match(r"[ \t]*", plain_line(line))
    return line[: found.end()] if found else ""


Shift = Callable[[str], str | None]
# In characters squared: for longer lines, the new line is used as written instead of being blended with the file's.
_COMPARED = 4_000_000


class LineMatch(Value):
    """A match of whole lines.

    at: line, from 0.
    start: its first character.
    raw: the matched text of the file.
    shift: converts indentation of the searched text to that of the file.
    """

    at: int
    start: int
    raw: str
    shift: Shift


class Lines:
    """The lines of a text, indexed for finding other lines in it."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.raw = split_lines(content)
        self.cores = [core_of(line) for line in self.raw]
        self._starts = [0, *accumulate(map(len, self.raw))]
        self._known_unit = 0

    def fits(self, old: str, new: str = "") -> list[LineMatch]:
        """Return every match of the lines of `old` under one common shift; [] if `old` is only whitespace.

        new: the replacement, which helps to find out the indentation width of both texts.
        """
        sought = [line.rstrip("\r\n") for line in split_lines(old)]
        cores = [core_of(line) for line in sought]
        anchor = next((n for n, core in enumerate(cores) if core), None)
        tab = gcd(*(len(indent_of(line)) for line in [*sought, *split_lines(new)] if line.strip())) or 4
        found: list[LineMatch] = []
        at = -1 if anchor is None else anchor - 1
        while anchor is not None:
            try:
                at = self.cores.index(cores[anchor], at + 1)
            except ValueError:
                break
            first = at - anchor
            last = first + len(cores)
            if self.cores[first:last] != cores:
                continue
            shift = _shift([line.rstrip("\r\n") for line in self.raw[first:last]], sought, tab, self._unit())
            if shift is not None:
                found.append(LineMatch(first, self._starts[first], "".join(self.raw[first:last]), shift))
        return found

    def _unit(self) -> int:
        if self._known_unit == 0:
            self._known_unit = _step(self.raw)
        return self._known_unit


def put_in(content: str, fit: LineMatch, old: str, new: str) -> tuple[int, int, str]:
    """Return start, end and replacement of the characters to change at a match. Raises ToolError; see `carry`."""
    raw = fit.raw
    if not old.endswith("\n"):
        raw = raw.removesuffix("\n").removesuffix("\r")
    elif not raw.endswith("\n"):
        # The file's last line has no line end and gets none.
        old, new = old.removesuffix("\n"), new.removesuffix("\n").removesuffix("\r")
    return fit.start, fit.start + len(raw), carry(raw, old, new, ending_at(content, fit.start), fit.shift)


def ending_at(content: str, start: int) -> str:
    """Return the line end in use at a position; in the last line, which may have none, that of most lines."""
    at = content.find("\n", start)
    if at < 0:
        return line_end(content)
    return "\r\n" if content[at - 1 : at] == "\r" else "\n"


def _shift(lines: list[str], sought: list[str], tab: int, unit: int) -> Shift | None:
    """Return the shift from the indentation of `sought` to the file's, the same for all lines; None if there is none.

    tab: spaces in `sought` for a tab of the file. unit: spaces of the file for a tab in `sought`.
    """
    pairs = [(indent_of(f), indent_of(s)) for f, s in zip(lines, sought, strict=True) if core_of(s)]
    if (moved := _offset(pairs)) is not None:
        return moved
    tabs = any("\t" in ours for _, ours in pairs)
    for size in dict.fromkeys((unit if tabs else tab, 4, 2, 8, 3)):
        spelled = _respelled("\t" if tabs else " " * size, " " * size if tabs else "\t")
        if (moved := _offset([(theirs, spelled(ours)) for theirs, ours in pairs])) is not None:
            return _both(spelled, moved)
    return None


def _offset(pairs: list[tuple[str, str]]) -> Shift | None:
    """Return the shift that makes each first indentation from the second by adding or removing one common prefix."""
    theirs, ours = pairs[0]
    more, less = theirs.removesuffix(ours), ours.removesuffix(theirs)
    ways: tuple[Shift, ...] = (
        lambda i: i,
        lambda i: more + i,
        lambda i: i.removeprefix(less) if i.startswith(less) else None,
    )
    return next((way for way in ways if all(way(o) == t for t, o in pairs)), None)


def _respelled(one: str, other: str) -> Callable[[str], str]:
    return lambda indent: indent.replace(one, other)


def _both(first: Callable[[str], str], second: Shift) -> Shift:
    return lambda indent: second(first(indent))


def _step(lines: Iterable[str]) -> int:
    """Return the most frequent increase of indentation between lines, in spaces; 4 if there is none."""
    widths = [len(indent_of(line)) for line in lines if line.strip()]
    steps = Counter(b - a for a, b in pairwise([0, *widths]) if b > a)
    return steps.most_common(1)[0][0] if steps else 4


def carry(raw: str, old: str, new: str, ending: str, shift: Shift) -> str:
    """Adapt `new` to the file: lines shared with `old` stay as they are in `raw`, others are shifted.

    Raises ToolError for a new line with too little indentation to shift.
    """
    raw_lines = split_lines(raw)
    old_lines, new_lines = (split_lines(text.replace("\r\n", "\n")) for text in (old, new))
    out: list[str] = []
    for same, (i1, i2), (j1, j2) in _blocks(old_lines, new_lines):
        if same:
            out += raw_lines[i1:i2]
            continue
        paired = i2 - i1 == j2 - j1
        for n, line in enumerate(new_lines[j1:j2]):
            body = line.removesuffix("\n")
            end = ending if line.endswith("\n") else ""
            indent = indent_of(body)
            moved = shift(indent) if body.strip() else indent
            if moved is None:
                raise ToolError(
                    f"old_string matches only with other indentation, and this line of new_string has too little of it "
                    f"to be shifted: {body[:120]!r}. Read the place again and use the file's own indentation."
                )
            rest = body[len(indent) :]
            if paired:
                rest = _blend(raw_lines[i1 + n], old_lines[i1 + n], rest)
            out.append(moved + rest + end)
    return "".join(out)


def _blocks(old: list[str], new: list[str]) -> list[tuple[bool, tuple[int, int], tuple[int, int]]]:
    """Return the ranges of lines in order, each with whether it is equal in both."""
    if len(old) <= 1 and len(new) <= 1:
        return [(old == new, (0, len(old)), (0, len(new)))]
    differing = [(0, 0, 0, 0), *changes(old, new), (len(old), len(old), len(new), len(new))]
    out: list[tuple[bool, tuple[int, int], tuple[int, int]]] = []
    for (_, i1, _, j1), (i2, i3, j2, j3) in pairwise(differing):
        out += [(True, (i1, i2), (j1, j2)), (False, (i2, i3), (j2, j3))]
    return out


def _blend(raw: str, old: str, new: str) -> str:
    """Return `new` with the file's typographic characters wherever it equals `old`, which has plain ones."""
    raw, old = raw.strip(), old.strip()
    if raw == old or len(raw) != len(old):
        return new
    head = common_start(old, new)
    tail = common_start(old[head:][::-1], new[head:][::-1])
    one, other, theirs = (text[head : len(text) - tail] for text in (old, new, raw))
    if len(one) * len(other) < _COMPARED:
        from difflib import SequenceMatcher

        codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        other = "".join(theirs[i1:i2] if tag == "equal" else other[j1:j2] for tag, i1, i2, j1, j2 in codes)
    return raw[:head] + other + raw[len(raw) - tail :]


def disregarded(raw: str, old: str) -> set[str]:
    """Return what had to be ignored for `raw` to match `old`, in words."""
    lines, sought = ([line.rstrip("\r\n") for line in split_lines(text)] for text in (raw, old))
    pairs = [(f, s) for f, s in zip(lines, sought, strict=True) if core_of(s)]
    seen = set()
    if any(indent_of(f) != indent_of(s) for f, s in pairs):
        seen.add("indentation (new_string was shifted too)")
    if any(f.strip() != s.strip() for f, s in pairs):
        seen.add("typographic characters")
    return seen


_MEANS = {"n": "\n", "t": "\t", "r": "\r"}
# Text with escaped line ends has escaped backslashes too.
_LEVELS = ("", "\\", "\\ntr")
_QUOTES = ("", '"', "'", "\"'")


def unescaped_variants(old: str, new: str) -> dict[str, set[str | None]]:
    """Return the forms that `old` may have had before escaping, each with that of `new`, None if it has none."""
    found: dict[str, set[str | None]] = {}
    if "\\" not in old:
        return found
    for level in _LEVELS:
        for quotes in _QUOTES:
            plain = _taken_away(old, quotes, level) if quotes or level else None
            if plain is not None and plain != old:
                found.setdefault(plain, set()).add(_taken_away(new, quotes, level))
    return found


def _taken_away(text: str, quotes: str, level: str) -> str | None:
    """Remove one level of escaping from `text`; return None if it cannot have been escaped in this way."""
    escape = r"\\([" + re.escape(quotes + level) + "])"
    bare = quotes + level[:1] + ("\n" if "n" in level else "")
    if any(char in bare for char in re.sub(escape, "", text)):
        return None
    return re.sub(escape, lambda match: _MEANS.get(match[1], match[1]), text)
