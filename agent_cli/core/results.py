"""How a turn ends: four results, each with what it added to the history and what it used.

The bounds of a turn, as values.
What the earlier parts of a turn did and used: saved when it is suspended, so that its end is of the whole turn.
What a model call used and cost.
"""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.core.messages import Message
from agent_tools.record import Value

Cap = Literal["rounds", "duration", "tool_calls", "cost", "failures", "denials", "repetition", "output"]


class Limits(Value):
    """Bounds of one turn; zero means none. Seconds do not count while the user is asked; dollars count known prices.

    failures: rounds one after another in which no call succeeded. denials: refusals of the same call.
    """

    rounds: int = 200
    seconds: float = 0.0
    tool_calls: int = 500
    cost: float = 0.0
    failures: int = 5
    denials: int = 3


class Usage(Value, tag="Usage"):
    """Tokens and dollars. `input` is all input, cached parts included; `output` includes `reasoning`.

    `reliable` is False as soon as one part had no known price, and stays so when usages are added. `estimated`: an
    answer that was interrupted is in it, of which the provider reports nothing.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    web_searches: int = 0
    cost: float = 0.0
    reliable: bool = True
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            web_searches=self.web_searches + other.web_searches,
            cost=self.cost + other.cost,
            reliable=self.reliable and other.reliable,
            estimated=self.estimated or other.estimated,
        )

    def less(self, before: Usage) -> Usage:
        """What was used since it was `before`."""
        flags = ("reliable", "estimated")
        counts = {name: getattr(self, name) - getattr(before, name) for name in self._fields if name not in flags}
        return Usage(**counts, reliable=self.reliable, estimated=self.estimated)


TerminalReason = Literal[
    "completed",
    "max_rounds",
    "max_duration",
    "max_tool_calls",
    "max_cost",
    "max_failures",
    "max_denials",
    "max_output_tokens",
    "repetition",
    "inference_error",
    "empty_answer",
    "await_approval",
    "await_user_input",
    "interrupted",
    "cancelled",
    "stopped_by_hook",
    "denied",  # in logs of earlier versions, as the next
    "failed",
]


class Diagnostics(Value, tag="Diagnostics"):
    """What the turn did. `stop_reason` is the provider's last one; `terminal_reason` is ours."""

    rounds: int
    tool_calls: int
    duration_ms: int
    model_ms: int
    stop_reason: str
    terminal_reason: TerminalReason
    first_chunk_ms: int | None = None


class Failure(Value, tag="Failure"):
    """Why the model could not go on: one of the small set of provider errors, in a sentence; or that a hook blocked the
    prompt."""

    kind: Literal[
        "auth",
        "rate_limit",
        "overloaded",
        "context_too_long",
        "bad_request",
        "network",
        "malformed",
        "refused",
        "script",
        "blocked",
    ]
    message: str
    retryable: bool = False


class Denial(Value, tag="Denial"):
    """A call that was refused, by a rule, a mode or a user.

    by: who refused it, as `events.Decider` has it. rule: the rule that said no, or that asked; "" for none.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    reason: str
    by: str = "default"
    rule: str = ""


class TurnEnd(Value, tag="TurnEnd"):
    """What every ending carries: the messages the turn added, what it used, what it did, what was refused.

    Everything but `messages` is of the whole turn, what came before a pause included. cost: dollars, sub-agents
    included.
    """

    messages: tuple[Message, ...]
    usage: Usage
    diagnostics: Diagnostics
    denials: tuple[Denial, ...] = ()
    cost: float = 0.0


class Complete(Value, tag="Complete"):
    """The model answered. `degraded`: it failed after tools had run, and `text` is our own account of what was done.

    plan_unfinished: steps of the plan are open. verified: which command checked the work last, and how it ended.
    """

    end: TurnEnd
    text: str = ""
    degraded: bool = False
    failure: Failure | None = None
    return_value: Any = None
    plan_unfinished: bool = False
    verified: str = ""


class Suspended(Value, tag="Suspended"):
    """A user is needed. `pending` are the calls without a result; running on resumes with the budget left."""

    end: TurnEnd
    pending: tuple[str, ...] = ()


class Failed(Value, tag="Failed"):
    """Nothing was done: the model failed before any tool ran, or the turn was interrupted (`failure` is None)."""

    end: TurnEnd
    failure: Failure | None = None
    text: str = ""


class MaxIterations(Value, tag="MaxIterations"):
    """A bound was reached; `text` sums up where the work stands."""

    end: TurnEnd
    cap: Cap = "rounds"
    text: str = ""


TurnResult = Complete | Suspended | Failed | MaxIterations


class Action(Value, tag="Action"):
    """A call that was answered, as the summary of a turn lists it."""

    summary: str
    outcome: Literal["done", "failed", "refused"]


class Check(Value, tag="Check"):
    """A command that verified something. `exit_code` is None where it was ended from outside."""

    command: str
    exit_code: int | None

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        how = "passed" if self.passed else f"failed (exit {self.exit_code})"
        return f"`{self.command}` {how}"


class Spent(Value, tag="Spent"):
    """What earlier parts of the same turn come to.

    rounds, seconds, tool_calls, cost: sums that the limits hold for. failures: rounds in a row without a success.
    denials: refusals by call. nudges: how often each guard sent the turn on. usage, model_ms, first_chunk_ms: of the
    conversation's own model calls and those of its tools. actions, denied: what was called and what was refused, in
    order. check: the last command that verified the work; changed_since: files changed after it; wrote: files changed
    at all. plan_touched: the plan was made, approved or changed in this turn. recent: the latest calls with their
    results, as hashes, for the loop detector.
    """

    rounds: int = 0
    seconds: float = 0.0
    tool_calls: int = 0
    cost: float = 0.0
    failures: int = 0
    denials: dict[str, int] = {}  # noqa: RUF012 - never changed
    nudges: dict[str, int] = {}  # noqa: RUF012 - never changed
    usage: Usage = Usage()
    model_ms: int = 0
    first_chunk_ms: int | None = None
    actions: tuple[Action, ...] = ()
    denied: tuple[Denial, ...] = ()
    check: Check | None = None
    changed_since: bool = False
    wrote: bool = False
    plan_touched: bool = False
    recent: tuple[str, ...] = ()
