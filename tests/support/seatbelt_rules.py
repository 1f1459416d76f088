"""What Seatbelt makes of rules, without macOS: the last rule that matches an operation on a path applies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOKEN = re.compile(r'\s*(?:([()])|"((?:[^"\\]|\\.)*)"|([^\s()"]+))', re.DOTALL)


class Text(str):
    """A string in the rules, as opposed to a symbol."""

    __slots__ = ()


def parse(text: str) -> list[Any]:
    """The expressions of a text; a ValueError if its parentheses or quotes do not match."""
    stack: list[list[Any]] = [[]]
    end = 0
    while end < len(text.rstrip()):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError(text[end : end + 40])
        end = found.end()
        if found[1] == "(":
            stack.append([])
        elif found[1] == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(Text(re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)) if found[3] is None else found[3])
    [found_all] = stack
    return found_all


class Rules:
    """Rules with their parameters."""

    def __init__(self, text: str, parameters: Mapping[str, str]) -> None:
        self.parsed = parse(text)
        self._parameters = parameters

    def allows(self, operation: str, path: str) -> bool:
        """Whether an operation on a file is allowed."""
        decided = False
        for verb, *parts in self.parsed:
            if verb in ("allow", "deny"):
                operations = [part for part in parts if isinstance(part, str)]
                filters = [part for part in parts if isinstance(part, list)]
                if any(_covers(o, operation) for o in operations) and (
                    not filters or any(self._matches(f, path) for f in filters)
                ):
                    decided = verb == "allow"
        return decided

    def reads(self, path: str) -> bool:
        return self.allows("file-read-data", path)

    def writes(self, path: str) -> bool:
        return self.allows("file-write-data", path) and self.allows("file-write-create", path)

    def connects(self) -> list[str]:
        """The addresses that may be connected to."""
        return [str(address) for kind, address in self._remotes() if kind == "ip"]

    def sockets(self) -> list[str]:
        """The Unix sockets that may be connected to, and the folders of such."""
        return [self._value(address[1]) for kind, address in self._remotes() if kind == "unix-socket"]

    def _remotes(self) -> Iterator[Any]:
        for verb, *parts in self.parsed:
            if verb == "allow" and "network-outbound" in parts:
                assert any(isinstance(part, list) for part in parts), "to anywhere"
                yield from (part[1:] for part in parts if isinstance(part, list))

    def _matches(self, rule: list[Any], path: str) -> bool:
        kind, *values = rule
        if kind == "require-all":
            return all(self._matches(value, path) for value in values)
        [value] = values
        if kind == "literal":
            return path == self._value(value)
        if kind == "subpath":
            return f"{path}/".startswith(f"{self._value(value)}/")
        if kind == "regex":
            return re.search(value, path) is not None
        assert kind in ("extension", "target"), kind
        return False

    def _value(self, value: Any) -> str:
        return self._parameters[value[1]] if isinstance(value, list) else str(value)


def _covers(rule: str, operation: str) -> bool:
    return rule == operation or rule == "default" or (rule[-1] == "*" and operation.startswith(rule[:-1]))
