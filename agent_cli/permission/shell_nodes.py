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
    """All nodes of a tree, from the top; below a node of a type in `stop` it is not gone."""
    if isinstance(tree, dict):
        yield tree
        if tree.get("Type") in stop:
            return
        for child in tree.values():
            if isinstance(child, (dict, list)):
                yield from nodes(child, stop)
    elif isinstance(tree, list):
        for child in tree:
            yield from nodes(child, stop)


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
