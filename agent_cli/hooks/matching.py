"""The hooks of a conversation by event, and the matching of hooks to steps.

Matchers: a name, alternatives (`Edit|Write`), a regular expression, or nothing, which matches every name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_cli.core.hooks import HOOK_EVENTS, Hook, HookEvent
from agent_cli.core.results import Failure
from agent_cli.engine.turn import TurnDeps
from agent_cli.engine.types import ModelHandle, TurnOptions
from agent_cli.providers.base import ModelError
from agent_tools.base import Effect, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.registry import tool_name, tool_traits
from agent_tools.task import common_type


class PythonHook(Value):
    """A hook in Python: receives what a command reads from standard input, and returns what one prints, or None.

    An exception is a failure, which blocks if the hook is strict. Without a time limit it runs in the turn's thread.

    timeout: seconds; 0 for no limit. With a limit, `call` runs in its own thread, and may block.
    cancelled: called once, on any thread, when the answer of a hook with a time limit is no longer awaited; receives
        the same data as `call`.
    """

    event: HookEvent
    call: Callable[[dict[str, Any]], Mapping[str, Any] | None]
    matcher: str = ""
    strict: bool = False
    from_user: bool = True
    source: str = "Python"
    timeout: float = 0.0
    cancelled: Callable[[dict[str, Any]], None] | None = None

    @property
    def command(self) -> str:
        return str(getattr(self.call, "__qualname__", type(self.call).__name__))


# Calls a tool (server, tool, arguments) and returns its text. Raises ToolError, CancelledError.
CallServerTool = Callable[[str, str, dict[str, Any], CancelToken], str]


class HookSession(Value):
    """The session that hooks run in, as their payload describes it. root: the project's folder."""

    session_id: str = ""
    transcript_path: str = ""
    root: Path = Path()


def no_server(server: str, tool: str, arguments: dict[str, Any], cancel: CancelToken) -> str:
    """Raise ToolError: there are no MCP servers."""
    raise ToolError(f"there is no MCP server {server} here")


def no_session() -> tuple[TurnDeps, TurnOptions]:
    """Raise ModelError: there is no session whose tools could be used."""
    raise ModelError(Failure("blocked", "There is no session to look into."))


def no_model(name: str) -> ModelHandle:
    """Raise ModelError: no model is available."""
    raise ModelError(Failure("auth", "No model is available to judge it."))


class HookSet:
    """The hooks of a conversation, in the order of configuration; functions come after commands.

    session: identifies the session in payloads.
    environment: returns a hook's variables; called with True for the user's own hooks.
    cwd: returns the folder that hooks run in.
    open_model: opens the model that evaluates conditions, by name; "" for the default one. Raises ModelError.
    wake: sends the model a message at its next round.
    call_tool: calls a tool of an MCP server.
    turn: returns the dependencies and options of the session's turns, for hooks that are sub-agents.
    covers: returns True if a rule covers a call with this tool and these effects, for hooks limited to some calls.
    """

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        functions: Iterable[PythonHook] = (),
        *,
        session: HookSession | None = None,
        environment: Callable[[bool], dict[str, str]] = lambda from_user: {},
        cwd: Callable[[], Path] = Path.cwd,
        covers: Callable[[str, str, Sequence[Effect]], bool] = lambda rule, tool, effects: True,
        open_model: Callable[[str], ModelHandle] = no_model,
        wake: Callable[[str], None] = lambda text: None,
        call_tool: CallServerTool = no_server,
        turn: Callable[[], tuple[TurnDeps, TurnOptions]] = no_session,
    ) -> None:
        self.session = session or HookSession(root=Path.cwd())
        self.environment = environment
        self.cwd = cwd
        self._covers = covers
        self.open_model = open_model
        self.wake = wake
        self.call_tool = call_tool
        self.turn = turn
        self._by_event: dict[str, list[Hook | PythonHook]] = {}
        self._added: list[Hook] = []
        every: list[Hook | PythonHook] = [*hooks, *functions]
        for hook in every:
            self._by_event.setdefault(hook.event, []).append(hook)

    def matching(self, event: HookEvent, subject: str = "") -> list[Hook | PythonHook]:
        """Return the hooks that run at a step, in order; without a subject, all hooks of the event."""
        found = [*self._by_event.get(event, ()), *(hook for hook in self._added if hook.event == event)]
        if not subject or not HOOK_EVENTS[event].matched:
            return found
        return [hook for hook in found if matcher_matches(hook.matcher, subject)]

    def add(self, hooks: Sequence[Hook]) -> None:
        self._added = [*self._added, *(hook for hook in hooks if hook not in self._added)]

    def remove(self, hooks: Sequence[Hook]) -> None:
        self._added = [hook for hook in self._added if hook not in hooks]

    def is_for(self, hook: Hook | PythonHook, data: Mapping[str, Any]) -> bool:
        """Return True if a hook of the event applies to the call in the event's data."""
        if not isinstance(hook, Hook) or not hook.only:
            return True
        effects = [Effect(e["kind"], e["target"]) for e in data.get("effects", ())]
        return self._covers(hook.only, tool_name(str(data.get("tool_name", ""))), effects)


def matcher_matches(matcher: str, subject: str) -> bool:
    """Return True if a matcher matches the name. An unanchored regular expression may match anywhere in it."""
    if matcher in ("", "*"):
        return True
    kind = tool_traits(subject)
    names = (subject, tool_name(subject), common_type(subject), *kind.other_names, *kind.instead_of)
    if re.fullmatch(r"[\w |,-]*", matcher):
        return any(part.strip() in names for part in re.split(r"[|,]", matcher))
    found = _compiled(matcher)
    return found is not None and any(found.search(name) for name in names)


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except re.error:
        return None
