"""Decisions of users in the inbox of a task: to which question each belongs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from agent_cli import ApprovalRequested, QuestionAsked, UserDecision
from agent_cli.extras.server.tasks import InboxEntry
from agent_tools.record import from_json


def question_binding(asked: ApprovalRequested | QuestionAsked) -> str:
    """Return a hash of a question as it is shown."""
    if isinstance(asked, ApprovalRequested):
        return asked.binding
    text = json.dumps([asked.call_id, asked.kind, _drop_empty(asked.data)], sort_keys=True)
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _drop_empty(data: Any) -> Any:
    """Return JSON data without empty fields: a log may have a default that the question did not, or the reverse."""
    if isinstance(data, dict):
        return {
            name: filled for name, value in data.items() if (filled := _drop_empty(value)) not in (None, False, "", [])
        }
    return [_drop_empty(value) for value in data] if isinstance(data, (list, tuple)) else data


def changes_plan(asked: QuestionAsked, verdict: UserDecision) -> bool:
    """Return True if the decision has another plan than the question."""
    return bool(verdict.plan) and _drop_empty(verdict.plan) != _drop_empty(asked.data)


def find_decision(
    asked: ApprovalRequested | QuestionAsked, entries: Iterable[InboxEntry]
) -> tuple[InboxEntry, UserDecision] | None:
    """Return the decision in an inbox that holds for a question; None if there is none."""
    binding = question_binding(asked)
    for entry in entries:
        if entry.kind == "decision":
            verdict: UserDecision = from_json(UserDecision, entry.data)
            if (verdict.call_id, verdict.binding) == (asked.call_id, binding):
                return entry, verdict
    return None
