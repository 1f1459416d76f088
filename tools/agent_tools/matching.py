"""Finding the text that an edit means, and splicing the new text in.

First the text itself, whatever its line ends. Where it is not there: whole lines that are all equal once trailing
blanks, typographic quotes, dashes and blanks, and one indentation difference common to all lines are disregarded.
Exactly one place must fit. Nothing is ever matched by its first and last lines, by likeness, or as "the first of
several": that is how editors of this kind damage files. What an edit leaves alone inside its match keeps the file's
own characters and line ends.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from agent_tools.base import ToolError
from agent_tools.mistakes import core_of, plain_line, several, unfound
from agent_tools.textfile import line_end, split_lines
from agent_tools.values import Value

_INDENT = r"[ \t]*"
Shift = Callable[[str], str | None]


class Splice(Value):
    """One replacement: the characters from `start` to `end` become `new`."""

    start: int
    end: int
    new: str


class Edited(Value):
    """A text after an edit. `note` says what had to be disregarded to find the place."""

    content: str
    splices: tuple[Splice, ...]
    note: str = ""


def replace(content: str, old: str, new: str, everywhere: bool = False) -> Edited:
    """`content` with `old` replaced by `new`: at its one place, or wherever it stands if `everywhere`.

    Raises ToolError, worded for the model, where `old` is missing or in several places, or nothing would change.
    """
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    places = _literal(content, old)
    if len(places) > 1 and not everywhere:
        raise several(content, [start for start, _ in places])
    note = ""
    if places:
        splices = tuple(Splice(s, e, _fresh(content, s, e, old, new)) for s, e in _apart(places))
    else:
        splice, note = _by_lines(content, old, new)
        splices = (splice,)
    parts, at = [], 0
    for splice in splices:
        parts += [content[at : splice.start], splice.new]
        at = splice.end
    after = "".join(parts) + content[at:]
    if after == content:
        raise ToolError("The edit would change nothing: the file holds the new text already.")
    return Edited(after, splices, note)


def _literal(content: str, old: str) -> list[tuple[int, int]]:
    """Where `old` stands, overlapping places included. A "\\n" in it stands for either line end of the file."""
    if "\r\n" not in content:
        sought = old if old in content else old.replace("\r\n", "\n")
        return [(at, at + len(sought)) for at in _starts(content, sought)]
    # Sought in the same text with plain line ends; `pairs` says by how much each place there is shifted.
    pairs = [m.start() - n for n, m in enumerate(re.finditer("\r\n", content))]
    sought = old.replace("\r\n", "\n")
    found = ((at, at + len(sought)) for at in _starts(content.replace("\r\n", "\n"), sought))
    return [(s + bisect_left(pairs, s), e + bisect_left(pairs, e)) for s, e in found]


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
    """The new text for a literal match, with the line ends of its place; untouched in a file without "\\r\\n"."""
    if "\r\n" not in content:
        return new if content[start:end] == old else new.replace("\r\n", "\n")
    return _carry(content[start:end], old, new, _ending(content, start), lambda indent: indent)


def _ending(content: str, start: int) -> str:
    """The line end in use at a place; in the last line, which may have none, that of most lines."""
    at = content.find("\n", start)
    if at < 0:
        return line_end(content)
    return "\r\n" if content[at - 1 : at] == "\r" else "\n"


def _by_lines(content: str, old: str, new: str) -> tuple[Splice, str]:
    """The splice for the one place whose whole lines are all equal to `old` but for what may be disregarded."""
    file_lines = split_lines(content)
    sought = [line.rstrip("\r\n") for line in split_lines(old)]
    cores = [core_of(line) for line in sought]
    anchor = next((n for n, core in enumerate(cores) if core), None)
    if anchor is None:
        raise unfound(content, old, new)
    file_cores = [core_of(line) for line in file_lines]
    fitting: list[tuple[int, Shift]] = []
    for at in range(len(file_cores) - len(cores) + 1):
        if file_cores[at + anchor] == cores[anchor] and file_cores[at : at + len(cores)] == cores:
            shift = _shift([line.rstrip("\r\n") for line in file_lines[at : at + len(cores)]], sought)
            if shift is not None:
                fitting.append((at, shift))
    starts = [sum(map(len, file_lines[:at])) for at, _ in fitting]
    if len(fitting) > 1:
        raise several(content, starts)
    if not fitting:
        raise unfound(content, old, new)
    (at, shift), start = fitting[0], starts[0]
    raw = "".join(file_lines[at : at + len(cores)])
    if not old.endswith("\n"):
        raw = raw.removesuffix("\n").removesuffix("\r")
    elif not raw.endswith("\n"):
        # The file's last line has no end, and keeps none.
        old, new = old.removesuffix("\n"), new.removesuffix("\n").removesuffix("\r")
    spliced = _carry(raw, old, new, _ending(content, start), shift)
    return Splice(start, start + len(raw), spliced), _disregarded(raw, sought)


def _shift(lines: list[str], sought: list[str]) -> Shift | None:
    """How to get from the indentation of `sought` to the file's, alike for every line; None if there is no such way."""
    pairs = [(_indent(f), _indent(s)) for f, s in zip(lines, sought, strict=True) if core_of(s)]
    theirs, ours = pairs[0]
    more, less = theirs.removesuffix(ours), ours.removesuffix(theirs)
    ways: list[Shift] = [
        lambda i: i,
        lambda i: more + i,
        lambda i: i.removeprefix(less) if i.startswith(less) else None,
    ]
    for unit in (" " * 4, " " * 2, " " * 8, " " * 3):
        ways.append(lambda i, unit=unit: i.replace(unit, "\t"))  # type: ignore[misc]
        ways.append(lambda i, unit=unit: i.replace("\t", unit))  # type: ignore[misc]
    return next((way for way in ways if all(way(s) == f for f, s in pairs)), None)


