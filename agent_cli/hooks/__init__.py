"""Hooks: the user's commands, or functions of an embedding program, that run at named steps of a session.

This file has the registry of a conversation. Everything but the declarations is loaded when a hook matches a step or a
file has hooks: `events` (one row per event), `reader` (settings and other files), `matching`, `handlers` (one function
per kind of hook), `answers` (what a hook printed) and `runner`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.hooks.declaration import (
    AnyHook,
    Hook,
    HookResult,
    HookSession,
    HookSurroundings,
    PythonHook,
    RefreshFields,
)
from agent_cli.kernel.events import Event
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.record import from_json, to_json

if TYPE_CHECKING:
    from agent_cli.hooks.runner import Runner

with lazy_imports():
    from agent_cli.hooks import matching, reader, runner

__all__ = [
    "NO_HOOKS",
    "Hook",
    "HookRegistry",
    "HookResult",
    "HookSession",
    "HookSurroundings",
    "PlainHooks",
    "PythonHook",
    "RefreshFields",
    "front_matter_hooks",
    "hooks_from_plain",
    "plugin_hooks",
]

# Prompts, agent types and suspended turns carry hooks as JSON data.
PlainHooks = tuple[dict[str, Any], ...]


def front_matter_hooks(
    table: Mapping[str, Any],
    source: str,
    within: Path | None,
    problems: list[str] | None = None,
    variables: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> PlainHooks:
    """Return the hooks of a file's front matter, which run only while the agent, skill or command is in use.

    within: the project of the file; None for the user's own.
    problems: collects a sentence for each invalid hook.
    variables: the plugin's, for its commands; None for any other file.
    notes: collects what is ignored in hooks that run; None: `problems` does.
    """
    if table.get("hooks") is None:
        return ()
    found = reader.parse_front_matter(table["hooks"], source, within)
    problems = [] if problems is None else problems
    if notes is not None:
        notes += [f"{source}: {note}" for note in found.notes]
        found = found.replace(notes=())
    problems += [f"{source}: {line}" for line in found.lines()]
    plain = tuple(map(to_json, found.hooks))
    return plugin_hooks(plain, variables) if variables else plain


def plugin_hooks(hooks: Iterable[dict[str, Any]], variables: Mapping[str, str]) -> PlainHooks:
    """Return hooks as a plugin's: they count as the user's own, and get the plugin's variables."""
    return tuple({**plain, "from_user": True, "env": {**plain.get("env", {}), **variables}} for plain in hooks)


def hooks_from_plain(plain: Iterable[dict[str, Any]]) -> list[Hook]:
    """Decode hooks from plain data."""
    return [from_json(Hook, each) for each in plain]


class HookRegistry:
    """The hooks of a conversation, in the order of configuration; functions come after commands.

    surroundings: returns what they run in; called when the first of them runs.
    disabled: nothing is ever added.
    """

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        functions: Iterable[PythonHook] = (),
        surroundings: Callable[[], HookSurroundings] = HookSurroundings,
        *,
        disabled: bool = False,
    ) -> None:
        self._surroundings = surroundings
        self._disabled = disabled
        self._hooks: tuple[AnyHook, ...] = (*hooks, *functions)
        self._added: tuple[Hook, ...] = ()
        # None or one, which sub-agents share: it knows what ran once, and what runs in the background.
        self._runners: list[Runner] = []

    def matching(self, event: str, subject: str = "") -> list[AnyHook]:
        """Return the hooks that run at a step, in order. subject: compared with matchers; "" matches any."""
        found = [hook for hook in (*self._hooks, *self._added) if hook.event == event]
        return [h for h in found if not subject or not h.matcher or matching.matcher_matches(h.matcher, subject)]

    def wants(self, event: str, subject: str = "") -> bool:
        """Return True if any hook runs at this step. A step without hooks costs this call and nothing else."""
        return bool(self._hooks or self._added) and bool(self.matching(event, subject))

    def run(
        self, event: str, data: Mapping[str, Any], cancel: CancelToken, refresh: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step in their order. Raises CancelledError.

        data: the fields of the event beyond those that all events have.
        refresh: recomputes fields of `data` for the next hooks after one has changed the input.
        """
        return (yield from self._runner.run(self.matching, event, data, cancel, refresh))

    def run_in_background(self, event: str, data: Mapping[str, Any]) -> None:
        """Start the hooks of a step in the background; collect their events with `drain`."""
        self._runner.run_in_background(self.matching, event, data)

    def drain(self) -> list[Event]:
        """Return the events of background hooks that have ended, each once."""
        return self._runner.drain() if self._runners else []

    def wait(self, cancel: CancelToken) -> None:
        """Wait for the background hooks that may report to the model, each up to its own time limit."""
        if self._runners:
            self._runner.wait(cancel)

    def close(self) -> None:
        """End the background hooks that still run."""
        if self._runners:
            self._runner.close()

    def add(self, hooks: Sequence[Hook]) -> None:
        """Add hooks after the others; skip those that are already there."""
        if not self._disabled:
            self._added = (*self._added, *(hook for hook in hooks if hook not in self._added))

    def remove(self, hooks: Sequence[Hook]) -> None:
        """Remove hooks that were added."""
        self._added = tuple(hook for hook in self._added if hook not in hooks)

    def nested(self, hooks: Sequence[Hook]) -> HookRegistry:
        """Return the hooks of a sub-agent: these and its own. Adding to the result changes nothing here."""
        nested = HookRegistry.__new__(HookRegistry)
        nested.__dict__.update(self.__dict__)
        nested.add(hooks)
        return nested

    @property
    def _runner(self) -> Runner:
        if not self._runners:
            self._runners.append(runner.Runner(self._surroundings()))
        return self._runners[0]


NO_HOOKS = HookRegistry(disabled=True)
