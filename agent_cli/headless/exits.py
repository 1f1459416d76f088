"""How a run ended, as one word and one exit code; documented in docs/headless.md."""

from __future__ import annotations

from typing import Literal

from agent_cli.core.outcome import Complete, Failed, MaxIterations, Suspended, TurnResult

Outcome = Literal[
    "done", "degraded", "denied", "failed", "retryable", "suspended", "limit", "unfinished", "interrupted"
]
OK, FAILED, USAGE, SUSPENDED, LIMIT, DENIED, RETRY, PIPE = 0, 1, 2, 3, 4, 5, 75, 141


def outcome_of(result: TurnResult, *, fail_on_denied: bool = False, fail_on_unfinished: bool = False) -> Outcome:
    """Return the word for a result. "denied" and "unfinished" (open steps of a plan) only where that is a failure."""
    match result:
        case Complete(degraded=True):
            return "degraded"
        case Complete(plan_unfinished=True) if fail_on_unfinished:
            return "unfinished"
        case Complete():
            return "denied" if result.end.denials and fail_on_denied else "done"
        case Suspended():
            return "suspended"
        case MaxIterations():
            return "limit"
        case Failed(failure=None):
            return "interrupted"
        case Failed(failure=failure):
            return "retryable" if failure is not None and failure.retryable else "failed"


def exit_code(outcome: Outcome, *, fail_on_degraded: bool, signal_number: int = 0) -> int:
    """The process's exit code. A signal's is 128 plus its number."""
    if signal_number:
        return 128 + signal_number
    codes: dict[Outcome, int] = {
        "done": OK,
        "degraded": RETRY if fail_on_degraded else OK,
        "denied": DENIED,
        "failed": FAILED,
        "retryable": RETRY,
        "suspended": SUSPENDED,
        "limit": LIMIT,
        "unfinished": FAILED,
        "interrupted": 130,
    }
    return codes[outcome]
