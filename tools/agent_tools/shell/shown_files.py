"""The files whose text a command printed: they need no Read before an Edit.

Only simple lines count: `cat a.py`, `head -40 a.py && make test`, `cd src; sed -n '10,60p' b.py`. What is filtered,
redirected or run under a condition is not known to be seen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import fingerprint

# Programs whose output is a part of their input as it is.
_WHOLE_LINES = ("cat", "head", "tail")
_VALUE = ("-n", "-c", "--lines", "--bytes")
_RANGE = re.compile(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_OPERATORS = "();<>|&\n"
_JOINS = (";", "&&", "|", "\n")
# Seconds by which the clock of a file system may be behind.
_COARSE = 0.02
_DISCARDS = re.compile(r"2>\s*(/dev/null|&1)")
# What may leave out, repeat or end the commands behind it.
_KEYWORDS = frozenset("if for while until case select function { ! [[ exit return exec eval set trap alias".split())


def mark_shown(command: str, cwd: Path, began: float, ctx: ToolContext) -> None:
    """Remember the files whose text a command that succeeded has printed, and that did not change since.

    cwd: where it began. began: when, in seconds since the epoch.
    """
    for path in shown_files(command, cwd):
        try:
            resolved = ctx.workspace.resolve(str(path))
            if resolved.stat().st_mtime > began - _COARSE:
                continue
            data = ctx.workspace.read_if_there(resolved)
        except (ToolError, OSError, ValueError):
            continue
        if data is not None:
            ctx.seen[str(resolved)] = fingerprint(data)


def shown_files(command: str, cwd: Path) -> list[Path]:
    """Return the paths of the files whose lines a command line prints, unfiltered; none for a line in doubt."""
    words = shlex.shlex(_DISCARDS.sub(" ", command), posix=True, punctuation_chars=_OPERATORS)
    words.whitespace, words.commenters, words.whitespace_split = " \t", "", True
    try:
        parts = list(_parts(words))
    except ValueError:  # an open quote
        return []
    found: list[Path] = []
    for number, (part, join) in enumerate(parts):
        if join not in ("", *_JOINS) or part[0] in _KEYWORDS:
            return []
        if part[0] == "cd":
            if len(part) != 2:
                return []
            cwd = cwd / part[1]
        fed = number > 0 and parts[number - 1][1] == "|"
        filtered = join == "|" and not (parts[number + 1 :] and parts[number + 1][0][0] in _WHOLE_LINES)
        if not fed and not filtered:
            found += [cwd / name for name in _operands(part)]
    return found


def _parts(words: shlex.shlex) -> Iterator[tuple[list[str], str]]:
    """Yield the simple commands of a line, each with the operator behind it; a redirection is no simple command."""
    part: list[str] = []
    for word in words:
        if word and set(word) <= set(_OPERATORS):
            join = word.strip("\n") or "\n"
            if part or join != "\n":
                yield part or [""], join
            part = []
        else:
            part.append(word)
    if part:
        yield part, ""


def _operands(part: list[str]) -> list[str]:
    """Return the names of the files whose lines a simple command prints."""
    program, *arguments = part
    if program == "sed":
        quiet = [word for word in arguments if word in ("-n", "--quiet", "--silent")]
        others = [word for word in arguments if word not in quiet]
        plain = quiet and others and _RANGE.fullmatch(others[0]) and not any(w.startswith("-") for w in others)
        return others[1:] if plain else []
    if program not in _WHOLE_LINES:
        return []
    names: list[str] = []
    skip = False
    for word in arguments:
        if skip or word.startswith("-"):
            skip = not skip and word in _VALUE and program != "cat"
        else:
            names.append(word)
    return names
