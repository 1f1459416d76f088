"""The files whose text a command printed: they need no Read before an Edit.

Only plain command lines count, where nothing changes a file and the text is not filtered: `cat a.py`,
`head -40 a.py && ls`, `cd src; sed -n '10,60p' b.py`. For any other line the answer is: none.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import fingerprint

# Programs that change no file, whatever their arguments.
_HARMLESS = frozenset(
    ("cat", "head", "tail", "nl", "ls", "grep", "egrep", "fgrep", "wc", "echo", "printf", "pwd", "cd", "stat", "file")
)
_HARMLESS_GIT = frozenset(("status", "log", "diff", "show", "blame", "ls-files"))
# Programs whose output is a part of their input as it is.
_WHOLE_LINES = frozenset(("cat", "head", "tail"))
_VALUE = frozenset(("-n", "-c", "--lines", "--bytes"))
_RANGE = re.compile(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_OPERATORS = "();<>|&\n"
_DISCARDS = re.compile(r"2>\s*(/dev/null|&1)")


def mark_shown(command: str, cwd: Path, ctx: ToolContext) -> None:
    """Remember the files whose text a command that succeeded has printed. cwd: where it began."""
    for path in shown_files(command, cwd):
        try:
            resolved = ctx.workspace.resolve(str(path))
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
    for number, (part, operator) in enumerate(parts):
        if operator not in ("", ";", "&&", "|", "\n") or not part or not _changes_nothing(part):
            return []
        if part[0] == "cd":
            if len(part) != 2:
                return []
            cwd = cwd / os.path.expanduser(part[1])
        piped = number > 0 and parts[number - 1][1] == "|"
        whole = operator != "|" or parts[number + 1][0][:1] in (["head"], ["tail"], ["cat"])
        if whole and not piped:
            found += [cwd / name for name in _operands(part)]
    return found


def _parts(words: shlex.shlex) -> Iterator[tuple[list[str], str]]:
    """Yield the simple commands of a line, each with the operator behind it."""
    part: list[str] = []
    for word in words:
        if word and set(word) <= set(_OPERATORS):
            operator = word.strip("\n") or "\n"
            if part or operator != "\n":
                yield part, operator
            part = []
        else:
            part.append(word)
    if part:
        yield part, ""


def _changes_nothing(part: list[str]) -> bool:
    """Return True if a simple command changes no file, and is written without variables, globs and substitutions."""
    if any(character in word for word in part for character in "$`*?[{~" if part[0] not in ("grep", "egrep", "sed")):
        return False
    if part[0] == "git":
        return len(part) > 1 and part[1] in _HARMLESS_GIT and not any(word.startswith("--output") for word in part)
    return part[0] in _HARMLESS or bool(_operands(part))


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
