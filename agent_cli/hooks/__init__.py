"""Hooks: the user's commands, or functions of an embedding program, that run at named steps of a session.

Turns use `HookRegistry`, which knows the hooks and loads the rest of this package when the first of them runs.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_cli.core.events import Event
from agent_cli.core.hooks import Hook, HookEvent, HookResult, RefreshFields
from agent_cli.hooks.matching import HookSet, PythonHook
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.hooks.runner import Runner

with lazy_imports():
    from agent_cli.hooks import runner

__all__ = ["HookRegistry", "PythonHook"]


class HookRegistry(HookSet):
    """The hooks of a conversation, ready to run; see `Hooks` for the methods."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return bool(self.matching(event, subject))

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, refresh: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        return (yield from self._runner.run(self, event, data, cancel, refresh))

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        self._runner.run_in_background(self, event, data)

    def drain(self) -> list[Event]:
        return self._runner.drain() if "_runner" in self.__dict__ else []

    def close(self) -> None:
        if "_runner" in self.__dict__:
            self._runner.close()

    def nested(self, hooks: Sequence[Hook]) -> HookRegistry:
        # Create the runner before the copy: both share it, as it knows what ran once and what runs in the background.
        assert self._runner
        nested = copy.copy(self)
        nested.add(hooks)
        return nested

    @cached_property
    def _runner(self) -> Runner:
        return runner.Runner(self)
