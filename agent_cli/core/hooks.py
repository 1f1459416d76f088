"""Hooks as the engine sees them: their configuration, their results, and the implementation without any.

A hook is a command (or a function, for programs that embed the engine) that runs at a named step. The engine calls
`wants` first; a step without hooks costs that call and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, Protocol

from agent_cli.core.events import Event, HookFinished
from agent_cli.core.hook_events import HOOK_EVENTS, HookEvent, Verdict
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.text import escape_controls, shorten

SECONDS = 60.0


class Hook(Value):
    """A configured hook.

    command: a command line; by kind also a URL to post to, or a condition in natural language.
    args: if set, the command is started without a shell.
    own: the user's, not a project's.
    background: it runs in the background, and its answer is not waited for.
    only: a permission rule; the hook runs only for calls that it covers.
    headers: sent to the URL.
    variables: environment variables that the headers may use.
    model: evaluates the condition; "" for the small model.
    """

    event: HookEvent
    command: str
    matcher: str = ""
    args: tuple[str, ...] = ()
    timeout: float = SECONDS
    strict: bool = False
    source: str = ""
    own: bool = True
    background: bool = False
    kind: Literal["command", "http", "prompt"] = "command"
    only: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    variables: tuple[str, ...] = ()
    model: str = ""

    @property
    def where(self) -> str:
        """The calls or occasions of its event that it is limited to; "" for all."""
        return " if ".join(text for text in (self.matcher, self.only) if text)

    def __str__(self) -> str:
        """Describe, for lists, where it applies and what it runs."""
        where = f" ({self.where})" if self.where else ""
        more = f", sent {', '.join(self.variables)}" if self.variables else ""
        return f"{self.event}{where}: {' '.join((self.command, *self.args))}{more}"


class HookResult(Value):
    """The combined answer of the hooks of one step; the strictest verdict wins.

    verdict: "deny" also stands for "block", which for Stop means "continue", and for PostToolUse "send this to the
    model".
    reason: in the hooks' words.
    changed: arguments to use instead of those given.
    context: additions for the model.
    stop: the turn ends with this message for the user; None: it does not.
    """

    verdict: Verdict = ""
    reason: str = ""
    changed: dict[str, Any] | None = None
    context: tuple[str, ...] = ()
    stop: str | None = None


RefreshFields = Callable[[dict[str, Any]], Mapping[str, Any]]


class Hooks(Protocol):
    """The hooks of a conversation. `data`: the fields of the event beyond those that all events have."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        """Return True if any hook runs at this step. subject: compared with matchers; "" matches any."""

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, again: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step in their order. Raises CancelledError.

        again: recomputes fields of `data` for the next hooks after one has changed the input.
        """

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        """Start the hooks of a step in the background; collect their events with `drain`."""

    def drain(self) -> list[Event]:
        """Return the events of background hooks that have ended, each once."""

    def close(self) -> None:
        """End the background hooks that still run."""


class NoHooks:
    """No hooks: nothing is wanted, so nothing runs."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return False

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, again: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        yield from ()
        return HookResult()

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        return

    def drain(self) -> list[Event]:
        return []

    def close(self) -> None:
        return


NO_HOOKS = NoHooks()


def should_display(event: HookFinished) -> bool:
    """Return True if the user should see that a hook ran: it failed, or its refusal is not shown otherwise."""
    row = HOOK_EVENTS.get(event.event)  # None for the command of `after_turn`
    shown_elsewhere = event.outcome == "blocked" and row is not None and row.shows_refusal
    return event.outcome != "success" and not shown_elsewhere


def hook_line(event: HookFinished) -> str:
    """Describe a hook that ran, in one line."""
    how = {"success": "ok", "blocked": "refused", "error": "failed", "cancelled": "ended"}[event.outcome]
    seconds = f"{event.duration_ms / 1000:.1f} s"
    more = f": {shorten(event.note, 300)}" if event.note else ""
    return f"hook {escape_controls(event.name)} `{shorten(event.command, 80)}`: {how}, {seconds}{more}"
