"""Match whole lines, ignoring whitespace at their ends, typography, and one indentation difference common to all.

Inside such a match, unchanged text keeps the file's own characters and line ends; new text is shifted with the
indentation. Also undoes one level of escaping too many, as when a
model writes JSON in JSON: `\"` for `"`, `\n` for a line end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice, pairwise
from math import gcd

from agent_tools.edit.diff import changed_ranges
from agent_tools.edit.folding import asciify, blend, fold
from agent_tools.fs.encoding import line_end, split_lines
from agent_tools.record import Value
from agent_tools.results import ToolError


def line_key(line: str) -> str:
    """Normalize a line for comparison: strip and fold it."""
    return fold(line).strip()


def indent_of(line: str) -> str:
    """Return the leading whitespace of a line."""
    found = re.match(r"[ \t]*", asciify(line))
    return line[: found.end()] if found else ""


Shift = Callable[[str], str | None]


class LineMatch(Value):
    """A match of whole lines.

    at: index of the first line.
    start: offset of its first character.
    raw: the matched text of the file.
    shift: converts the indentation of the text searched for to the file's.
    """

    at: int
    start: int
    raw: str
    shift: Shift


class IndexedLines:
    """The lines of a text, in which other lines are found. It is split only where that is needed."""

    def __init__(self, content: str) -> None:
        self.content = content
        self._indent_unit = 0

    @cached_property
    def raw(self) -> list[str]:
        return split_lines(self.content)

    @cached_property
    def keys(self) -> list[str]:
        return [line_key(line) for line in self.raw]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.raw))]

    def find(self, old: str, new: str = "") -> list[LineMatch]:
        """Return every match of the lines of `old` under one common shift; [] if `old` is only whitespace.

        new: the replacement, which helps to determine the indentation width of both texts.
        """
        wanted = [line.rstrip("\r\n") for line in split_lines(old)]
        keys = [line_key(line) for line in wanted]
        anchor = next((n for n, core in enumerate(keys) if core), None)
        if anchor is None:
            return []
        tab = gcd(*(len(indent_of(line)) for line in [*wanted, *split_lines(new)] if line.strip())) or 4
        found: list[LineMatch] = []
        places = self._plain_places if self.content.isascii() else self._folded_places
        for first, start, raw in places(keys, anchor):
            shift = _find_shift([line.rstrip("\r\n") for line in raw], wanted, tab, self._unit)
            if shift is not None:
                found.append(LineMatch(first, start, "".join(raw), shift))
        return found

    def _folded_places(self, keys: list[str], anchor: int) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the index, the offset and the lines of each place that has these keys."""
        at = anchor - 1
        while True:
            try:
                at = self.keys.index(keys[anchor], at + 1)
            except ValueError:
                return
            first = at - anchor
            if self.keys[first : first + len(keys)] == keys:
                yield first, self._starts[first], self.raw[first : first + len(keys)]

    def _plain_places(self, keys: list[str], anchor: int) -> Iterator[tuple[int, int, list[str]]]:
        """Do the same in a text of ASCII, whose lines are their own keys but for the spaces around them."""
        content, core, at = self.content, keys[anchor], 0
        while (at := content.find(core, at)) >= 0:
            start, end = content.rfind("\n", 0, at) + 1, content.find("\n", at)
            end = len(content) if end < 0 else end + 1
            at = end
            if content[start:end].strip() != core:
                continue
            for _ in range(anchor):
                start = content.rfind("\n", 0, start - 1) + 1 if start else -1
            raw = list(islice(lines_from(content, start), len(keys))) if start >= 0 else []
            if [line.strip() for line in raw] == keys:
                yield content.count("\n", 0, start), start, raw

    def _unit(self) -> int:
        if self._indent_unit == 0:
            self._indent_unit = _indent_width(self.raw)
        return self._indent_unit


def lines_from(text: str, start: int) -> Iterator[str]:
    """Yield the lines of a text from an offset on, with their ends."""
    while start < len(text):
        end = (text.find("\n", start) + 1) or len(text)
        yield text[start:end]
        start = end


def splice_match(content: str, fit: LineMatch, old: str, new: str) -> tuple[int, int, str]:
    """Return start, end and replacement of the characters to change at a match. Raises ToolError as `adapt_lines`."""
    raw = fit.raw
    if not old.endswith("\n"):
        raw = raw.removesuffix("\n").removesuffix("\r")
    elif not raw.endswith("\n"):
        # The file's last line has no line end and gets none.
        old, new = old.removesuffix("\n"), new.removesuffix("\n").removesuffix("\r")
    return fit.start, fit.start + len(raw), adapt_lines(raw, old, new, line_end_at(content, fit.start), fit.shift)


def line_end_at(content: str, start: int) -> str:
    """Return the line end at a position; in the last line, which may have none, the most frequent one."""
    at = content.find("\n", start)
    if at < 0:
        return line_end(content)
    return "\r\n" if content[at - 1 : at] == "\r" else "\n"


