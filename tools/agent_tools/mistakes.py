"""What to say when an edit's old_string does not fit: where it nearly stands, and what differs there."""

from __future__ import annotations

import re
from collections import Counter

from agent_tools.base import ToolError
from agent_tools.textfile import split_lines

_ALIKE = {ord(c): "'" for c in "‘’‚‛′"} | {ord(c): '"' for c in "“”„‟″"}
_ALIKE |= {ord(c): "-" for c in "‐‑‒–—―−"}
_ALIKE |= {ord(c): " " for c in "\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000"}
_NUMBERED = r"\s*\d+\t"


def plain_line(line: str) -> str:
    """A line with typographic quotes, dashes and blanks as on a keyboard; character for character."""
    return line if line.isascii() else line.translate(_ALIKE)


def core_of(line: str) -> str:
    """What two lines must have in common to count as equal: all but blanks at both ends and typography."""
    if line.isascii():
        return line.strip()
    from unicodedata import normalize

    return normalize("NFC", plain_line(line)).strip()


def several(content: str, starts: list[int]) -> ToolError:
    """The error for an old_string that fits in more than one place."""
    lines, number, at = [], 1, 0
    for start in starts[:20]:
        number += content.count("\n", at, start)
        at = start
        lines.append(str(number))
    more = f" and {len(starts) - 20} more" if len(starts) > 20 else ""
    return ToolError(
        f"old_string fits in {len(starts)} places (lines {', '.join(lines)}{more}); nothing was changed. Add "
        "neighbouring lines until only one place fits, or set replace_all to change all that are spelled exactly so."
    )


def unfound(content: str, old: str, new: str) -> ToolError:
    """The error for an old_string that is not there, with the nearest lines and how they differ."""
    said = ["old_string was not found; nothing was changed."]
    sought = [line.rstrip("\r\n") for line in split_lines(old)]
    filled = [line for line in sought if line.strip()]
    if filled and all(re.match(_NUMBERED, line) for line in filled):
        said.append("It seems to contain the line numbers of Read's output: leave them and the tab out.")
    if new.strip() and (there := content.find(new)) >= 0:
        said.append(f"new_string stands at line {content.count(chr(10), 0, there) + 1} already: the edit may be done.")
    lines = [line.rstrip("\r\n") for line in split_lines(content)]
    begin = _nearest(lines, sought)
    if begin is None:
        said.append("Nothing in the file resembles it. Read the file again, or Grep for a word of it.")
        return ToolError(" ".join(said))
    at = begin
    here = lines[max(at, 0) : at + len(sought)]
    said.append(f"The nearest place is lines {max(at, 0) + 1}-{max(at, 0) + len(here)}, which differ:")
    differing = [n for n in range(len(sought)) if not 0 <= at + n < len(lines) or lines[at + n] != sought[n]]
    for n in differing[:4]:
        theirs = repr(lines[at + n][:240]) if 0 <= at + n < len(lines) else "(no such line)"
        said.append(f"\n  line {at + n + 1} is  {theirs}\n  you wrote  {sought[n][:240]!r}")
    if len(differing) > 4:
        said.append(f"\n  and {len(differing) - 4} more lines.")
    said.append("\nCopy the file's own text, blanks included, or Read the place again.")
    return ToolError(" ".join(said).replace(" \n", "\n"))


def _nearest(lines: list[str], sought: list[str]) -> int | None:
    """The line at which `sought` would begin where most of its lines stand; None where nothing is like it."""
    cores = [core_of(line) for line in lines]
    wanted: dict[str, list[int]] = {}
    for n, line in enumerate(sought):
        if len(core := core_of(line)) > 2:
            wanted.setdefault(core, []).append(n)
    votes = Counter(at - n for at, core in enumerate(cores) for n in wanted.get(core, ()))
    if votes:
        best = max(votes.values())
        return min(at for at, count in votes.items() if count == best)
    longest = max(sought, key=lambda line: len(line.strip()), default="").strip()
    if not longest or len(longest) > 500:
        return None
    from difflib import get_close_matches

    known = list(dict.fromkeys(core for core in cores[:5_000] if core and len(core) <= 500))
    part = next((core for core in known if longest in core), None)
    close = [part] if part else get_close_matches(core_of(longest), known, n=1, cutoff=0.5)
    return cores.index(close[0]) - [s.strip() for s in sought].index(longest) if close else None
