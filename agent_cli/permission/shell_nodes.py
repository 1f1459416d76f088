"""Questions about the syntax tree of a command line that need no knowledge of what its commands do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_cli.permission.shell_words import Node


def is_chain(node: Node) -> bool:
    """Whether a statement is nothing but `a && b`."""
    command = node.get("Cmd") or {}
    plain = not (node.get("Redirs") or node.get("Negated") or node.get("Background"))
    return plain and command.get("Type") == "BinaryCmd" and command.get("Op") == "&&"


def nodes(tree: Any, stop: tuple[str, ...] = ()) -> Iterator[Node]:
    """All nodes of a tree but positions, from the top; below a node of a type in `stop` it is not gone."""
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
    """The names of variables that anything in a body may set."""
    found = set()
    for node in nodes(body):
        if "Assigns" in node or node.get("Type") == "DeclClause":
            for assignment in [*(node.get("Assigns") or []), *(node.get("Args") or [])]:
                if name := (assignment.get("Name") or {}).get("Value"):
                    found.add(name)
        if node.get("Type") == "WordIter":
            found.add(node["Name"]["Value"])
    return found
