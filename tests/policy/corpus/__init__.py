"""Command lines with what has to be decided about them, one table for each class of attack, and one of everyday work.

Each expectation is thought through from what the command does, not from what the program says about it.
"""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value

Expected = Literal["allow", "ask", "deny"]


class Case(Value):
    """One line of a table. carried: variables that earlier commands exported. cwd: a folder of the workspace."""

    kind: str
    expected: Expected
    command: str
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    cwd: str = ""
    carried: tuple[tuple[str, str], ...] = ()
    trusted: bool = True

    @property
    def name(self) -> str:
        rules = "".join(
            f" {kind}={','.join(getattr(self, kind))}" for kind in ("allow", "ask", "deny") if getattr(self, kind)
        )
        mode = "" if self.mode == "default" else f" {self.mode}"
        return f"{self.kind}: {self.command[:70]!r}{rules}{mode} -> {self.expected}"


def group(kind: str, expected: Expected, *commands: str, **more: object) -> list[Case]:
    """Cases that differ only in the command. A rule may be given alone."""
    for name in ("allow", "ask", "deny"):
        if isinstance(rules := more.get(name), str):
            more[name] = (rules,)
    if isinstance(carried := more.get("carried"), dict):
        more["carried"] = tuple(carried.items())
    return [Case(kind, expected, command, **more) for command in commands]  # type: ignore[arg-type]
