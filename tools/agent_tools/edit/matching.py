"""Find the text to replace in a file, and splice the new text in.

First the exact text, with any line ends. If it is not found: whole lines that are equal when trailing whitespace,
typographic quotes, dashes and spaces, and one indentation difference common to all lines are ignored. If those are not
found either: the same with one level of escaping removed from old and new text alike. Exactly one place must match.
Nothing is ever matched by its first and last lines, by similarity, or as "the first of several": that is how editors of
this kind damage files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

from agent_tools.edit.line_match import LineMatch, Lines, carry, disregarded, ending_at, put_in, unescaped_variants
from agent_tools.edit.suggestions import ambiguous_match, half_escaped, no_match
from agent_tools.record import Value
from agent_tools.results import ToolError


class Splice(Value):
    """One replacement: the characters from `start` to `end` become `new`."""

    start: int
    end: int
    new: str


class EditedText(Value):
    """A text after an edit. note: what had to be ignored to find the place."""

    content: str
    splices: tuple[Splice, ...]
    note: str = ""


def replace(content: str, old: str, new: str, everywhere: bool = False) -> EditedText:
    """Replace `old` with `new` in `content`: its only occurrence, or all occurrences if `everywhere`.

    Raises ToolError, worded for the model, if `old` is missing or ambiguous, or nothing would change.
    """
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    places = _literal(content, old)
    if len(places) > 1 and not everywhere:
        raise ambiguous_match(content, [start for start, _ in places], "spelled exactly so")
    note = ""
    if places:
        splices = tuple(Splice(s, e, _fresh(content, s, e, old, new)) for s, e in _apart(places))
    else:
        splices, note = _loosely(Lines(content), old, new, everywhere)
    parts, at = [], 0
    for splice in splices:
        parts += [content[at : splice.start], splice.new]
        at = splice.end
    after = "".join(parts) + content[at:]
    if after == content:
        raise ToolError("The edit would change nothing: the file has the new text already.")
    return EditedText(after, splices, note)


def _literal(content: str, old: str) -> list[tuple[int, int]]:
    """Find `old`, overlapping places included. A "\\n" in it matches either line end of the file."""
    if "\r\n" not in content:
        sought = old if old in content else old.replace("\r\n", "\n")
        return [(at, at + len(sought)) for at in _starts(content, sought)]
    # Search the text with plain line ends; `pairs` has the offset of each position there.
    sought = old.replace("\r\n", "\n")
    plain = [(at, at + len(sought)) for at in _starts(content.replace("\r\n", "\n"), sought)]
    pairs = [m.start() - n for n, m in enumerate(re.finditer("\r\n", content))] if plain else []
    return [(s + bisect_left(pairs, s), e + bisect_left(pairs, e)) for s, e in plain]


def _starts(content: str, part: str) -> list[int]:
    found, at = [], content.find(part)
    while at >= 0:
        found.append(at)
        at = content.find(part, at + 1)
    return found


def _apart(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in places:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def _fresh(content: str, start: int, end: int, old: str, new: str) -> str:
    """Return the new text for an exact match, with the line ends of its place; unchanged in a file without "\\r\\n"."""
    if "\r\n" not in content:
        return new if content[start:end] == old else new.replace("\r\n", "\n")
    return carry(content[start:end], old, new, ending_at(content, start), lambda indent: indent)


def _loosely(lines: Lines, old: str, new: str, everywhere: bool) -> tuple[tuple[Splice, ...], str]:
    """Return the splices for whole lines that equal `old` apart from what is ignored, and a note about that.

    With `everywhere`, each place is shifted by itself; places that overlap are rejected.
    """
    fits = lines.fits(old, new)
    if not fits:
        return _unescaped(lines, old, new)
    starts = [fit.start for fit in fits]
    if len(fits) > 1 and not everywhere:
        raise ambiguous_match(lines.content, starts, _without(_reasons(fits, old)))
    splices = tuple(Splice(*put_in(lines.content, fit, old, new)) for fit in fits)
    if any(one.end > other.start for one, other in pairwise(splices)):
        raise ToolError(
            "old_string matches places that overlap one another; nothing was changed. Take more or fewer lines, or "
            "make one edit for each place."
        )
    return splices, f"old_string matches the file only {_without(_reasons(fits, old))}."


def _unescaped(lines: Lines, old: str, new: str) -> tuple[tuple[Splice, ...], str]:
    """Return the only splice that matches with one level of escaping removed. Raises ToolError for none or several."""
    found: dict[Splice, str] = {}
    places: list[LineMatch] = []
    for plain, meanings in unescaped_variants(old, new).items():
        fits = lines.fits(plain, new)
        if len(fits) > 1:
            raise ambiguous_match(lines.content, [fit.start for fit in fits])
        places += fits
        for meant in meanings - {None} if fits else ():
            reasons = ["one level of escaping (removed from new_string too)", *_reasons(fits, plain)]
            found[Splice(*put_in(lines.content, fits[0], plain, meant or ""))] = _without(reasons)
    if not places:
        raise no_match(lines, old, new)
    if len(found) != 1:
        raise half_escaped(places[0].at)
    ((splice, without),) = found.items()
    return (splice,), f"old_string matches the file only {without}."


def _reasons(fits: list[LineMatch], old: str) -> list[str]:
    return sorted(set().union(*(disregarded(fit.raw, old) for fit in fits)))


def _without(reasons: Iterable[str]) -> str:
    return "ignoring " + (" and ".join(reasons) or "whitespace at line ends")
