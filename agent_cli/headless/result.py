"""The result object of `--output-format json` and the last line of `stream-json`: Claude Code's fields and ours.

Also maps how a run ended to one word and one exit code; documented in docs/headless.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agent_cli.core.events import (
    ApprovalRequested,
    Event,
    MessageAdded,
    QuestionAsked,
    UsageAdded,
    decider_word,
    unwrap,
)
from agent_cli.core.messages import ToolMessage
from agent_cli.core.results import Cap, Complete, Failed, LimitReached, Suspended, TurnResult, Usage

Outcome = Literal[
    "done", "degraded", "denied", "failed", "retryable", "suspended", "limit", "unfinished", "interrupted"
]
OK, FAILED, USAGE, SUSPENDED, LIMIT, DENIED, RETRY, PIPE = 0, 1, 2, 3, 4, 5, 75, 141


def outcome_of(result: TurnResult, *, fail_on_denied: bool = False, fail_on_unfinished: bool = False) -> Outcome:
    """Return the word for a result. "denied" and "unfinished" (open steps of a plan) only if that counts as a
    failure.
    """
    match result:
        case Complete(degraded=True):
            return "degraded"
        case Complete(plan_unfinished=True) if fail_on_unfinished:
            return "unfinished"
        case Complete():
            return "denied" if result.end.denials and fail_on_denied else "done"
        case Suspended():
            return "suspended"
        case LimitReached():
            return "limit"
        case Failed(failure=None):
            return "interrupted"
        case Failed(failure=failure):
            return "retryable" if failure is not None and failure.retryable else "failed"


def exit_code(outcome: Outcome, *, fail_on_degraded: bool, signal_number: int = 0) -> int:
    """Return the process's exit code; for a signal 128 plus its number."""
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


# Claude Code's names, if it has one.
_SUBTYPES: dict[Cap, str] = {
    "rounds": "error_max_turns", "cost": "error_max_budget_usd", "duration": "error_max_duration",
    "tool_calls": "error_max_tool_calls", "failures": "error_max_failures", "denials": "error_max_denials",
    "repetition": "error_repetition", "output": "error_max_output_tokens",
}  # fmt: skip


class ResultBuilder:
    """A listener that collects usage by model, and the questions the user has not answered.

    by_model: usage of the turn's earlier parts, before it was suspended.
    """

    def __init__(self, by_model: Mapping[str, Usage] | None = None) -> None:
        self.by_model: dict[str, Usage] = dict(by_model or {})
        self.asked: dict[str, ApprovalRequested | QuestionAsked] = {}

    def __call__(self, event: Event) -> None:
        match unwrap(event):
            case UsageAdded(model=model, usage=usage):
                self.by_model[model] = self.by_model.get(model, Usage()) + usage
            case (ApprovalRequested() | QuestionAsked()) as asked:
                self.asked[asked.call_id] = asked
            case MessageAdded(message=ToolMessage(call_id=call_id)):
                self.asked.pop(call_id, None)


def result_object(
    result: TurnResult,
    outcome: Outcome,
    session_id: str,
    tally: ResultBuilder,
    windows: tuple[int | None, int | None],
    *,
    structured: bool,
    pending: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """windows: the model's context window and longest output in tokens, if known. pending: open decisions."""
    end = result.end
    text = getattr(result, "text", "")
    wrong = outcome not in ("done", "denied", "degraded")
    fields: dict[str, Any] = {
        "type": "result",
        "subtype": _subtype(result, outcome),
        "is_error": wrong,
        "outcome": outcome,
        "degraded": outcome == "degraded",
        "duration_ms": end.diagnostics.duration_ms,
        "duration_api_ms": end.diagnostics.model_ms,
        "ttft_ms": end.diagnostics.first_chunk_ms,
        "num_turns": end.diagnostics.rounds,
        "num_tool_calls": end.diagnostics.tool_calls,
        "result": text,
        "stop_reason": end.diagnostics.stop_reason or None,
        "terminal_reason": end.diagnostics.terminal_reason,
        "session_id": session_id,
        "total_cost_usd": end.usage.cost,
        "cost_is_reliable": end.usage.reliable,
        "usage": usage_object(end.usage),
        "modelUsage": {name: _model_usage(usage, windows) for name, usage in tally.by_model.items()},
        "permission_denials": [
            {
                "tool_name": d.tool,
                "tool_use_id": d.call_id,
                "tool_input": d.arguments,
                "reason": d.reason,
                "by": decider_word(d.by),
                "rule": d.rule or None,
            }
            for d in end.denials
        ],
        "errors": [text] if wrong and text else [],
        "uuid": new_uuid(),
    }
    if pending:
        fields["pending"] = list(pending)
    if isinstance(result, Complete):
        fields["plan_unfinished"] = result.plan_unfinished
        fields["verified"] = result.verified or None
    if structured and isinstance(result, Complete):
        fields["structured_output"] = result.return_value
    return fields


def _subtype(result: TurnResult, outcome: Outcome) -> str:
    if isinstance(result, LimitReached):
        return _SUBTYPES[result.cap]
    if outcome == "suspended":
        return "suspended"
    return "success" if outcome in ("done", "denied", "degraded") else "error_during_execution"


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return Claude Code's usage fields: `input_tokens` excludes what was read from or written to a cache."""
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "server_tool_use": {"web_search_requests": usage.web_searches},
    }


def _model_usage(usage: Usage, windows: tuple[int | None, int | None]) -> dict[str, Any]:
    return {
        "inputTokens": usage.input - usage.cache_read - usage.cache_write,
        "outputTokens": usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "webSearchRequests": usage.web_searches,
        "costUSD": usage.cost,
        "contextWindow": windows[0],
        "maxOutputTokens": windows[1],
    }


def new_uuid() -> str:
    """Return a random UUID without importing the module of that name."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
