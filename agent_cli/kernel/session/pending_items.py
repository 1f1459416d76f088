"""The decisions that a suspended turn waits for, as JSON data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agent_cli.kernel.events import ApprovalRequested, QuestionAsked
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, is_user_message
from agent_cli.kernel.session.pending_plans import expiry_of, seconds_of
from agent_tools.record import to_json
from agent_tools.text import utc_stamp


def pending_items(
    asked: Iterable[ApprovalRequested | QuestionAsked],
    history: Sequence[Message],
    nested: Mapping[str, Sequence[Message]],
    *,
    asked_at: str = "",
    plan_ttl: int = 0,
    names: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return an object for each pending decision, with what the user needs to know.

    nested: histories of suspended sub-agents, by their Task call.
    asked_at: when the user was asked, as a log timestamp; now by default.
    names: of sub-agents in the background, by their Task call.
    plan_ttl: minutes after which a plan expires; 0 for never.
    """
    asked_at = asked_at or utc_stamp()
    request = next((m.words for m in reversed(history) if is_user_message(m)), "")
    made = _calls({"": history, **nested})
    items = []
    for event in asked:
        summary, parent = made[event.call_id][1:] if event.call_id in made else ("", "")
        task = made[parent][0] if parent in made else None
        expires = expiry_of(asked_at, plan_ttl) if isinstance(event, QuestionAsked) and event.kind == "plan" else None
        about = {
            "request": request,
            "said": summary,
            "agent": str(task.arguments.get("subagent_type", "")) if task is not None else None,
            "agent_name": names.get(parent),
            "agent_task": str(task.arguments.get("description", "")) if task is not None else None,
            "parent_tool_use_id": parent or None,
            "asked_at": asked_at,
            "expires_at": expires,
        }
        items.append(pending_item(event) | about)
    return items


def _calls(histories: Mapping[str, Sequence[Message]]) -> dict[str, tuple[ToolCall, str, str]]:
    """Return each call by ID, with the text before it and the Task call of the sub-agent that made it ("" for none)."""
    return {
        call.id: (call, message.text, parent)
        for parent, messages in histories.items()
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }


def pending_item(event: ApprovalRequested | QuestionAsked) -> dict[str, Any]:
    """Return the question as JSON data."""
    if isinstance(event, ApprovalRequested):
        return {
            "call_id": event.call_id,
            "kind": "approval",
            "tool": event.tool,
            "summary": event.summary,
            "reason": event.reason,
            "effects": [{"kind": e.kind, "target": e.target} for e in event.effects],
            "cwd": event.cwd,
            "preview": to_json(event.preview),
            "facts": list(event.facts),
            "rule": event.always or None,
            **({"scheduled": True} if event.scheduled else {}),
        }
    if event.kind == "plan":
        return {"call_id": event.call_id, "kind": "plan", "summary": "Approve the plan", "plan": event.data}
    if event.kind == "review":
        return {"call_id": event.call_id, "kind": "review", "summary": event.data["title"], "review": event.data}
    questions = event.data["questions"]
    return {"call_id": event.call_id, "kind": "question", "summary": questions[0]["question"], "questions": questions}


def has_expired(item: Mapping[str, Any]) -> bool:
    """Return True for a plan that has expired."""
    return bool(item.get("expires_at")) and seconds_of(item["expires_at"]) < time.time()
