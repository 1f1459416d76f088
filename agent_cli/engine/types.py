"""What a turn is asked for, and the values that travel through it. None of them knows the turn itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from agent_cli.core.messages import Message, ToolCall
from agent_cli.core.modes import Effort, Verbosity
from agent_cli.core.results import Limits, Spent, Usage
from agent_cli.permissions.decision import Decision, Level
from agent_cli.providers.base import ModelClient, ToolSpec
from agent_tools.base import Effect, Tool
from agent_tools.display import Diff
from agent_tools.media import MediaKind
from agent_tools.overrides import TurnOverrides
from agent_tools.record import Value

Price = Callable[[Usage], Usage]


def free(usage: Usage) -> Usage:
    """Return the usage as it is: its model costs nothing."""
    return usage


class TurnOptions(Value):
    """What a turn sends and how far it may go. `model` is the provider's own name, `label` the one people use.

    takes: what the model can be shown beside text. lent: what the message brings for this turn. kept: what held when it
    was suspended. read_only: of a sub-agent, while the user has not approved the plan of the turn above.
    """

    model: str
    label: str
    system: str
    tools: tuple[ToolSpec, ...] = ()
    takes: frozenset[MediaKind] = frozenset()
    limits: Limits = Limits()
    spent: Spent = Spent()
    max_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    reasoning_summary: bool = False
    verbosity: Verbosity | None = None
    cache_key: str = ""
    keep_thinking: int = 0
    prefill: str = ""
    stream: bool = True
    plan_review: Literal["off", "plan", "always"] = "plan"
    read_only: bool = False
    plan_nudges: int = 5
    plan_reminder: int = 3
    context_window: int | None = None
    compact_at: float = 0.92
    review: Literal["off", "step", "files"] = "off"
    lent: TurnOverrides = TurnOverrides()
    after_turn: str = ""
    after_turn_tries: int = 3
    after_turn_timeout: float = 600.0
    hook_continues: int = 5
    saved: dict[str, Any] = {}  # noqa: RUF012 - never changed
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


class ModelHandle(Value):
    """A model made ready.

    label: the name people use. model: the provider's own. price: adds the cost of a call. takes: what it can be shown
    beside text. window: how many tokens it takes, None where that is not known.
    """

    label: str
    model: str
    transport: ModelClient
    price: Price = staticmethod(free)
    takes: frozenset[MediaKind] = frozenset()
    window: int | None = None


class ChangeObserver:
    """Is told around each call that may change files (see `watched`); this one looks away."""

    def turn(self, history: Sequence[Message], *, new: bool, model: str) -> None:
        """A turn begins, or is resumed, with this history. model: the label of its model."""

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """A call is about to run; what a user should know."""
        return ()

    def after(self, call: str) -> Sequence[str]:
        """It has ended, however it did."""
        return ()

    def facts(self, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """For the question about a call: what of it could not be taken back."""
        return ()

    def revert(self, calls: Sequence[str]) -> str:
        """Put the files back as they were before these calls; what became of it, in words."""
        return "Nothing was undone: there are no snapshots here."

    def diffs(self, calls: Sequence[str]) -> Sequence[Diff]:
        """What these calls changed, file by file, commands included; nothing where that is not known."""
        return ()

    def summed(self) -> str:
        """What the latest turn changed, in words: "3 files created, 2 modified"; "" for nothing."""
        return ""

    def close(self) -> None:
        """The conversation is over."""


class PreparedCall(Value):
    """A call that can be run, and what the gate says about it."""

    call: ToolCall
    tool: Tool[Any]
    args: Any
    effects: tuple[Effect, ...]
    summary: str
    decision: Decision

    @property
    def asks(self) -> bool:
        return self.decision.level is Level.ASK

    @property
    def harmless(self) -> bool:
        """Whether it only reads, or only changes the conversation."""
        return all(e.kind in ("read", "state") for e in self.effects)

    @property
    def writes(self) -> set[str]:
        return {e.target for e in self.effects if e.kind == "write"}


CheckedCall = PreparedCall | str


class GateResult(Value, tag="Look"):
    """What came of a gate. "go": with a note for the call's result. "answered": the calls have their results."""

    how: Literal["go", "suspended", "cancelled", "answered"] = "go"
    note: str = ""
