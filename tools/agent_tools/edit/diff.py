"""Compare two texts by lines: a unified diff for the user, numbered lines for the model. Also parses unified diffs.

Large texts are first split at lines that occur once in each of them, so that changes at both ends of a long file are
found quickly and shown as two small changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from agent_tools.fs.encoding import split_lines
from agent_tools.record import Value
from agent_tools.text import CUT_END, MAX_LINE_CHARS, counted, cut_around, cut_line, numbered_line

if TYPE_CHECKING:
    from agent_tools.results import Diff

# A line, or its hash.
Line = TypeVar("Line", bound=Hashable)
MAX_EXCERPT_LINES = 60
_MAX_PATCH_LINES, _MAX_PATCH_WIDTH, _MAX_EXCERPT_WIDTH = 60, 200, 300
_MAX_DIFFLIB_LINES = 1_000
_CONTEXT_LINES = 3
# Of an excerpt: lines around a change, the longest change that is shown whole, and the lines of each end of others.
_EXCERPT_CONTEXT, _MAX_WHOLE_CHANGE, _CHANGE_ENDS = 2, 12, 3
_SEARCH_LINES = 30
HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class ParsedHunk(Value):
    """A hunk of a unified diff.

    header: the line with `@@`. opened: what opens the string or comment in which the hunk begins; "" for none.
    old, new: on each side, the first line, counted from 1, and the number of lines; (N, 0) is the place after line N.
    lines: the other lines, each with its sign.
    """

    header: str
    old: tuple[int, int]
    new: tuple[int, int]
    lines: tuple[str, ...]

    @property
    def opened(self) -> str:
        word = self.header.rpartition("@@")[2].strip()
        return word if word in OPENINGS else ""


def parse_hunks(patch: str) -> list[ParsedHunk]:
    """Split a unified diff of one file into its hunks; lines above the first are dropped."""
    found: list[ParsedHunk] = []
    head: re.Match[str] | None = None
    body: list[str] = []

    def finish() -> None:
        if head is not None:
            first, count, other, there = (1 if number is None else int(number) for number in head.groups())
            found.append(ParsedHunk(head.string, (first, count), (other, there), tuple(body)))

    for line in patch.removesuffix("\n").split("\n"):
        if header := HUNK_HEADER.match(line):
            finish()
            head, body = header, []
        else:
            body.append(line)
    finish()
    return found


def diff_parts(diff: Diff) -> list[str]:
    """Return the patches of the parts of a change that make sense separately: its hunks, or all of it."""
    if diff.created or diff.deleted or not HUNK_HEADER.match(diff.patch):
        return [diff.patch]
    return ["\n".join((hunk.header, *hunk.lines)) for hunk in parse_hunks(diff.patch)]


class Difference:
    """The lines in which two texts differ. They are found once, when they are first asked for: a file may be large."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    @cached_property
    def _lines(self) -> tuple[list[str], list[str], int]:
        return _differing_part(self.old, self.new)

    @cached_property
    def _ranges(self) -> list[tuple[int, int, int, int]]:
        return changed_ranges(*self._lines[:2])

    @cached_property
    def _above(self) -> int:
        """The number of equal lines above the differing part."""
        return self.old.count("\n", 0, self._lines[2])

    @cached_property
    def patch(self) -> tuple[str, int, int]:
        """A unified diff, and the lines added and removed; see `unified`."""
        return self.in_width(MAX_LINE_CHARS)

    def in_width(self, width: int) -> tuple[str, int, int]:
        """Return the patch with lines of this width."""
        (a, b, start), above = self._lines, self._above
        opened, scanned = opened_by(self.new[:start]) if start <= _MAX_SCANNED_CHARS else "", 0
        out: list[str] = []
        added = removed = 0
        for group in _groups(self._ranges):
            i1, i2 = max(0, group[0][0] - _CONTEXT_LINES), min(len(a), group[-1][1] + _CONTEXT_LINES)
            j1, j2 = max(0, group[0][2] - _CONTEXT_LINES), min(len(b), group[-1][3] + _CONTEXT_LINES)
            opened, scanned = opened_by("".join(b[scanned:j1]), opened), j1
            head = f"@@ -{_hunk_range(i1 + above, i2 + above)} +{_hunk_range(j1 + above, j2 + above)} @@"
            out.append(f"{head} {opened}".rstrip())
            at = i1
            for a1, a2, b1, b2 in group:
                out += _with_sign(" ", a[at:a1], width)
                out += _with_sign("-", a[a1:a2], width, b[b1:b2]) + _with_sign("+", b[b1:b2], width, a[a1:a2])
                removed += a2 - a1
                added += b2 - b1
                at = a2
            out += _with_sign(" ", a[at:i2], width)
        return "\n".join(out), added, removed

    def excerpt(self) -> str:
        """Return the lines of `new` that differ from `old`, numbered, with two around them, for the model to check.

        Of many changed lines in a row, only the first and the last are shown: the model has just written them.
        """
        (before, lines, _), above = self._lines, self._above
        wanted: set[int] = set()
        inner: dict[int, int] = {}
        others: dict[int, str] = {}
        for start_before, end_before, start, end in self._ranges:
            if end_before - start_before == end - start:
                others |= zip(range(start, end), before[start_before:end_before], strict=True)
            first, last = (
                range(max(0, start - _EXCERPT_CONTEXT), end),
                range(start, min(len(lines), end + _EXCERPT_CONTEXT)),
            )
            if end - start > _MAX_WHOLE_CHANGE:
                first, last = first[: start - first.start + _CHANGE_ENDS], last[end - start - _CHANGE_ENDS :]
                inner[last.start] = last.start - first.stop
            wanted.update(first, last)
        out: list[str] = []
        previous = -1
        for n in sorted(wanted)[:MAX_EXCERPT_LINES]:
            if n > previous + 1 and out:
                out.append(f"[{counted(inner[n], 'more changed line')}]" if n in inner else "...")
            line = lines[n].rstrip(chr(13) + chr(10))
            out.append(numbered_line(n + above + 1, _cut(line, others.get(n), _MAX_EXCERPT_WIDTH)))
            previous = n
        if len(wanted) > MAX_EXCERPT_LINES:
            out.append(
                f"[{len(wanted) - MAX_EXCERPT_LINES} more lines around changes not shown; read the file to see them]"
            )
        return "\n".join(out)

    def changed_lines(self) -> tuple[list[tuple[int, int, int, int]], dict[int, str]]:
        """Return the ranges of lines that differ, as `changed_ranges` does, and those of `new` by their index.

        Equal parts of large texts are not split.
        """
        above, found = self._above, self._ranges
        lines = {n + above: self._lines[1][n] for *_, j1, j2 in found for n in range(j1, j2)}
        return [(i1 + above, i2 + above, j1 + above, j2 + above) for i1, i2, j1, j2 in found], lines