def _find_shift(lines: list[str], wanted: list[str], tab: int, unit: Callable[[], int]) -> Shift | None:
    """Return the one shift that turns the indentation of all lines of `wanted` into the file's; None if there is none.

    tab: spaces in `wanted` for a tab of the file. unit: returns the spaces of the file for a tab in `wanted`.
    """
    pairs = [(indent_of(f), indent_of(s)) for f, s in zip(lines, wanted, strict=True) if line_key(s)]
    if (moved := _prefix_shift(pairs)) is not None:
        return moved
    tabs = any("\t" in ours for _, ours in pairs)
    for size in dict.fromkeys((unit() if tabs else tab, 4, 2, 8, 3)):
        spelled = _replace_indent("\t" if tabs else " " * size, " " * size if tabs else "\t")
        if (moved := _prefix_shift([(theirs, spelled(ours)) for theirs, ours in pairs])) is not None:
            return _compose(spelled, moved)
    return None


def _prefix_shift(pairs: list[tuple[str, str]]) -> Shift | None:
    """Return the shift that turns each second indentation into the first by adding or removing one prefix."""
    theirs, ours = pairs[0]
    more, less = theirs.removesuffix(ours), ours.removesuffix(theirs)
    ways: tuple[Shift, ...] = (
        lambda i: i,
        lambda i: more + i,
        lambda i: i.removeprefix(less) if i.startswith(less) else None,
    )
    return next((way for way in ways if all(way(o) == t for t, o in pairs)), None)


def _replace_indent(one: str, other: str) -> Callable[[str], str]:
    return lambda indent: indent.replace(one, other)


def _compose(first: Callable[[str], str], second: Shift) -> Shift:
    return lambda indent: second(first(indent))


def _indent_width(lines: Iterable[str]) -> int:
    """Return the most frequent increase of indentation between lines, in spaces; 4 if there is none."""
    widths = [len(indent_of(line)) for line in lines if line.strip()]
    steps = Counter(b - a for a, b in pairwise([0, *widths]) if b > a)
    return steps.most_common(1)[0][0] if steps else 4


def adapt_lines(raw: str, old: str, new: str, ending: str, shift: Shift) -> str:
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
                rest = blend(raw_lines[i1 + n].strip(), old_lines[i1 + n].strip(), rest)
            out.append(moved + rest + end)
    return "".join(out)


def _blocks(old: list[str], new: list[str]) -> list[tuple[bool, tuple[int, int], tuple[int, int]]]:
    """Return the ranges of lines in order, each with a flag that tells if it is equal in both."""
    if len(old) <= 1 and len(new) <= 1:
        return [(old == new, (0, len(old)), (0, len(new)))]
    differing = [(0, 0, 0, 0), *changed_ranges(old, new), (len(old), len(old), len(new), len(new))]
    out: list[tuple[bool, tuple[int, int], tuple[int, int]]] = []
    for (_, i1, _, j1), (i2, i3, j2, j3) in pairwise(differing):
        out += [(True, (i1, i2), (j1, j2)), (False, (i2, i3), (j2, j3))]
    return out


def ignored_differences(raw: str, old: str) -> set[str]:
    """Describe the differences that were ignored to match `raw` with `old`."""
    lines, wanted = ([line.rstrip("\r\n") for line in split_lines(text)] for text in (raw, old))
    pairs = [(f, s) for f, s in zip(lines, wanted, strict=True) if line_key(s)]
    seen = set()
    if any(indent_of(f) != indent_of(s) for f, s in pairs):
        seen.add("indentation (new_string was also shifted)")
    if any(f.strip() != s.strip() for f, s in pairs):
        seen.add("typographic characters")
    return seen


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
# Text with escaped line ends has escaped backslashes too.
_ESCAPED_CHARS = ("", "\\", "\\ntr")
_QUOTE_SETS = ("", '"', "'", "\"'")


def unescaped_variants(old: str, new: str) -> dict[str, set[str | None]]:
    """Return possible unescaped forms of `old`, each with the forms of `new`; None if `new` cannot be unescaped so."""
    found: dict[str, set[str | None]] = {}
    if "\\" not in old:
        return found
    for level in _ESCAPED_CHARS:
        for quotes in _QUOTE_SETS:
            plain = _unescape(old, quotes, level) if quotes or level else None
            if plain is not None and plain != old:
                found.setdefault(plain, set()).add(_unescape(new, quotes, level))
    return found


def _unescape(text: str, quotes: str, level: str) -> str | None:
    """Remove one level of escaping from `text`; return None if it cannot have been escaped in this way."""
    escape = r"\\([" + re.escape(quotes + level) + "])"
    bare = quotes + level[:1] + ("\n" if "n" in level else "")
    if any(char in bare for char in re.sub(escape, "", text)):
        return None
    return re.sub(escape, lambda match: _ESCAPES.get(match[1], match[1]), text)
