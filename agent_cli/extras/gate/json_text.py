"""Add and remove parts of a JSON file of another program; all other text, comments included, stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"[^\s,\]}/]+")


class JsonTextError(ValueError):
    """A text is not JSON, not even with comments."""


class Node:
    """A value in a text: where it is, and its members or items. key: where its key begins; its own start for others."""

    def __init__(self, start: int, key: int) -> None:
        self.start, self.end, self.key = start, start, key
        self.value: Any = None
        self.members: dict[str, Node] = {}
        self.items: list[Node] = []

    @property
    def children(self) -> list[Node]:
        return self.items or list(self.members.values())


def parse_json_text(text: str) -> Node:
    """Return the value that a text is. Raises JsonTextError."""
    node = _value(text, _skip(text, 0), 0)
    if _skip(text, node.end) != len(text):
        raise JsonTextError(f"unexpected text at character {node.end}")
    return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, key: int) -> Node:
    node = Node(at, key or at)
    first = text[at : at + 1]
    if first == "{":
        node.value = {}
        for name, child in _entries(text, node, "}"):
            node.members[name], node.value[name] = child, child.value
    elif first == "[":
        node.value = []
        for _, child in _entries(text, node, "]"):
            node.items.append(child)
            node.value.append(child.value)
    else:
        found = (_STRING if first == '"' else _WORD).match(text, at)
        try:
            node.value = json.loads(found[0] if found else "")
        except ValueError:
            raise JsonTextError(f"no value at character {at}") from None
        node.end = found.end() if found else at
    return node


def _entries(text: str, node: Node, closing: str) -> Iterator[tuple[str, Node]]:
    """Yield the members or items of a value; then its end is known. A comma may follow the last one."""
    at = _skip(text, node.start + 1)
    while text[at : at + 1] != closing:
        name, key = "", at
        if closing == "}":
            found = _STRING.match(text, at)
            at = _skip(text, found.end()) if found else at
            if found is None or text[at : at + 1] != ":":
                raise JsonTextError(f"no key at character {key}")
            name, at = json.loads(found[0]), _skip(text, at + 1)
        child = _value(text, at, key)
        yield name, child
        at = _skip(text, child.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise JsonTextError(f"no comma at character {at}")
    node.end = at + 1


def append_item(text: str, keys: tuple[str, ...], item: Any) -> str:
    """Add an item to the list under these keys, which are created. Raises JsonTextError."""
    node, rest = parse_json_text(text), list(keys)
    depth = 0
    while rest and isinstance(node.value, dict) and rest[0] in node.members:
        node, depth = node.members[rest.pop(0)], depth + 1
    if not isinstance(node.value, dict if rest else list):
        raise JsonTextError(f"{'.'.join(keys)} is not a list")
    for name in reversed(rest[1:]):
        item = {name: item}
    if rest:
        # The item is in a list of its own, under the innermost key.
        item = _in_list(item, rest[1:])
    unit = _unit(text)
    pad = unit * (depth + 1)
    written = json.dumps(item, indent=unit, ensure_ascii=False).replace("\n", f"\n{pad}")
    written = f"{json.dumps(rest[0])}: {written}" if rest else written
    if node.children:
        last = node.children[-1].end
        return f"{text[:last]},\n{pad}{written}{text[last:]}"
    inside = text[node.start + 1 : node.end - 1]
    if depth:
        # On the line of its bracket: `remove_item` then leaves the list or object, which was there before.
        return f"{text[: node.start + 1]}{written}{inside}{text[node.end - 1 :]}"
    return f"{text[: node.start + 1]}\n{pad}{written}{inside if inside.strip() else chr(10)}{text[node.end - 1 :]}"


def _in_list(item: Any, keys: list[str]) -> Any:
    """Put the innermost value into a list."""
    return {keys[0]: _in_list(item[keys[0]], keys[1:])} if keys else [item]


def remove_item(text: str, keys: tuple[str, ...], number: int) -> str:
    """Remove an item of the list under these keys, and what `append_item` created for it. Raises JsonTextError.

    Comments stay, and so do lists and objects that were there before.
    """
    path = [parse_json_text(text)]
    for name in keys:
        path.append(path[-1].members[name])
    path.append(path[-1].items[number])
    while len(path) > 2 and len(path[-2].children) == 1 and _is_created(text, path[-2]):
        path.pop()
    siblings, gone = path[-2].children, path[-1]
    place = siblings.index(gone)
    if place and "/" not in text[siblings[place - 1].end : gone.key]:
        return text[: siblings[place - 1].end] + text[gone.end :]
    if place + 1 < len(siblings):
        after = siblings[place + 1].key
        if "/" not in text[gone.end : after]:
            return text[: gone.key] + text[after:]
    elif not place:
        around = text[path[-2].start + 1 : gone.key], text[gone.end : path[-2].end - 1]
        if not "".join(around).strip(" \t\r\n,"):
            kept = around[1].replace(",", "") if not around[0] else ""
            return text[: path[-2].start + 1] + kept + text[path[-2].end - 1 :]
    comma = _comma(text, gone.end, path[-2].end)
    if comma < 0 and place:
        comma = _comma(text, siblings[place - 1].end, gone.key)
    spans = [(gone.key, gone.end), *([(comma, comma + 1)] if comma >= 0 else [])]
    for start, end in sorted(spans, reverse=True):
        text = _cut(text, start, end)
    return text


def _is_created(text: str, node: Node) -> bool:
    """Return True if a list or object with one entry looks as if it was created for that, with nothing else in it."""
    (child,) = node.children
    around = text[node.start + 1 : child.key] + text[child.end : node.end - 1]
    return child.key > node.start + 1 and not around.strip()


def _comma(text: str, start: int, end: int) -> int:
    """Return where a comma is between two values, comments aside; -1 for none."""
    at = _skip(text, start)
    return at if at < end and text[at : at + 1] == "," else -1


def _cut(text: str, start: int, end: int) -> str:
    """Remove a part of a text, and its line if nothing else is on it."""
    line, after = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    if after >= 0 and line and not (text[line:start] + text[end:after]).strip():
        return text[:line] + text[after + 1 :]
    return text[:start] + text[end:]


def _unit(text: str) -> str:
    found = re.search(r'\n([ \t]+)"', text)
    return found[1] if found else "  "
