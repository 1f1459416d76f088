"""Turns with hooks that are Python functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_cli.hooks import HookRegistry, PythonHook
from tests.support.turns import World

Said = dict[str, Any] | None


class HookedTurns(World):
    """A world with one hook, which returns the answers in order and then repeats the last one."""

    def __init__(self, root: Path, replies: list[dict[str, Any]], **more: Any) -> None:
        super().__init__(root, replies, **more)
        self.given: list[dict[str, Any]] = []
        self._functions: list[PythonHook] = []

    def hook(self, event: str, *answers: Said, matcher: str = "", from_user: bool = True) -> HookedTurns:
        left = list(answers)

        def answer(data: dict[str, Any]) -> Said:
            self.given.append(data)
            return left.pop(0) if len(left) > 1 else left[0] if left else None

        return self.function(event, answer, matcher=matcher, from_user=from_user)

    def function(self, event: str, run: Callable[[dict[str, Any]], Said], **more: Any) -> HookedTurns:
        self._functions.append(PythonHook(event, run, **more))
        self.deps = self.deps.replace(hooks=HookRegistry(functions=self._functions))
        return self
