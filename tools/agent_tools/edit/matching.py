"""Find the text to replace in a file, and splice the new text in.

First the exact text, with any line ends. If it is not found: whole lines that are equal when trailing whitespace,
typographic quotes, dashes and spaces, and one indentation difference common to all lines are ignored. If those are not
found either: the same with one level of escaping removed from old and new text alike. Exactly one place must match.
Nothing is ever matched by its first and last lines, by similarity, or as "the first of several": that is how editors of
this kind damage files.

Where nothing matches, the error names the most similar place in the file, and what differs there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from agent_tools.edit.line_match import (
    LineMatch,
    Lines,
    carry,
    core_of,
    disregarded,
    ending_at,
    indent_of,
    plain_line,
    put_in,
    unescaped_variants,
)
from agent_tools.fs.encoding import split_lines
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import UNSAFE, counted, escape_controls

_WORDS = r"\w+|[^\w\s]+"
_LONG = 500
_SHORT = 160
_MOST = 400
_TRIED = 20
_WIDTH = 200


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


def nearest_line(cores: Sequence[str], sought: Sequence[str]) -> int | None:
    """Return the line at which the file is most similar to the lines `sought`; None if nothing is similar.

    Lines vote by the words they share, rare words counting most; the best places are then compared in full.
    """
    wanted: dict[str, list[int]] = {}
    for n, line in enumerate(sought[:200]):
        for word in set(re.findall(_WORDS, line[:_LONG])):
            wanted.setdefault(word, []).append(n)
    # Replace a word that does not occur with the one that it may be a misspelling of; this takes another pass.
    known = set(re.findall(_WORDS, "\n".join(cores)))
    for word in sorted((w for w in wanted if w not in known and len(w) > 3), key=len)[-4:]:
        if near := _misspelled(word, known):
            wanted.setdefault(near, []).extend(wanted[word])
    standing: dict[str, list[int]] = {}
    words_of, shared = re.compile(_WORDS).findall, (known & wanted.keys()).intersection
    for at, core in enumerate(cores if known & wanted.keys() else ()):
        for word in shared(words_of(core[:_LONG])):
            standing.setdefault(word, []).append(at)
    votes: defaultdict[int, float] = defaultdict(float)
    for count, word in sorted((len(places), word) for word, places in standing.items()):
        if count * len(wanted[word]) > 20_000 and votes:
            break
        for at in standing[word]:
            for n in wanted[word]:
                votes[at - n] += 1 / count
    tried = sorted(votes, key=lambda at: (-votes[at], at))[:_TRIED]
    best = max(((_likeness(cores, sought, at), -at) for at in tried), default=(0.0, 0))
    return -best[1] if best[0] >= 0.25 else None


def _misspelled(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    near = sorted(k for k in known if k[:1] == word[:1] and abs(len(k) - len(word)) <= 2)[:3_000]
    return next(iter(get_close_matches(word, near, 1, 0.75)), None)


def _likeness(cores: Sequence[str], sought: Sequence[str], at: int) -> float:
    """Return the similarity at one place. One very similar line outweighs several slightly similar ones."""
    from difflib import SequenceMatcher

    scores = []
    for n, line in enumerate(sought[:30]):
        if line and 0 <= at + n < len(cores):
            theirs = cores[at + n]
            # For a part of a line, its words tell more than the similarity to the whole line.
            words = re.findall(_WORDS, line[:_SHORT])
            shared = 0.9 * len(set(words).intersection(re.findall(_WORDS, theirs[:_LONG]))) / max(len(set(words)), 3)
            ratio = SequenceMatcher(None, theirs[:_SHORT], line[:_SHORT]).ratio()
            scores.append((1.5 if theirs == line else max(ratio, shared)) ** 2)
    filled = sum(bool(line) for line in sought[:30])
    return sum(scores) / filled if filled else 0.0


def differences(lines: Sequence[str], sought: Sequence[str], at: int) -> tuple[int, int, list[str]]:
    """Return the first and last line (from 0) compared with `sought` at a place, and a sentence per difference."""
    from difflib import SequenceMatcher

    sought = sought[:_MOST]
    first, last = max(at - 3, 0), min(at + len(sought) + 3, len(lines))
    theirs, ours = [core_of(line) for line in lines[first:last]], [core_of(line) for line in sought]
    codes = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
    # Lines of the file before and after are no difference.
    while codes and codes[0][0] == "delete":
        codes.pop(0)
    while codes and codes[-1][0] == "delete":
        codes.pop()
    text: list[str] = []
    start, end = len(lines), 0
    for _, i1, i2, j1, j2 in codes:
        i1, i2 = i1 + first, i2 + first
        # At either end, take only as many lines of the file as there are to compare with.
        if i2 - i1 > j2 - j1 and j1 == 0:
            i1 = min(max(at, i1), i2 - j2) if j2 == len(ours) else i2 - j2
            i2 = i1 + j2
        elif i2 - i1 > j2 - j1 and j2 == len(ours):
            i2 = i1 + j2 - j1
        start, end = min(start, i1), max(end, i2)
        text += _unlike(lines, sought, (i1, i2), (j1, j2))
    return start, max(end - 1, start), text


def _unlike(
    lines: Sequence[str], sought: Sequence[str], theirs: tuple[int, int], ours: tuple[int, int]
) -> Iterator[str]:
    """Yield a sentence for each pair of lines that differ, and for each line that only one side has."""
    (i1, i2), (j1, j2) = theirs, ours
    for n in range(max(i2 - i1, j2 - j1)):
        here, there = i1 + n < i2, j1 + n < j2
        if here and there:
            if lines[i1 + n] != sought[j1 + n]:
                yield difference(i1 + n + 1, lines[i1 + n], sought[j1 + n])
        elif here:
            yield f"line {i1 + n + 1} is missing in old_string:\n    file:       {_part(lines[i1 + n], 0)}"
        else:
            yield f"old_string has a line that is not there:\n    old_string: {_part(sought[j1 + n], 0)}"


def difference(number: int, theirs: str, ours: str) -> str:
    """Describe how a line of the file and one of old_string differ, with both from where they do."""
    column = next(
        (n for n, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours))
    )
    if theirs.rstrip() == ours.rstrip():
        what = "trailing whitespace"
    elif theirs.strip() == ours.strip():
        what = f"indentation: {_blanks(theirs)} in the file, {_blanks(ours)} in old_string"
    elif core_of(theirs) == core_of(ours):
        at = next(n for n, (a, b) in enumerate(zip(theirs.strip(), ours.strip(), strict=False)) if a != b)
        what = f"typography: the file has {_named(theirs.strip()[at])}, old_string {_named(ours.strip()[at])}"
    elif re.sub(UNSAFE, "", theirs).strip() == re.sub(UNSAFE, "", ours).strip():
        what = "invisible characters, escaped here"
    elif theirs.split() == ours.split() or "".join(theirs.split()) == "".join(ours.split()):
        what = "whitespace inside the line"
    elif theirs.casefold() == ours.casefold():
        what = "upper and lower case"
    elif plain_line(ours).strip() in plain_line(theirs):
        what = "old_string has only part of it"
    else:
        what = f"from column {column + 1} on"
    back = max(0, column - _WIDTH // 2) if max(len(theirs), len(ours)) > _WIDTH else 0
    return f"line {number}, {what}:\n    file:       {_part(theirs, back)}\n    old_string: {_part(ours, back)}"


def _part(line: str, start: int) -> str:
    """Return about 200 characters of a line at most, with invisible characters escaped except tabs and spaces."""
    cut = line[start : start + _WIDTH]
    return ("…" if start else "") + escape_controls(cut) + ("…" if start + _WIDTH < len(line) else "")


def _blanks(line: str) -> str:
    indent = indent_of(line)
    tabs, others = indent.count("\t"), len(indent) - indent.count("\t")
    kinds = [counted(tabs, "tab")] if tabs else []
    return " and ".join([*kinds, *([counted(others, "blank")] if others else [])]) or "none"


def _named(char: str) -> str:
    return f"{char} (U+{ord(char):04X})"


# Line numbers as in the output of Read and Grep, and of other programs that models know.
_NUMBERED = r"\s*(\d{1,9})(\t|→|[:-]|\s?\| ?|$)"
_COMMENT = r"(?:#|//|--|/\*|<!--|;|%)"
_LEFT_OUT = rf"(?:{_COMMENT}\s*)?[\[(]?(?:\.\.\.|…)(?!\w)|{_COMMENT}.*(?:\.\.\.|…)\s*(?:\*/|-->|[\])])?$"
_CUT = r" … \[[\d,]+ more characters in this line\]$"
_MOST_LINES = 4


def ambiguous_match(content: str, starts: list[int], alike: str = "") -> ToolError:
    """Return the error for an old_string that matches several places. alike: how replace_all would match, in words."""
    lines, number, at = [], 1, 0
    for start in starts[:20]:
        number += content.count("\n", at, start)
        at = start
        lines.append(str(number))
    more = f" and {len(starts) - 20} more" if len(starts) > 20 else ""
    every = f", or set replace_all to change all matches ({alike})" if alike else ""
    return ToolError(
        f"old_string matches {len(starts)} places (lines {', '.join(lines)}{more}); nothing was changed. Add "
        f"neighbouring lines until only one place matches{every}."
    )


def half_escaped(at: int) -> ToolError:
    """Return the error for text escaped once too often whose new text is ambiguous. at: line, from 0."""
    return ToolError(
        f"old_string matches line {at + 1} with one level of escaping removed, but new_string can then be read in "
        "more than one way; nothing was changed. Send both just as the file has them, without added backslashes."
    )


def no_match(lines: Lines, old: str, new: str) -> ToolError:
    """Return the error for an old_string that was not found, with the most similar lines and how they differ."""
    sought = [line.rstrip("\r\n") for line in split_lines(old)]
    parts = ["old_string was not found; nothing was changed."]
    if bare := _without_numbers(sought):
        fits = lines.fits("\n".join(bare))
        parts.append(
            "It seems to start each line with its line number as files are shown, which is not in the file: omit the "
            "numbers and the tab after them, in new_string too."
        )
        if fits:
            parts.append(f"Without them it matches line {fits[0].at + 1}.")
            return ToolError(" ".join(parts))
        sought = bare
    habits = _habits(lines, old, new, sought)
    parts += habits
    raw = [line.rstrip("\r\n") for line in lines.raw]
    at = nearest_line(lines.cores, [core_of(line) for line in sought])
    if at is None:
        if not habits:
            parts.append("Nothing in the file resembles it. Read the file again, or search for one of its words.")
        return ToolError(" ".join(parts))
    first, last, unlike = differences(raw, sought, at)
    place = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
    if not unlike:
        parts.append(f"It is most similar to part of {place}: give whole lines.")
        return ToolError(" ".join(parts))
    parts.append(f"The most similar place is {place}. Differences:")
    more = [f"and {len(unlike) - _MOST_LINES} more lines"] if len(unlike) > _MOST_LINES else []
    shown = "".join(f"\n  {text}" for text in [*unlike[:_MOST_LINES], *more])
    return ToolError(
        f"{' '.join(parts)}{shown}\nCopy the file's own text, whitespace included, or read the place again."
    )


def _without_numbers(sought: list[str]) -> list[str]:
    """Return the lines without their line numbers; [] unless all have one, counting up by one."""
    found = [re.match(_NUMBERED, line) for line in sought if line.strip()]
    numbers = [int(match[1]) for match in found if match]
    if not found or len(numbers) < len(found) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return []
    if len(found) == 1 and found[0] and found[0][2] not in ("\t", "→"):
        return []
    return [re.sub(_NUMBERED, "", line, count=1) for line in sought]


def _habits(lines: Lines, old: str, new: str, sought: list[str]) -> list[str]:
    """Return hints about known mistakes of models that this text resembles."""
    text = []
    known = set(lines.cores)
    if any(re.search(_CUT, line) for line in sought):
        text.append("It has the note on a truncated line, which is not in the file: edit a shorter part of the line.")
    elif unknown := [s for s in map(str.strip, sought) if re.match(_LEFT_OUT, s) and core_of(s) not in known]:
        text.append(
            f"Its line {unknown[0][:60]!r} seems to be a placeholder for omitted text: give every line between in "
            "full. Make one edit for each place instead."
        )
    if new.strip() and len(new.strip()) > 3 and (there := _stands(lines, new)):
        text.append(f"new_string is already at line {there}: the edit may have been made.")
    elif there := next((n for plain in unescaped_variants(old, old) if (n := _stands(lines, plain))), 0):
        text.append(f"With one level of escaping less it is at line {there}: do not add backslashes.")
    elif "\\" in old and (there := _stands(lines, old.replace("\\", "\\\\"))):
        text.append(f"With each backslash doubled it is at line {there}: write them as the file has them.")
    return text


def _stands(lines: Lines, text: str) -> int:
    """Return the line, from 1, at which a text is found or matches; 0 for none."""
    if (there := lines.content.find(text)) >= 0:
        return lines.content.count("\n", 0, there) + 1
    fits = lines.fits(text)
    return fits[0].at + 1 if fits else 0
