"""The result object of `--output-format json`, also the last line of `stream-json`: Claude Code's fields and ours.

How the turn ended is in `subtype` and `terminal_reason`, as far as that format has a word for it, and in our own
`outcome` and `end_reason` (docs/headless.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_cli import (
    ApprovalRequested,
    AssistantMessage,
    Complete,
    Failed,
    Failure,
    LimitReached,
    LiveSession,
    TurnResult,
    Usage,
)
from agent_cli.kernel.events import ModelRetry, decider_word
from agent_cli.kernel.results import Cap
from agent_cli.shells.headless.output import Outcome
from agent_tools.text import new_uuid

# In that format, other limits are an error during execution.
_SUBTYPES: dict[Cap, str] = {"rounds": "error_max_turns", "cost": "error_max_budget_usd"}
_LIMITS: dict[Cap, str] = {
    "rounds": "Reached maximum number of turns ({rounds})",
    "cost": "Reached maximum budget (${cost:.4f} spent)",
    "duration": "Reached the time limit of the turn",
    "tool_calls": "Reached the maximum number of tool calls ({calls})",
    "failures": "No call succeeded in too many rounds in a row",
    "denials": "The same call was refused too often",
    "repetition": "The same calls were repeated without a change",
    "output": "The answer reached its token limit too often",
}
_TERMINAL = {
    "max_rounds": "max_turns", "max_cost": "budget_exhausted", "inference_error": "api_error",
    "empty_answer": "model_error", "await_approval": "tool_deferred", "await_user_input": "tool_deferred",
    "stopped_by_hook": "hook_stopped",
}  # fmt: skip


def result_object(
    result: TurnResult,
    outcome: Outcome,
    session_id: str,
    view: LiveSession,
    windows: tuple[int | None, int | None],
    *,
    structured: bool,
    pending: Sequence[dict[str, Any]] = (),
    earlier: Usage | None = None,
) -> dict[str, Any]:
    """Return the result object of a turn.

    windows: the model's context window and longest output, in tokens; None if unknown.
    structured: a structured answer was requested.
    pending: open decisions.
    earlier: usage of the run's earlier turns.
    """
    end = result.end
    text = getattr(result, "text", "")
    deferred = outcome == "suspended" and any(asked.deferred for asked in _approvals(view))
    wrong = outcome not in ("done", "denied", "degraded") and not deferred
    subtype = "success" if deferred else _subtype(result, outcome, structured=structured)
    total = end.usage if earlier is None else earlier + end.usage
    failure = getattr(result, "failure", None)
    fields: dict[str, Any] = {
        "type": "result",
        "subtype": subtype,
        "is_error": wrong,
        "api_error_status": (failure.status or None) if failure is not None else None,
        "outcome": outcome,
        "degraded": outcome == "degraded",
        "duration_ms": end.diagnostics.duration_ms,
        "duration_api_ms": end.diagnostics.model_ms,
        "ttft_ms": end.diagnostics.first_chunk_ms or 0,
        "num_turns": end.diagnostics.rounds,
        "num_tool_calls": end.diagnostics.tool_calls,
        "result": text,
        "stop_reason": "tool_deferred" if deferred else end.diagnostics.stop_reason or None,
        "terminal_reason": _terminal_reason(result, subtype),
        "end_reason": end.diagnostics.terminal_reason,
        "session_id": session_id,
        "total_cost_usd": total.cost,
        "cost_is_reliable": total.reliable and not total.estimated,
        "usage": end.usage.claude_fields,
        "modelUsage": {name: model_usage(usage, windows) for name, usage in view.models.items()},
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
        "errors": _errors(result, text) if wrong else [],
        "fast_mode_state": "off",
        "uuid": new_uuid(),
    }
    if view.failed_hooks:
        fields["failed_hooks"] = [
            {"hook_event": h.event, "command": h.command, "source": h.source, "note": h.note}
            for h in view.failed_hooks.values()
        ]
    if pending:
        fields["pending"] = list(pending)
        fields |= _deferred(view)
    if isinstance(result, Complete):
        fields["plan_unfinished"] = result.plan_unfinished
        fields["verified"] = result.verified or None
    if structured and isinstance(result, Complete):
        fields["structured_output"] = result.return_value
    return fields


def api_failure(result: TurnResult) -> Failure | None:
    """Return why the model could not be used, if that ended the turn."""
    if isinstance(result, Failed) and result.failure is not None and result.failure.kind != "blocked":
        return result.failure
    return None


def retry_fields(retry: ModelRetry) -> dict[str, Any]:
    """Return the fields of a line about a retried model call."""
    return {
        "attempt": retry.attempt,
        "max_retries": retry.attempts,
        "retry_delay_ms": round(retry.wait * 1000),
        "error_status": retry.failure.status or None,
        "error": error_word(retry.failure),
    }


def error_word(failure: Failure) -> str:
    """Return the word for a failure of the model in an assistant line."""
    if failure.kind == "auth":
        return "authentication_failed" if failure.status != 402 else "billing_error"
    if failure.kind in ("rate_limit", "overloaded"):
        return failure.kind
    if failure.status == 404:
        return "model_not_found"
    if failure.kind in ("context_too_long", "bad_request", "refused"):
        return "invalid_request"
    return "server_error" if failure.status >= 500 or failure.kind == "malformed" else "unknown"


def _subtype(result: TurnResult, outcome: Outcome, *, structured: bool) -> str:
    if isinstance(result, LimitReached):
        return _SUBTYPES.get(result.cap, "error_during_execution")
    if outcome == "suspended":
        return "suspended"
    if outcome in ("done", "denied", "degraded") or api_failure(result) is not None:
        return "success"
    if outcome == "failed" and structured and isinstance(result, Complete) and result.return_value is None:
        return "error_max_structured_output_retries"
    return "error_during_execution"


def _terminal_reason(result: TurnResult, subtype: str) -> str:
    reason = result.end.diagnostics.terminal_reason
    if subtype == "error_max_structured_output_retries":
        return "structured_output_retry_exhausted"
    if reason == "interrupted":
        last = next((m for m in reversed(result.end.messages) if isinstance(m, AssistantMessage)), None)
        return "aborted_tools" if last is not None and last.calls else "aborted_streaming"
    failure = api_failure(result)
    if failure is not None and failure.kind == "context_too_long":
        return "prompt_too_long"
    return _TERMINAL.get(reason, reason)


def _errors(result: TurnResult, text: str) -> list[str]:
    if isinstance(result, LimitReached):
        counts = result.end.diagnostics
        return [_LIMITS[result.cap].format(rounds=counts.rounds, calls=counts.tool_calls, cost=result.end.usage.cost)]
    return [text] if text else []


def _approvals(view: LiveSession) -> list[ApprovalRequested]:
    return [call.question for call in view.asked if isinstance(call.question, ApprovalRequested)]


def _deferred(view: LiveSession) -> dict[str, Any]:
    """Return the field for the first call that a hook deferred, else the first that waits for a decision."""
    calls = sorted(_approvals(view), key=lambda asked: not asked.deferred)
    if not calls:
        return {}
    return {"deferred_tool_use": {"id": calls[0].call_id, "name": calls[0].tool, "input": calls[0].arguments}}


def model_usage(usage: Usage, windows: tuple[int | None, int | None]) -> dict[str, Any]:
    """Return the usage of a model. windows: as in `result_object`."""
    return {
        "inputTokens": usage.input - usage.cache_read - usage.cache_write,
        "outputTokens": usage.output,
        "thinkingTokens": usage.reasoning,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "webSearchRequests": usage.web_searches,
        "costUSD": usage.cost,
        "contextWindow": windows[0] or 0,
        "maxOutputTokens": windows[1] or 0,
    }