def unified(old: str, new: str) -> tuple[str, int, int]:
    """Return a unified diff with three context lines and no file header, and the lines added and removed.

    Of a longer line, the part around what changed in it is shown.
    """
    return Difference(old, new).patch


def short_patch(difference: Difference) -> tuple[list[str], str, bool]:
    """Return a diff for the model, limited in size, its counts "+1 -2", and True if nothing of it is left out."""
    patch, added, removed = difference.in_width(_MAX_PATCH_WIDTH)
    lines = patch.split("\n")
    shown = lines[:_MAX_PATCH_LINES]
    if more := len(lines) - len(shown):
        shown.append(f"[{more} more lines of this diff not shown; read the file to see it]")
    return shown, f"+{added} -{removed}", not more and not any(line.endswith(CUT_END) for line in lines)


def _differing_part(old: str, new: str) -> tuple[list[str], list[str], int]:
    """Return the differing lines of both texts with context, and the number of equal characters above.

    Equal text at both ends is compared in large chunks, so that a small change in a large text is fast.
    """
    start = old.rfind("\n", 0, common_start(old, new)) + 1
    same = common_end(old, new, min(len(old), len(new)) - start)
    # The part cut off at the end starts at a line in both.
    cut = old.find("\n", len(old) - same) + 1 if same else 0
    tail = len(old) - cut if cut else 0
    for _ in range(_CONTEXT_LINES):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
        end = old.find("\n", len(old) - tail) + 1 if tail else 0
        tail = len(old) - end if end else 0
    return (
        split_lines(old[start : len(old) - tail]),
        split_lines(new[start : len(new) - tail]),
        start,
    )


