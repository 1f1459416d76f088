"""Build the hooks of a conversation from settings, trust and session."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.core.events import Event
from agent_cli.core.hooks import NO_HOOKS, Hook, HookEvent, HookResult, Hooks, RefreshFields
from agent_cli.core.place import RunEnvironment
from agent_tools.base import Effect, ToolContext
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.engine.types import ModelHandle
    from agent_cli.hooks import HookRegistry, PythonHook

with lazy_imports():
    from agent_cli import hooks as agent_hooks
    from agent_cli.core import rules
    from agent_cli.hooks import matching
    from agent_cli.permissions import command_rules
    from agent_cli.runtime import models
    from agent_tools.shell import state


class LazyHooks:
    """The hooks of a conversation, loaded at the first step that one of them matches."""

    def __init__(self, hooks: tuple[Hook | PythonHook, ...], make: Callable[[], HookRegistry]) -> None:
        self._events = {hook.event for hook in hooks}
        self._make = make

    @cached_property
    def table(self) -> HookRegistry:
        return self._make()

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return event in self._events and self.table.wants(event, subject)

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, again: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        return (yield from self.table.run(event, data, cancel, again))

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        self.table.run_in_background(event, data)

    def drain(self) -> list[Event]:
        return self.table.drain() if "table" in self.__dict__ else []

    def close(self) -> None:
        if "table" in self.__dict__:
            self.table.close()


def active_hooks(settings: Settings, layers: Layers) -> tuple[Hook, ...]:
    """Return the hooks that run: a project's only while it is trusted."""
    if settings.disable_hooks:
        return ()
    return tuple(hook for hook in settings.hooks if hook.own or layers.trust.trusted)


def make_hooks(
    settings: Settings,
    layers: Layers,
    place: RunEnvironment,
    context: ToolContext,
    session: tuple[str, Callable[[], Path | None]],
    model: Callable[[], str] = lambda: "",
    functions: tuple[PythonHook, ...] = (),
    wake: Callable[[str], None] = lambda text: None,
) -> Hooks:
    """Return the hooks of a conversation.

    session: its ID, and what returns its transcript, if it is stored.
    model: returns the session's model, which evaluates conditions if the settings name no small model.
    wake: sends the model a message at its next round.
    functions: Python hooks of an embedding program; they run after the configured ones.

    The user's own hooks get the full environment; a project's hooks get that of commands, without keys.
    """
    hooks = active_hooks(settings, layers)
    if not hooks and not functions:
        return NO_HOOKS

    def environment(own: bool) -> dict[str, str]:
        if not own:
            return state.command_env(context)[0]
        return {n: v for n, v in place.env.items() if n not in state.STARTUP and not n.startswith("BASH_FUNC_")}

    def about(rule: str, tool: str, effects: Sequence[Effect]) -> bool:
        root = context.workspace.root
        return command_rules.is_about(
            rules.read_rule("deny", rule, "", root), tool, effects, root, place.home or Path("/")
        )

    @cache
    def by_name(name: str) -> ModelHandle:
        return models.lazy_model(name, settings, place)()

    def opened(name: str) -> ModelHandle:
        return by_name(name or settings.small_model or model() or settings.model or "")

    def table() -> HookRegistry:
        return agent_hooks.HookRegistry(
            hooks,
            functions,
            session=matching.HookSession(session[0], str(session[1]() or ""), place.root),
            environment=environment,
            cwd=lambda: context.workspace.cwd,
            about=about,
            opened=opened,
            wake=wake,
        )

    return LazyHooks((*hooks, *functions), table)
