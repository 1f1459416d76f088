"""Find the files whose text a command printed: they need no Read before an Edit.

Only simple command lines count: `cat a.py`, `head -40 a.py && make test`, `cd src; sed -n '10,60p' b.py`. Output that
is filtered, redirected or conditional may not have been shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs import read_state
from agent_tools.lazy import lazy_pattern

# Programs that print part of their input unchanged.
_PRINTERS = ("cat", "head", "tail")
_OPTIONS_WITH_VALUE = ("-n", "-c", "--lines", "--bytes")
_SED_RANGE = lazy_pattern(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_OPERATORS = "();<>|&\n"
_SEPARATORS = (";", "&&", "|", "\n")
_STDERR_REDIRECTION = lazy_pattern(r"2>\s*(/dev/null|&1)")
# Keywords and builtins that may skip, repeat or end the commands after them.
_KEYWORDS = frozenset("if for while until case select function { ! [[ exit return exec eval set trap alias".split())


def mark_printed(command: str, cwd: Path, began: float, output: str, ctx: ToolContext) -> None:
    """Mark the lines that a successful command has printed as read, unless their file changed since it began.

    cwd: its initial working directory.
    began: its start, in seconds since the epoch.
    output: its output as the model is shown it.
    """
    for path in printed_paths(command, cwd):
        try:
            resolved = ctx.workspace.resolve(str(path))
            if not read_state.is_older(resolved, began):
                continue
            data = ctx.workspace.read_if_there(resolved)
        except (ToolError, OSError, ValueError):
            continue
        if data is not None:
            read_state.note_printed(resolved, data, output, ctx)


def printed_paths(command: str, cwd: Path) -> list[Path]:
    """Return the paths of the files whose lines a command line prints, unfiltered; [] if in doubt."""
    words = shlex.shlex(_STDERR_REDIRECTION.sub(" ", command), posix=True, punctuation_chars=_OPERATORS)
    words.whitespace, words.commenters, words.whitespace_split = " \t", "", True
    try:
        parts = list(_simple_commands(words))
    except ValueError:  # an open quote
        return []
    found: list[Path] = []
    for number, (part, join) in enumerate(parts):
        if join not in ("", *_SEPARATORS) or part[0] in _KEYWORDS:
            return []
        if part[0] == "cd":
            if len(part) != 2:
                return []
            cwd = cwd / part[1]
        fed = number > 0 and parts[number - 1][1] == "|"
        filtered = join == "|" and not (parts[number + 1 :] and parts[number + 1][0][0] in _PRINTERS)
        if not fed and not filtered:
            found += [cwd / name for name in _printed_files(part)]
    return found


def _simple_commands(words: shlex.shlex) -> Iterator[tuple[list[str], str]]:
    """Yield the simple commands of a line, each with the operator after it."""
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


def _printed_files(part: list[str]) -> list[str]:
    """Return the names of the files whose lines a simple command prints."""
    program, *arguments = part
    if program == "sed":
        quiet = [word for word in arguments if word in ("-n", "--quiet", "--silent")]
        others = [word for word in arguments if word not in quiet]
        plain = quiet and others and _SED_RANGE.fullmatch(others[0]) and not any(w.startswith("-") for w in others)
        return others[1:] if plain else []
    if program not in _PRINTERS:
        return []
    names: list[str] = []
    skip = False
    for word in arguments:
        if skip or word.startswith("-"):
            skip = not skip and word in _OPTIONS_WITH_VALUE and program != "cat"
        else:
            names.append(word)
    return names
