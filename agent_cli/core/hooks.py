"""Hooks as the engine sees them: what they are called with, what they may answer, and the one that is always there.

A hook is a command (or a function, for who embeds the engine) that runs at a named step. The engine asks `wants`
first; where nobody does, a step costs that question and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, Protocol

from agent_cli.core.events import Event, HookRan
from agent_cli.core.hook_events import HOOK_EVENTS, HookEvent, Verdict
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.text import escape_controls, shorten

SECONDS = 60.0


class Hook(Value):
    """A configured hook. command: a command line, by kind also an address to post to, or a condition in words.

    args: the command is then started without a shell. own: the user's, not a project's. background: it runs beside
    what goes on, and its answer is not waited for. only: a rule in the grammar of permissions; it is for the calls that
    this is about. headers, variables: what is sent to the address, and what of the environment may stand in that.
    model: what judges the condition; "" for the small one.
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
        """The calls or occasions of its event that it is for; "" for all."""
        return " if ".join(text for text in (self.matcher, self.only) if text)

    def __str__(self) -> str:
        """For lists: where it applies, and what it runs."""
        where = f" ({self.where})" if self.where else ""
        more = f", sent {', '.join(self.variables)}" if self.variables else ""
        return f"{self.event}{where}: {' '.join((self.command, *self.args))}{more}"


class HookResult(Value):
    """What the hooks of one step answered, taken together; the strictest verdict is the one.

    verdict: "deny" also stands for "block", which for Stop means "go on", and for PostToolUse "tell the model this".
    reason: in the hooks' words. changed: the arguments instead of those given. context: for the model. stop: the turn
    is to end, with this to say to the user; None: it is not.
    """

    verdict: Verdict = ""
    reason: str = ""
    changed: dict[str, Any] | None = None
    context: tuple[str, ...] = ()
    stop: str | None = None


Again = Callable[[dict[str, Any]], Mapping[str, Any]]


class Hooks(Protocol):
    """What the hooks of a conversation can do. `data` are the fields of the event beside those that all events have."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        """Whether any hook is to run at this step. subject: what matchers are compared with; "" for any."""

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, again: Again | None = None
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step in their order. Raises CancelledError.

        again: what else of `data` is so once a hook has changed the input, for the hooks after it.
        """

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        """Run the hooks of a step beside what goes on; what came of them is given by `finished`."""

    def drain(self) -> list[Event]:
        """The events of what was begun and has ended meanwhile, once."""

    def close(self) -> None:
        """End what was begun and still runs."""


class NoHooks:
    """No hooks: nothing is wanted, so nothing is run."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return False

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, again: Again | None = None
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


def should_display(event: HookRan) -> bool:
    """Whether the user should see that a hook ran: it failed, or its answer is not told otherwise."""
    row = HOOK_EVENTS.get(event.event)  # None for the command of `after_turn`
    shown_elsewhere = event.outcome == "blocked" and row is not None and row.shows_refusal
    return event.outcome != "success" and not shown_elsewhere


def hook_line(event: HookRan) -> str:
    """A hook that ran, in a line."""
    how = {"success": "ok", "blocked": "says no", "error": "failed", "cancelled": "ended"}[event.outcome]
    seconds = f"{event.duration_ms / 1000:.1f} s"
    more = f": {shorten(event.note, 300)}" if event.note else ""
    return f"hook {escape_controls(event.name)} `{shorten(event.command, 80)}`: {how}, {seconds}{more}"
