"""Parse a bash command line into a syntax tree with shfmt (`shfmt --to-json`), for the permission rules.

Its JSON is used as it is: nested objects with a `Type`, words as lists of `Parts`.
Also queries on the tree that need no knowledge of what its commands do.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from agent_cli.policy.shell.words import Node
from agent_tools.lazy import lazy_pattern
from agent_tools.process.child import run_child

# Parsing time grows faster than the length of the text, and much faster than its nesting: nothing beyond these limits
# is parsed. Bodies of quoted here-documents are not counted.
MAX_CHARS = 4_096
MAX_CHARS_WITH_DOCUMENTS = 262_144
_MAX_DEPTH = 30
_MAX_JOINS = 60
_TIMEOUT_SECONDS = 1.0
# The tree of a long line is several hundred times its size.
_MAX_OUTPUT_BYTES = 128 << 20
_QUOTED_DOCUMENT = lazy_pattern(r"(?<!<)<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n$`\\]+)\"|\\(\w+))")


_QUOTED = lazy_pattern(r"'[^'\n]*'|\\.", re.DOTALL)
# Opening and closing of a level of the tree: brackets, and keywords where a command may begin.
_NESTING = lazy_pattern(
    r"(?P<open>[({]|(?:^|[;&|({\n!]|\b(?:do|then|else|elif|time))[ \t]*"
    r"(?:if|elif|for|while|until|case|select|time|coproc)\b)"
    r"|(?P<close>[)}]|\b(?:fi|done|esac)\b)"
)
# Joins nest if they follow each other.
_JOINS = lazy_pattern(r"&&|\|\|?")
# Bash joins such lines before it interprets the dollar sign; the parser does not in every place.
_SPLIT_DOLLAR = lazy_pattern(r"\$[{!#]*\w*\\\n")
_ARITHMETIC = lazy_pattern(r"[-+*/%<>=&|^?:,~!]")


class ShellParseError(Exception):
    """The command line has no tree; the message says why, to follow "the command "."""


def too_long(command: str) -> bool:
    """Return True if the command line is too long to parse, without bodies of quoted here-documents."""
    return len(command) > MAX_CHARS and _outside(command) is None


def _outside(command: str) -> str | None:
    """Return the command line without bodies of quoted here-documents; None if it is too long."""
    if len(command) > MAX_CHARS_WITH_DOCUMENTS or (len(command) > MAX_CHARS and "<<" not in command):
        return None
    lines, ends, size = [], deque[tuple[bool, str]](), 0
    for line in command.split("\n") if "<<" in command else [command]:
        if not ends:
            lines.append(line)
            size += len(line) + 1
            ends.extend((bool(m[1]), m[2] or m[3] or m[4]) for m in _QUOTED_DOCUMENT.finditer(line))
        elif (line.lstrip("\t") if ends[0][0] else line) == ends[0][1]:
            ends.popleft()
    if len(command) > MAX_CHARS and (ends or size > MAX_CHARS):
        return None
    return "\n".join(lines)


def _too_deep(text: str) -> bool:
    """Return True if the tree of a text might be so deep that it takes long to build."""
    bare = _QUOTED.sub("", text)
    depth = deepest = 0
    for match in _NESTING.finditer(bare):
        depth = depth + 1 if match["open"] else max(0, depth - 1)
        deepest = max(deepest, depth)
    joined = len(_JOINS.findall(bare))
    if "((" in bare or "$[" in bare:
        joined = max(joined, len(_ARITHMETIC.findall(bare)))
    return deepest > _MAX_DEPTH or joined > _MAX_JOINS


@lru_cache(maxsize=1)
def find_shfmt() -> str | None:
    """Return the path of shfmt: the one installed with this program, else the first on the PATH."""
    places = [os.path.dirname(sys.executable), *os.get_exec_path()]  # noqa: PTH120
    return next((p for place in places if place.startswith("/") and os.access(p := f"{place}/shfmt", os.X_OK)), None)


@lru_cache(maxsize=16)
def parse_tree(command: str, dialect: str = "bash") -> dict[str, Any]:
    """Return the `File` node of a command line. Raises ShellParseError."""
    if _SPLIT_DOLLAR.search(command):
        raise ShellParseError("has a line that ends inside of an expansion")
    outside = _outside(command)
    if outside is None:
        raise ShellParseError("is too long to be analysed")
    if _too_deep(outside):
        raise ShellParseError("is nested too deeply, or joins too many commands, to be analysed")
    tree = run_shfmt(command, dialect)
    if "#" in command:
        source = command.encode()
        for place, text in _comments(tree):
            # In bash such a comment still ends with its line; for the parser the line continues.
            if "\\\n" in text:
                raise ShellParseError("has a comment that ends in a backslash")
            # The parser may treat a # as a comment that in bash is part of a word: `case x in x) a $()#b > c`.
            if place and source[place - 1] not in b" \t\n;&|(":
                raise ShellParseError("has a # that may begin a comment or not")
    return tree


def run_shfmt(command: str, dialect: str = "bash") -> dict[str, Any]:
    """Return the tree as shfmt prints it. Raises ShellParseError."""
    program = find_shfmt()
    if program is None:
        raise ShellParseError("has shell syntax, and the parser for it (shfmt) is not installed")
    try:
        argv = [program, f"-ln={dialect}", "--to-json"]
        ran = run_child(
            argv, seconds=_TIMEOUT_SECONDS, feed=command.encode(), most=_MAX_OUTPUT_BYTES, cwd="/", env={}, brief=True
        )
    except (OSError, TimeoutError, OverflowError, UnicodeEncodeError):
        raise ShellParseError("could not be parsed") from None
    if ran.code:
        raise ShellParseError("does not seem to be valid bash")
    try:
        tree: dict[str, Any] = json.loads(ran.out)
        return tree
    except (ValueError, RecursionError):
        raise ShellParseError("is nested too deeply") from None


def _comments(node: Any) -> Iterator[tuple[int, str]]:
    """Yield the comments in a tree as (offset, text)."""
    if isinstance(node, dict):
        if "Hash" in node:
            yield node["Hash"]["Offset"], node.get("Text", "")
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _comments(child)


def is_chain(node: Node) -> bool:
    """Return True if a statement is only `a && b`."""
    command = node.get("Cmd") or {}
    plain = not (node.get("Redirs") or node.get("Negated") or node.get("Background"))
    return plain and command.get("Type") == "BinaryCmd" and command.get("Op") == "&&"


def nodes(tree: Any, stop: tuple[str, ...] = ()) -> Iterator[Node]:
    """Yield all nodes of a tree except positions, top down; nodes of a type in `stop` are not entered."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            if found.get("Type") in stop:
                continue
            found = list(found.values())
        # Half of a tree is positions.
        waiting += [child for child in reversed(found) if isinstance(child, (dict, list)) and "Offset" not in child]


def assigned(body: list[Node]) -> set[str]:
    """Return the names of variables that a body may set."""
    found = set()
    for node in nodes(body):
        if "Assigns" in node or node.get("Type") == "DeclClause":
            for assignment in [*(node.get("Assigns") or []), *(node.get("Args") or [])]:
                if name := (assignment.get("Name") or {}).get("Value"):
                    found.add(name)
        if node.get("Type") == "WordIter":
            found.add(node["Name"]["Value"])
    return found
