"""How a turn ended, as a program that embeds the agent reads it."""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.results import Complete, Denial, Diagnostics, Failed, MaxIterations, Suspended, TurnResult, Usage
from agent_tools.record import Value

Pending = ApprovalRequested | QuestionAsked
Ending = Literal["complete", "suspended", "error", "limit", "interrupted"]
NO_OUTPUT = "The model gave no answer that fits the schema."


class Result(Value):
    """How a turn ended."""

    # What the model said last, or the program's own account where it could not.
    text: str
    # complete: the model answered. suspended: calls wait for a decision, see `pending`. error: see `error`. limit: a
    # limit of the settings was reached. interrupted: `interrupt` was called, or the stream was left.
    outcome: Ending
    session_id: str
    # Tokens of the whole turn; `usage.reliable` is False where the price of a model is not known.
    usage: Usage
    # Dollars, sub-agents included.
    cost: float
    # Rounds, calls, times and the exact reason of the end.
    diagnostics: Diagnostics
    # What waits for a decision, where the turn is suspended.
    pending: tuple[Pending, ...] = ()
    # The answer that fits the schema, where one was asked for.
    output: Any = None
    # What went wrong, in a sentence; "" for nothing.
    error: str = ""
    # Whether the same may work later.
    retryable: bool = False
    # The calls that were refused.
    denials: tuple[Denial, ...] = ()


def result_of(ended: TurnResult, session_id: str, pending: tuple[Pending, ...], *, structured: bool) -> Result:
    """Return the result of a turn. pending: what waits now. structured: an answer that fits a schema was asked for."""
    failure = getattr(ended, "failure", None)
    error = failure.message if failure is not None else ""
    outcome: Ending
    match ended:
        case Suspended():
            outcome = "suspended"
        case MaxIterations():
            outcome = "limit"
        case Failed(failure=None):
            outcome = "interrupted"
        case Complete(degraded=False, return_value=None) if structured:
            outcome, error = "error", NO_OUTPUT
        case Complete(degraded=False):
            outcome = "complete"
        case _:
            outcome = "error"
    return Result(
        text=getattr(ended, "text", ""),
        outcome=outcome,
        session_id=session_id,
        usage=ended.end.usage,
        cost=ended.end.cost,
        diagnostics=ended.end.diagnostics,
        pending=pending,
        output=getattr(ended, "return_value", None),
        error=error,
        retryable=failure is not None and failure.retryable,
        denials=ended.end.denials,
    )
