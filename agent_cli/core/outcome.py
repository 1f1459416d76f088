"""How a turn ends: four results, each with what it added to the history and what it used."""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.core.limits import Cap
from agent_cli.core.messages import Message
from agent_cli.core.usage import Usage
from agent_tools.values import Value

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
