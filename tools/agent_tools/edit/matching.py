"""Find the text to replace in a file, and splice the new text in.

First the exact text is searched for, with any line ends. If it is not found: whole lines that are equal when trailing
whitespace, what cannot be seen (`folding`), and one indentation difference common to all lines are ignored. Then parts
of lines that are equal when folded. If that fails too: whole lines, with one level of escaping removed from both old
and new text. Exactly one place must match.
Nothing is ever matched by its first and last lines, by similarity, or as "the first of several": that is how such
editors damage files.

If nothing matches, the error names the most similar place in the file and the differences there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from agent_tools.edit import omissions
from agent_tools.edit.folding import asciify, blend, find_folded, fold
from agent_tools.edit.line_match import (
    IndexedLines,
    LineMatch,
    adapt_lines,
    ignored_differences,
    indent_of,
    line_end_at,
    line_key,
    splice_match,
    unescaped_variants,
)
from agent_tools.fs.encoding import split_lines
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import UNSAFE, counted, escape_controls

_WORD_PATTERN = r"\w+|[^\w\s]+"
_INDEXED_CHARS = 500
_COMPARED_CHARS = 160
_MAX_LINES = 400
_MAX_CANDIDATES = 20
_SHOWN_CHARS = 200


class Splice(Value):
    """One replacement: the characters from `start` to `end` become `new`."""

    start: int
    end: int
    new: str


class EditedText(Value):
    """A text after an edit. note: the differences that were ignored to find the place."""

    content: str
    splices: tuple[Splice, ...]
    note: str = ""


def replace(content: str, old: str, new: str, replace_all: bool = False) -> EditedText:
    """Replace `old` with `new` in `content`: its only occurrence, or all occurrences if `replace_all`.

    Raises ToolError, worded for the model, if `old` is missing or ambiguous, or nothing would change.
    """
    if old == new:
        raise ToolError("old_string and new_string are equal: there is nothing to change.")
    places = _find_exact(content, old)
    if len(places) > 1 and not replace_all:
        raise ambiguous_match(content, [start for start, _ in places], "spelled exactly like this")
    note = ""
    if places:
        # Looked at once: there may be a place in every line.
        with_line_ends = _with_line_ends if "\r\n" in content else _as_it_is
        splices = tuple(Splice(s, e, with_line_ends(content, s, e, old, new)) for s, e in _non_overlapping(places))
    else:
        splices, note = _match_lines(IndexedLines(content), old, new, replace_all)
    parts, at = [], 0
    for splice in splices:
        parts += [content[at : splice.start], splice.new]
        at = splice.end
    after = "".join(parts) + content[at:]
    if after == content:
        raise ToolError("The edit would change nothing: the file has the new text already.")
    return EditedText(after, splices, note)


def _find_exact(content: str, old: str) -> list[tuple[int, int]]:
    """Find all occurrences of `old`, also overlapping ones. A "\\n" in it matches either line end of the file."""
    if "\r\n" not in content:
        places = _find_all(content, old)
        if not places and "\r\n" in old:
            old = old.replace("\r\n", "\n")
            places = _find_all(content, old)
        return [(at, at + len(old)) for at in places]
    # Search the text with plain line ends; `pairs` has the offset of each position there.
    old_lines = old.replace("\r\n", "\n")
    plain = [(at, at + len(old_lines)) for at in _find_all(content.replace("\r\n", "\n"), old_lines)]
    pairs = [m.start() - n for n, m in enumerate(re.finditer("\r\n", content))] if plain else []
    return [(s + bisect_left(pairs, s), e + bisect_left(pairs, e)) for s, e in plain]


def _find_all(content: str, part: str) -> list[int]:
    found, at = [], content.find(part)
    while at >= 0:
        found.append(at)
        at = content.find(part, at + 1)
    return found


def _non_overlapping(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in places:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def _with_line_ends(content: str, start: int, end: int, old: str, new: str) -> str:
    """Return the new text for an exact match, with the line ends of its place."""
    return adapt_lines(content[start:end], old, new, line_end_at(content, start), lambda indent: indent)


def _as_it_is(content: str, start: int, end: int, old: str, new: str) -> str:
    """Return the new text for an exact match in a file without "\\r\\n"."""
    return new if content[start:end] == old else new.replace("\r\n", "\n")


def _match_lines(lines: IndexedLines, old: str, new: str, replace_all: bool) -> tuple[tuple[Splice, ...], str]:
    """Return the splices for whole lines that match `old`, and a note on the differences that were ignored.

    With `replace_all`, each place is shifted separately; overlapping places are rejected.
    """
    matches = lines.find(old, new)
    if not matches:
        return _match_part(lines, old, new, replace_all) or _match_unescaped(lines, old, new)
    starts = [match.start for match in matches]
    if len(matches) > 1 and not replace_all:
        raise ambiguous_match(lines.content, starts, _describe_ignored(_ignored(matches, old)))
    splices = tuple(Splice(*splice_match(lines.content, match, old, new)) for match in matches)
    if any(one.end > other.start for one, other in pairwise(splices)):
        raise ToolError(
            "old_string matches places that overlap; nothing was changed. Take more or fewer lines, or "
            "make one edit for each place."
        )
    return splices, f"old_string matches the file only {_describe_ignored(_ignored(matches, old))}."


_FOLDED = "typographic and invisible characters"


def _match_part(lines: IndexedLines, old: str, new: str, replace_all: bool) -> tuple[tuple[Splice, ...], str] | None:
    """Return the splices where parts of lines match when folded, and a note; None if nothing does."""
    content = lines.content
    places = find_folded(content, old)
    if len(places) > 1 and not replace_all:
        raise ambiguous_match(content, [start for start, _ in places], f"ignoring {_FOLDED}")
    splices = []
    for start, end in _non_overlapping(places):
        plain = new.replace("\r\n", "\n").replace("\n", line_end_at(content, start))
        splices.append(Splice(start, end, blend(content[start:end], old, plain)))
    return (tuple(splices), f"old_string matches the file only ignoring {_FOLDED}.") if splices else None


def _match_unescaped(lines: IndexedLines, old: str, new: str) -> tuple[tuple[Splice, ...], str]:
    """Return the only splice that matches with one level of escaping removed. Raises ToolError for none or several."""
    found: dict[Splice, str] = {}
    places: list[LineMatch] = []
    for plain, meanings in unescaped_variants(old, new).items():
        matches = lines.find(plain, new)
        if len(matches) > 1:
            raise ambiguous_match(lines.content, [match.start for match in matches])
        places += matches
        for meant in meanings - {None} if matches else ():
            reasons = ["one level of escaping (also removed from new_string)", *_ignored(matches, plain)]
            found[Splice(*splice_match(lines.content, matches[0], plain, meant or ""))] = _describe_ignored(reasons)
    if not places:
        raise no_match(lines, old, new)
    if len(found) != 1:
        raise ambiguous_escaping(places[0].at)
    ((splice, without),) = found.items()
    return (splice,), f"old_string matches the file only {without}."


def _ignored(matches: list[LineMatch], old: str) -> list[str]:
    return sorted(set().union(*(ignored_differences(match.raw, old) for match in matches)))


def _describe_ignored(reasons: Iterable[str]) -> str:
    return "ignoring " + (" and ".join(reasons) or "whitespace at line ends")


def nearest_line(keys: Sequence[str], old_lines: Sequence[str]) -> int | None:
    """Return the line at which the file is most similar to the lines `old_lines`; None if nothing is similar.

    Lines vote by the words they share, rare words counting most; the best places are then compared in full.
    """
    wanted: dict[str, list[int]] = {}
    for n, line in enumerate(old_lines[:200]):
        for word in set(re.findall(_WORD_PATTERN, line[:_INDEXED_CHARS])):
            wanted.setdefault(word, []).append(n)
    # For words that do not occur, add the word that each may be a misspelling of.
    known = set(re.findall(_WORD_PATTERN, "\n".join(keys)))
    for word in sorted((w for w in wanted if w not in known and len(w) > 3), key=len)[-4:]:
        if near := _similar_word(word, known):
            wanted.setdefault(near, []).extend(wanted[word])
    places_of: dict[str, list[int]] = {}
    words_of, shared = re.compile(_WORD_PATTERN).findall, (known & wanted.keys()).intersection
    for at, core in enumerate(keys if known & wanted.keys() else ()):
        for word in shared(words_of(core[:_INDEXED_CHARS])):
            places_of.setdefault(word, []).append(at)
    votes: defaultdict[int, float] = defaultdict(float)
    for count, word in sorted((len(places), word) for word, places in places_of.items()):
        if count * len(wanted[word]) > 20_000 and votes:
            break
        for at in places_of[word]:
            for n in wanted[word]:
                votes[at - n] += 1 / count
    candidates = sorted(votes, key=lambda at: (-votes[at], at))[:_MAX_CANDIDATES]
    best = max(((_similarity(keys, old_lines, at), -at) for at in candidates), default=(0.0, 0))
    return -best[1] if best[0] >= 0.25 else None


def _similar_word(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    near = sorted(k for k in known if k[:1] == word[:1] and abs(len(k) - len(word)) <= 2)[:3_000]
    return next(iter(get_close_matches(word, near, 1, 0.75)), None)


def _similarity(keys: Sequence[str], old_lines: Sequence[str], at: int) -> float:
    """Return the similarity at one place. One very similar line outweighs several slightly similar ones."""
    from difflib import SequenceMatcher

    scores = []
    for n, line in enumerate(old_lines[:30]):
        if line and 0 <= at + n < len(keys):
            theirs = keys[at + n]
            # For part of a line, shared words are more telling than similarity to the whole line.
            words = re.findall(_WORD_PATTERN, line[:_COMPARED_CHARS])
            shared = (
                0.9
                * len(set(words).intersection(re.findall(_WORD_PATTERN, theirs[:_INDEXED_CHARS])))
                / max(len(set(words)), 3)
            )
            ratio = SequenceMatcher(None, theirs[:_COMPARED_CHARS], line[:_COMPARED_CHARS]).ratio()
            scores.append((1.5 if theirs == line else max(ratio, shared)) ** 2)
    filled = sum(bool(line) for line in old_lines[:30])
    return sum(scores) / filled if filled else 0.0


def find_differences(lines: Sequence[str], old_lines: Sequence[str], at: int) -> tuple[int, int, list[str]]:
    """Return the first and last line (from 0) compared with `old_lines` at a place, and a sentence per difference."""
    from difflib import SequenceMatcher

    old_lines = old_lines[:_MAX_LINES]
    first, last = max(at - 3, 0), min(at + len(old_lines) + 3, len(lines))
    theirs, ours = [line_key(line) for line in lines[first:last]], [line_key(line) for line in old_lines]
    codes = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
    # Surrounding lines of the file are not differences.
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
        text += _line_differences(lines, old_lines, (i1, i2), (j1, j2))
    return start, max(end - 1, start), text


def _line_differences(
    lines: Sequence[str], old_lines: Sequence[str], theirs: tuple[int, int], ours: tuple[int, int]
) -> Iterator[str]:
    """Yield a sentence for each pair of lines that differ, and for each line that only one side has."""
    (i1, i2), (j1, j2) = theirs, ours
    for n in range(max(i2 - i1, j2 - j1)):
        here, there = i1 + n < i2, j1 + n < j2
        if here and there:
            if lines[i1 + n] != old_lines[j1 + n]:
                yield describe_difference(i1 + n + 1, lines[i1 + n], old_lines[j1 + n])
        elif here:
            yield f"line {i1 + n + 1} is missing in old_string:\n    file:       {_excerpt(lines[i1 + n], 0)}"
        else:
            yield f"old_string has a line that is not there:\n    old_string: {_excerpt(old_lines[j1 + n], 0)}"


def describe_difference(number: int, theirs: str, ours: str) -> str:
    """Describe how a line of the file and one of old_string differ, quoting both from the first difference."""
    column = next(
        (n for n, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours))
    )
    if theirs.rstrip() == ours.rstrip():
        what = "trailing whitespace"
    elif theirs.strip() == ours.strip():
        what = f"indentation: {_describe_indent(theirs)} in the file, {_describe_indent(ours)} in old_string"
    elif line_key(theirs) == line_key(ours):
        at = next(n for n, (a, b) in enumerate(zip(theirs.strip(), ours.strip(), strict=False)) if a != b)
        in_file, in_call = _describe_char(theirs.strip()[at]), _describe_char(ours.strip()[at])
        what = f"typography: the file has {in_file}, old_string {in_call}"
    elif re.sub(UNSAFE, "", theirs).strip() == re.sub(UNSAFE, "", ours).strip():
        what = "invisible characters, escaped here"
    elif theirs.split() == ours.split() or "".join(theirs.split()) == "".join(ours.split()):
        what = "whitespace inside the line"
    elif theirs.casefold() == ours.casefold():
        what = "upper and lower case"
    elif asciify(ours).strip() in asciify(theirs):
        what = "old_string has only part of it"
    else:
        what = f"from column {column + 1} on"
    back = max(0, column - _SHOWN_CHARS // 2) if max(len(theirs), len(ours)) > _SHOWN_CHARS else 0
    # Characters that only one of them has, and that look like others.
    odd = {c for c in set(theirs) ^ set(ours) if not c.isascii() and fold(c) != c}
    shown = [
        "".join(_escaped(c) if c in odd else c for c in _excerpt(text, back)) if odd else _excerpt(text, back)
        for text in (theirs, ours)
    ]
    return f"line {number}, {what}:\n    file:       {shown[0]}\n    old_string: {shown[1]}"


def _excerpt(line: str, start: int) -> str:
    """Return a limited part of a line, with invisible characters escaped except tabs and spaces."""
    cut = line[start : start + _SHOWN_CHARS]
    return ("…" if start else "") + escape_controls(cut) + ("…" if start + _SHOWN_CHARS < len(line) else "")


def _describe_indent(line: str) -> str:
    indent = indent_of(line)
    tabs, others = indent.count("\t"), len(indent) - indent.count("\t")
    kinds = [counted(tabs, "tab")] if tabs else []
    return " and ".join([*kinds, *([counted(others, "space")] if others else [])]) or "none"


def _describe_char(char: str) -> str:
    return f"{char} (U+{ord(char):04X})"


# Line numbers as printed by Read, Grep, and other programs that models know.
_LINE_NUMBER = r"\s*(\d{1,9})(\t|→|[:-]|\s?\| ?|$)"
_MAX_DIFFERENCES = 4


def ambiguous_match(content: str, starts: list[int], alike: str = "") -> ToolError:
    """Return the error for an old_string that matches several places. alike: how replace_all would match."""
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


def ambiguous_escaping(at: int) -> ToolError:
    """Return the error for an over-escaped old_string whose new_string is ambiguous. at: line, from 0."""
    return ToolError(
        f"old_string matches line {at + 1} with one level of escaping removed, but new_string can then be read in "
        "more than one way; nothing was changed. Send both exactly as the file has them, without added backslashes."
    )


def no_match(lines: IndexedLines, old: str, new: str) -> ToolError:
    """Return the error for an old_string that was not found, with the most similar lines and how they differ."""
    old_lines = [line.rstrip("\r\n") for line in split_lines(old)]
    parts = ["old_string was not found; nothing was changed."]
    if bare := _strip_line_numbers(old_lines):
        matches = lines.find("\n".join(bare))
        parts.append(
            "It seems to start each line with its line number as files are shown, which is not in the file: omit the "
            "numbers and the tab after them, also in new_string."
        )
        if matches:
            parts.append(f"Without them it matches line {matches[0].at + 1}.")
            return ToolError(" ".join(parts))
        old_lines = bare
    if alike := _spell_lookalikes(lines.content, old):
        return ToolError(f"{parts[0]} {alike}")
    habits = _known_mistakes(lines, old, new, old_lines)
    parts += habits
    raw = [line.rstrip("\r\n") for line in lines.raw]
    at = nearest_line(lines.keys, [line_key(line) for line in old_lines])
    if at is None:
        if not habits:
            parts.append("Nothing in the file resembles it. Read the file again, or search for a part of the text.")
        return ToolError(" ".join(parts))
    first, last, unlike = find_differences(raw, old_lines, at)
    place = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
    if not unlike:
        parts.append(f"It is most similar to part of {place}: give whole lines.")
        return ToolError(" ".join(parts))
    parts.append(f"The most similar place is {place}. Differences:")
    more = [f"and {len(unlike) - _MAX_DIFFERENCES} more lines"] if len(unlike) > _MAX_DIFFERENCES else []
    shown = "".join(f"\n  {text}" for text in [*unlike[:_MAX_DIFFERENCES], *more])
    return ToolError(
        f"{' '.join(parts)}{shown}\nCopy the file's own text, whitespace included, or read the place again."
    )


def _spell_lookalikes(content: str, old: str) -> str:
    """Return a sentence with the characters in which a text that looks like `old` differs from it; "" if none does."""
    from difflib import SequenceMatcher

    places = find_folded(content, old, lookalikes=True)
    if not places:
        return ""
    start, end = places[0]
    raw = content[start:end].replace("\r\n", "\n")
    found: dict[str, None] = {}
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, raw, old, autojunk=False).get_opcodes():
        if tag != "equal":
            found[f"{_spell(raw[i1:i2])} where old_string has {_spell(old[j1:j2])}"] = None
    number = content.count("\n", 0, start) + 1
    more = f" and {len(found) - _MAX_DIFFERENCES} more" if len(found) > _MAX_DIFFERENCES else ""
    return (
        f"Line {number} only looks like it: the file has {', '.join([*found][:_MAX_DIFFERENCES])}{more}. "
        "Send exactly the file's characters."
    )


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _spell(text: str) -> str:
    """Spell out characters that look like others: "\\u0441 (CYRILLIC SMALL LETTER ES)"."""
    from unicodedata import name

    if not text or text.isascii():
        return repr(text) if text else "nothing"
    return ", ".join(f"{_escaped(c)} ({name(c, 'unnamed')})" for c in text[:_MAX_DIFFERENCES])


def _strip_line_numbers(old_lines: list[str]) -> list[str]:
    """Return the lines without their line numbers; [] unless all have one, counting up by one."""
    found = [re.match(_LINE_NUMBER, line) for line in old_lines if line.strip()]
    numbers = [int(match[1]) for match in found if match]
    if not found or len(numbers) < len(found) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return []
    if len(found) == 1 and found[0] and found[0][2] not in ("\t", "→"):
        return []
    return [re.sub(_LINE_NUMBER, "", line, count=1) for line in old_lines]


def _known_mistakes(lines: IndexedLines, old: str, new: str, old_lines: list[str]) -> list[str]:
    """Return hints about typical mistakes of models that this text resembles."""
    text = []
    known = set(lines.keys)
    if any(map(omissions.is_cut_line, old_lines)):
        text.append("It has the note on a truncated line, which is not in the file: edit a shorter part of the line.")
    elif unknown := [s for s in map(str.strip, old_lines) if omissions.may_be_omission(s) and line_key(s) not in known]:
        text.append(
            f"Its line {unknown[0][:60]!r} seems to be a placeholder for omitted text: give every line between in "
            "full. Make one edit for each place instead."
        )
    if len(new.strip()) > 3 and (there := _line_of_whole(lines.content, new)):
        text.append(f"new_string is already at line {there}: the edit may have been made.")
    elif there := next((n for plain in unescaped_variants(old, old) if (n := _line_of(lines, plain))), 0):
        text.append(f"With one level of escaping removed it is at line {there}: do not add backslashes.")
    elif "\\" in old and (there := _line_of(lines, old.replace("\\", "\\\\"))):
        text.append(f"With each backslash doubled it is at line {there}: write them as the file has them.")
    return text


def _line_of(lines: IndexedLines, text: str) -> int:
    """Return the line, from 1, at which a text is found or matches; 0 for none."""
    if (there := lines.content.find(text)) >= 0:
        return lines.content.count("\n", 0, there) + 1
    matches = lines.find(text)
    return matches[0].at + 1 if matches else 0


def _line_of_whole(content: str, text: str) -> int:
    """Return the line, from 1, at which a text stands exactly so and is no part of other words; 0 for none."""
    content, text = (each.replace("\r\n", "\n") for each in (content, text))
    pattern = (
        ("(?m)^" if text[0].isspace() else r"(?<!\w)") + re.escape(text) + ("" if text[-1].isspace() else r"(?!\w)")
    )
    found = re.search(pattern, content)
    return content.count("\n", 0, found.start()) + 1 if found else 0