def _indent(line: str) -> str:
    found = re.match(_INDENT, plain_line(line))
    return line[: found.end()] if found else ""


def _carry(raw: str, old: str, new: str, ending: str, shift: Shift) -> str:
    """`new` in the file's own clothes: lines it shares with `old` stay as they are in `raw`, others are shifted."""
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
            indent = _indent(body)
            moved = shift(indent) if body.strip() else indent
            if moved is None:
                raise ToolError(
                    f"old_string fits only with other indentation, and this line of new_string has too little of it "
                    f"to be moved along: {body[:120]!r}. Read the place again and use the file's own indentation."
                )
            rest = body[len(indent) :]
            if paired:
                rest = _blend(raw_lines[i1 + n], old_lines[i1 + n], rest)
            out.append(moved + rest + end)
    return "".join(out)


def _blocks(old: list[str], new: list[str]) -> list[tuple[bool, tuple[int, int], tuple[int, int]]]:
    if len(old) <= 1 and len(new) <= 1:
        return [(old == new, (0, len(old)), (0, len(new)))]
    from difflib import SequenceMatcher

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(tag == "equal", (i1, i2), (j1, j2)) for tag, i1, i2, j1, j2 in codes]


def _blend(raw: str, old: str, new: str) -> str:
    """`new` with the file's typographic characters wherever it is the same as `old`, which has plain ones."""
    raw, old = raw.strip(), old.strip()
    if raw == old or len(raw) != len(old):
        return new
    from difflib import SequenceMatcher

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return "".join(raw[i1:i2] if tag == "equal" else new[j1:j2] for tag, i1, i2, j1, j2 in codes)


def _disregarded(raw: str, sought: list[str]) -> str:
    lines = [line.rstrip("\r\n") for line in split_lines(raw)]
    pairs = [(f, s) for f, s in zip(lines, sought, strict=True) if core_of(s)]
    seen = []
    if any(_indent(f) != _indent(s) for f, s in pairs):
        seen.append("indentation (new_string was moved along)")
    if any(f.strip() != s.strip() for f, s in pairs):
        seen.append("typographic characters")
    return "old_string fits the file only without regard to " + (" and ".join(seen) or "blanks at line ends") + "."
