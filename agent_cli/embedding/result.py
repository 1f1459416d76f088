"""The result of a turn for an embedding program."""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.results import Complete, Denial, Diagnostics, Failed, LimitReached, Suspended, TurnResult, Usage
from agent_tools.record import Value

Pending = ApprovalRequested | QuestionAsked
Ending = Literal["complete", "suspended", "error", "limit", "interrupted"]
NO_OUTPUT = "The model gave no answer that fits the schema."


class Result(Value):
    """The result of a turn."""

    # The model's last text, or the program's own recap if there is none.
    text: str
    # complete: the model answered. suspended: calls are pending, see `pending`. error: see `error`. limit: a limit of
    # the settings was reached. interrupted: `interrupt` was called, or the stream was abandoned.
    outcome: Ending
    session_id: str
    # Tokens of the whole turn; `usage.reliable` is False if the price of a model is unknown.
    usage: Usage
    # Dollars, sub-agents included.
    cost: float
    # Rounds, calls, times and the exact reason why the turn ended.
    diagnostics: Diagnostics
    # Pending decisions, if the turn is suspended.
    pending: tuple[Pending, ...] = ()
    # The answer that fits the schema, if one was given.
    output: Any = None
    # The error in a sentence; "" for none.
    error: str = ""
    # True if the same may work later.
    retryable: bool = False
    # The calls that were refused.
    denials: tuple[Denial, ...] = ()


def result_of(ended: TurnResult, session_id: str, pending: tuple[Pending, ...], *, structured: bool) -> Result:
    """Return the result of a turn. pending: open decisions. structured: a schema was given for the answer."""
    failure = getattr(ended, "failure", None)
    error = failure.message if failure is not None else ""
    outcome: Ending
    match ended:
        case Suspended():
            outcome = "suspended"
        case LimitReached():
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
