"""The syntax tree of a bash command line, from shfmt (`shfmt --to-json`), the parser behind the permission rules.

Its JSON is used as it comes: nested objects with a `Type`, words as lists of `Parts`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from functools import lru_cache
from typing import Any

# Parsing time grows faster than the text: beyond this much outside quoted here-documents nothing is parsed.
LONGEST = 4_096
# A here-document may be long, and costs little; this bounds it all the same.
LONGEST_WITH_DOCUMENTS = 262_144
_SECONDS = 2.0
_QUOTED_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n$`\\]+)\"|\\(\w+))")


class Unparsed(Exception):
    """The command line has no tree; the message says why, to follow "the command "."""


def too_long(command: str) -> bool:
    """Whether the command line is longer than what is parsed, bodies of quoted here-documents not counted."""
    if len(command) <= LONGEST:
        return False
    if len(command) > LONGEST_WITH_DOCUMENTS or "<<" not in command:
        return True
    counted, ends = 0, deque[tuple[bool, str]]()
    for line in command.split("\n"):
        if not ends:
            counted += len(line) + 1
            ends.extend((bool(m[1]), m[2] or m[3] or m[4]) for m in _QUOTED_DOCUMENT.finditer(line))
        elif (line.lstrip("\t") if ends[0][0] else line) == ends[0][1]:
            ends.popleft()
    return counted > LONGEST or bool(ends)


@lru_cache(maxsize=1)
def find_shfmt() -> str | None:
    """The parser's program: the one that came with this program, else the first on the PATH."""
    places = [os.path.dirname(sys.executable), *os.get_exec_path()]  # noqa: PTH120
    return next((p for place in places if place.startswith("/") and os.access(p := f"{place}/shfmt", os.X_OK)), None)


@lru_cache(maxsize=256)
def parse_tree(command: str, dialect: str = "bash") -> dict[str, Any]:
    """The `File` node of a command line. Raises Unparsed."""
    if too_long(command):
        raise Unparsed("is too long to be analysed")
    program = find_shfmt()
    if program is None:
        raise Unparsed("has shell syntax, and the parser for it (shfmt) is not installed")
    import subprocess  # plain commands never get here

    try:
        ran = subprocess.run(
            [program, f"-ln={dialect}", "--to-json"],
            input=command.encode(),
            capture_output=True,
            timeout=_SECONDS,
            cwd="/",
            env={},
        )
    except (OSError, subprocess.SubprocessError, UnicodeEncodeError):
        raise Unparsed("could not be parsed") from None
    if ran.returncode:
        raise Unparsed("is not valid bash, as far as can be told")
    try:
        tree: dict[str, Any] = json.loads(ran.stdout)
    except (ValueError, RecursionError):
        raise Unparsed("is nested too deeply") from None
    return tree