# What opens a string or a comment of several lines, and what closes it; then what hides an opening.
OPENINGS = {'"""': '"""', "'''": "'''", "/*": "*/", "<!--": "-->"}
_OPENING = re.compile(
    "|".join(map(re.escape, OPENINGS))
    + r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`|(?://|\#)[^\n]*"""
)
_MAX_SCANNED_CHARS = 2_000_000


def opened_by(text: str, opened: str = "") -> str:
    """Return what opens the string or comment in which a text ends, in whichever language; "" if it ends in none.

    opened: what opens the one in which it begins.
    """
    at = 0
    while True:
        if opened:
            end = text.find(OPENINGS[opened], at)
            if end < 0:
                return opened
            opened, at = "", end + len(OPENINGS[opened])
        found = _OPENING.search(text, at)
        if found is None:
            return ""
        at = found.end()
        opened = found[0] if found[0] in OPENINGS else ""


def common_start(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    most, at = min(len(one), len(other)), 0
    for size in (1 << 16, 1 << 8, 1):
        while at < most and one[at : at + size] == other[at : at + size]:
            at += size
    return min(at, most)


def common_end(one: str, other: str, most: int) -> int:
    """Return the length of the common suffix of two texts, `most` at most."""
    at = 0
    for size in (1 << 16, 1 << 8, 1):
        while at < most and one[-at - size : len(one) - at] == other[-at - size : len(other) - at]:
            at += size
    return min(at, most)


def changed_ranges(a: list[Line], b: list[Line]) -> list[tuple[int, int, int, int]]:
    """Return the ranges that differ, in order: a[i1:i2] became b[j1:j2]. Lines between two of them are equal."""
    most = min(len(a), len(b))
    head = next((n for n in range(most) if a[n] != b[n]), most)
    tail = next((n for n in range(most - head) if a[-1 - n] != b[-1 - n]), most - head)
    found: list[tuple[int, int, int, int]] = []
    for i1, i2, j1, j2 in _ranges_between(a, b, head, len(a) - tail, head, len(b) - tail):
        if found and found[-1][1] == i1 and found[-1][3] == j1:
            found[-1] = (found[-1][0], i2, found[-1][2], j2)
        else:
            found.append((i1, i2, j1, j2))
    return found


def _ranges_between(
    a: list[Line], b: list[Line], i1: int, i2: int, j1: int, j2: int
) -> list[tuple[int, int, int, int]]:
    """Return the ranges that differ within a[i1:i2] and b[j1:j2]."""
    if i1 == i2 or j1 == j2:
        return [(i1, i2, j1, j2)] if i1 < i2 or j1 < j2 else []
    if max(i2 - i1, j2 - j1) <= _MAX_DIFFLIB_LINES:
        from difflib import SequenceMatcher

        codes = SequenceMatcher(None, a[i1:i2], b[j1:j2], autojunk=False).get_opcodes()
        return [(i1 + p, i1 + q, j1 + r, j1 + s) for tag, p, q, r, s in codes if tag != "equal"]
    cuts = _common_unique_lines(a, b, i1, i2, j1, j2)
    if not cuts:
        return _scan_forward(a, b, i1, i2, j1, j2)
    out: list[tuple[int, int, int, int]] = []
    for (i, j), (p, q) in pairwise([(i1 - 1, j1 - 1), *cuts, (i2, j2)]):
        if p - i > 1 or q - j > 1:
            out += _ranges_between(a, b, i + 1, p, j + 1, q)
    return out


def _scan_forward(a: list[Line], b: list[Line], i: int, i2: int, j: int, j2: int) -> list[tuple[int, int, int, int]]:
    """Do the same if there is no unique line to split at: after a difference, search nearby for three equal lines."""
    out: list[tuple[int, int, int, int]] = []
    while i < i2 and j < j2:
        if a[i] == b[j]:
            i, j = i + 1, j + 1
            continue
        steps = ((total - q, q) for total in range(1, 2 * _SEARCH_LINES) for q in range(total + 1))
        found = next(((p, q) for p, q in steps if a[i + p : i + p + 3] == b[j + q : j + q + 3]), None)
        if found is None or i + found[0] >= i2 or j + found[1] >= j2:
            break
        out.append((i, i + found[0], j, j + found[1]))
        i, j = i + found[0], j + found[1]
    return [*out, (i, i2, j, j2)] if i < i2 or j < j2 else out


def _common_unique_lines(a: list[Line], b: list[Line], i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """Return positions of lines that occur once in each range: the longest sequence in the same order in both."""
    ours, theirs = _unique_lines(a, i1, i2), _unique_lines(b, j1, j2)
    pairs = [(i, theirs[line]) for line, i in ours.items() if line in theirs]
    # Longest increasing subsequence; each pair links to the one before it.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1] = [j]
        last[at : at + 1] = [n]
    run: list[tuple[int, int]] = []
    n = last[-1] if last else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]


def _unique_lines(lines: list[Line], start: int, end: int) -> dict[Line, int]:
    """Return the lines that occur exactly once in a range, in order, with their positions."""
    found: dict[Line, int] = {}
    for n in range(start, end):
        found[lines[n]] = -1 if lines[n] in found else n
    return {line: n for line, n in found.items() if n >= 0}


def _groups(found: list[tuple[int, int, int, int]]) -> list[list[tuple[int, int, int, int]]]:
    """Group changes whose context lines would touch."""
    groups: list[list[tuple[int, int, int, int]]] = []
    for change in found:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk_range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start}" + ("" if count == 1 else f",{count}")


def _with_sign(sign: str, lines: list[str], width: int, others: list[str] | None = None) -> list[str]:
    """Return lines of a diff. others: those on the other side of a change."""
    out = []
    paired = others if others is not None and len(others) == len(lines) else [None] * len(lines)
    for line, other in zip(lines, paired, strict=True):
        out.append(sign + _cut(line.rstrip("\r\n") if line.endswith("\n") else line, other, width))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out


def _cut(line: str, other: str | None, width: int) -> str:
    """Truncate a long line, to the text around what differs from another one if that is not at its beginning."""
    if other is None or len(line) <= width:
        return cut_line(line, width)
    start = common_start(line, other)
    end = len(line) - common_end(line, other.rstrip("\r\n"), min(len(line), len(other)) - start)
    return cut_line(line, width) if end <= width else cut_around(line, start, end, width // 2)
