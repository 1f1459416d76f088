"""A task in two calls: `POST /coding/start` and `POST /coding/{session_id}/approve`, and its state.

It works on the same sessions as `/v1`: the plan is approved before anything changes, tools during the work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from agent_cli import QuestionAsked, UserDecision
from agent_cli.extras.server.actions import check_decision, decide_call, start_task
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import session_log, session_not_found, token_of
from agent_cli.extras.server.schemas import CodingApprove, CodingStart, StartBody
from agent_cli.kernel.runtime.user_decision import DecisionWord
from agent_tools.plan import FILE_NOTES, plan_file

# The fields of a plan in these calls.
_PLAN = ("files_to_create", "files_to_modify", "commands", "dependencies", "tests")
_STAGES = {"queued": "queued", "running": "executing", "failed": "failed", "interrupted": "interrupted"}


async def start_coding(hub: Hub, request: Request, body: CodingStart) -> dict[str, Any]:
    """Start a request; answers at once with its state."""
    chosen, *others = [body.project] if body.project else hub.views.projects
    if others:
        raise RequestRefusedError(422, "project", "This server has several projects: name one in project.")
    mode = "plan" if body.mode == "plan" else None
    task = await start_task(hub, StartBody(prompt=body.query, project=chosen, mode=mode), token_of(request).name)
    return await coding_state(hub, task.session_id)


async def get_coding(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the state of a request."""
    return await coding_state(hub, request.path_params["session_id"])


async def approve_coding(hub: Hub, request: Request, body: CodingApprove) -> dict[str, Any]:
    """Approve or reject what waits; feedback on a rejected plan has it revised."""
    session_id, token = request.path_params["session_id"], token_of(request)
    detail = await hub.detail(session_id)
    if detail is None:
        raise session_not_found(session_id)
    items = [i for i in detail["pending_items"] if "decided" not in i]
    chosen = [i for i in items if not body.call_ids or i["call_id"] in body.call_ids]
    if not chosen:
        raise RequestRefusedError(409, "idle", "Nothing waits for a decision in this session.")
    decisions = [_decision_about(item, body) for item in chosen]
    for decision in decisions:
        await check_decision(hub, session_id, decision, token)
    for decision in decisions:
        await decide_call(hub, session_id, decision, token)
    return await coding_state(hub, session_id)


def _decision_about(item: dict[str, Any], body: CodingApprove) -> UserDecision:
    """Return the decision about one item."""
    call_id, binding, text = item["call_id"], item["binding"], body.feedback
    fields = body.fields()
    if item["kind"] == "question":
        if not body.approved and not text:
            return UserDecision(call_id, binding, "reject", **fields)
        if not text and not body.answers:
            raise RequestRefusedError(422, "decision", f"{item['summary']} Answer it in feedback.")
        return UserDecision(call_id, binding, "answer", text, **fields)
    if body.approved:
        return UserDecision(call_id, binding, "approve", text, **fields)
    word: DecisionWord = "answer" if item["kind"] in ("plan", "review") and text else "reject"
    return UserDecision(call_id, binding, word, text, **fields)


def awaited_stage(items: list[dict[str, Any]]) -> str:
    """Return the stage of a session with these items; "" if none of them waits for a decision."""
    kinds = [item["kind"] for item in items if "decided" not in item]
    asked = next((kind for kind in kinds if kind != "approval"), "")
    if asked:
        return "awaiting_plan_approval" if asked == "plan" else "awaiting_answer"
    return "awaiting_tool_approval" if kinds else ""


def _items(name: str, texts: list[str]) -> list[Any]:
    """Return a list of a plan; each file as an object: {"path": ..., "purpose": ...}."""
    if (note := FILE_NOTES.get(name)) is None:
        return texts
    return [dict(zip(("path", note), plan_file(text), strict=True)) for text in texts]


async def coding_state(hub: Hub, session_id: str) -> dict[str, Any]:
    """Return the state of a request, as these two calls answer it."""
    detail = await hub.detail(session_id)
    if detail is None:
        raise session_not_found(session_id)
    return await asyncio.to_thread(_state, hub, session_id, detail)


def _state(hub: Hub, session_id: str, detail: dict[str, Any]) -> dict[str, Any]:
    path = session_log(hub, session_id)
    restored = hub.views.restored(path)
    stage = _STAGES.get(detail["state"]) or (str(restored.stage) if restored is not None else "queued")
    if detail["state"] == "running":
        # The question is known before the process has ended in it.
        stage = awaited_stage(detail["pending_items"]) or stage
    live = hub.views.live(path)
    with live.lock:
        calls = list(live.view.own_calls())
    completed = [call.summary for call in calls if call.requested and call.ran == "done"]
    planned = [
        (call, call.question.data)
        for call in calls
        if isinstance(call.question, QuestionAsked) and call.question.kind == "plan"
    ]
    asked, data = planned[-1] if planned else (None, None)
    approved = asked is not None and asked.decision == "approve"
    if stage == "executing" and detail["mode"] == "plan" and not approved:
        stage = "planning"
    query = detail["query"]
    return {
        "session_id": session_id,
        "mode": detail["mode"] or "default",
        "stage": stage,
        "query": query,
        "clarified_query": _with_clarifications(query, restored),
        "plan": _plan(data) if data is not None else None,
        "todos": detail["plan"],
        "completed_steps": completed,
        "pending": detail["pending_items"],
        "result": detail["answer"],
        "error": detail["error"],
    }


def _plan(data: dict[str, Any]) -> dict[str, Any]:
    """Return a plan as these calls have it."""
    plan = {"text": data.get("plan", ""), "steps": data.get("steps", [])}
    return plan | {name: _items(name, data.get(name, [])) for name in _PLAN}


def _with_clarifications(query: str, restored: Any) -> str:
    """Return the request with what the user answered to questions about it."""
    if restored is None:
        return query
    prefix = "The user answered: "
    texts = [m.text.removeprefix(prefix) for m in restored.history if m.text.startswith(prefix)]
    return "\n".join([query, *texts])
