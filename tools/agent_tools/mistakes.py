"""What to say when an edit's old_string does not fit: where it nearly stands, and what differs there."""

from __future__ import annotations

import re

from agent_tools.alike import core_of
from agent_tools.base import ToolError
from agent_tools.by_lines import Lines
from agent_tools.escapes import unescaped_variants
from agent_tools.nearest import differences, nearest_line
from agent_tools.textfile import split_lines

# As Read and Grep number lines, and other programs that models know.
_NUMBERED = r"\s*(\d{1,9})(\t|→|[:-]|\s?\| ?|$)"
_COMMENT = r"(?:#|//|--|/\*|<!--|;|%)"
_LEFT_OUT = rf"(?:{_COMMENT}\s*)?[\[(]?(?:\.\.\.|…)(?!\w)|{_COMMENT}.*(?:\.\.\.|…)\s*(?:\*/|-->|[\])])?$"
_CUT = r" … \[[\d,]+ more characters in this line\]$"
_MOST = 4


def several(content: str, starts: list[int], alike: str = "") -> ToolError:
    """The error for an old_string that fits in more than one place. alike: how replace_all would match, in words."""
    lines, number, at = [], 1, 0
    for start in starts[:20]:
        number += content.count("\n", at, start)
        at = start
        lines.append(str(number))
    more = f" and {len(starts) - 20} more" if len(starts) > 20 else ""
    every = f", or set replace_all to change all that fit ({alike})" if alike else ""
    return ToolError(
        f"old_string fits in {len(starts)} places (lines {', '.join(lines)}{more}); nothing was changed. Add "
        f"neighbouring lines until only one place fits{every}."
    )


def half_escaped(at: int) -> ToolError:
    """The error for text escaped once too often, where it cannot be told what the new text means. at: from 0."""
    return ToolError(
        f"old_string fits line {at + 1} once a level of escaping is taken away, but new_string can then be read in "
        "more than one way; nothing was changed. Send both just as the file has them, without added backslashes."
    )


def unfound(lines: Lines, old: str, new: str) -> ToolError:
    """The error for an old_string that is not there, with the nearest lines and how they differ."""
    sought = [line.rstrip("\r\n") for line in split_lines(old)]
    said = ["old_string was not found; nothing was changed."]
    if bare := _without_numbers(sought):
        fits = lines.fits("\n".join(bare))
        said.append(
            "It seems to begin each line with the line number that Read shows, which is not in the file: leave the "
            "numbers and the tab behind them out, in new_string too."
        )
        if fits:
            said.append(f"Without them it fits line {fits[0].at + 1}.")
            return ToolError(" ".join(said))
        sought = bare
    habits = _habits(lines, old, new, sought)
    said += habits
    raw = [line.rstrip("\r\n") for line in lines.raw]
    at = nearest_line(lines.cores, [core_of(line) for line in sought])
    if at is None:
        if not habits:
            said.append("Nothing in the file resembles it. Read the file again, or search it for a word of it.")
        return ToolError(" ".join(said))
    first, last, unlike = differences(raw, sought, at)
    place = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
    if not unlike:
        said.append(f"It is nearest to {place}, of which it takes a part: give whole lines, as Read shows them.")
        return ToolError(" ".join(said))
    said.append(f"The nearest place is {place}. What differs:")
    more = [f"and {len(unlike) - _MOST} more lines"] if len(unlike) > _MOST else []
    told = "".join(f"\n  {text}" for text in [*unlike[:_MOST], *more])
    return ToolError(f"{' '.join(said)}{told}\nCopy the file's own text, blanks included, or Read the place again.")


def _without_numbers(sought: list[str]) -> list[str]:
    """The lines without the numbers they begin with; none where not all do, counting up by one."""
    found = [re.match(_NUMBERED, line) for line in sought if line.strip()]
    numbers = [int(match[1]) for match in found if match]
    if not found or len(numbers) < len(found) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return []
    if len(found) == 1 and found[0] and found[0][2] not in ("\t", "→"):
        return []
    return [re.sub(_NUMBERED, "", line, count=1) for line in sought]


def _habits(lines: Lines, old: str, new: str, sought: list[str]) -> list[str]:
    """What models are known to do, where this text looks like it."""
    said = []
    known = set(lines.cores)
    if any(re.search(_CUT, line) for line in sought):
        said.append("It holds Read's note of a cut line, which is not in the file: edit a shorter part of that line.")
    elif unknown := [s for s in map(str.strip, sought) if re.match(_LEFT_OUT, s) and core_of(s) not in known]:
        said.append(
            f"Its line {unknown[0][:60]!r} seems to stand for text that was left out: every line between must be given "
            "in full. Make one edit for each place instead."
        )
    if new.strip() and len(new.strip()) > 3 and (there := _stands(lines, new)):
        said.append(f"new_string stands at line {there} already: the edit may be done.")
    elif there := next((n for plain in unescaped_variants(old, old) if (n := _stands(lines, plain))), 0):
        said.append(f"With one level of escaping less it stands at line {there}: do not add backslashes.")
    elif "\\" in old and (there := _stands(lines, old.replace("\\", "\\\\"))):
        said.append(f"With each backslash doubled it stands at line {there}: write them as the file has them.")
    return said


def _stands(lines: Lines, text: str) -> int:
    """The line, from 1, at which a text stands or fits; 0 for none."""
    if (there := lines.content.find(text)) >= 0:
        return lines.content.count("\n", 0, there) + 1
    fits = lines.fits(text)
    return fits[0].at + 1 if fits else 0
