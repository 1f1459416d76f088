"""Pending decisions: as JSON data for results and `agent pending`, as text, and the commands that decide them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.messages import AssistantMessage, Message, ToolCall, is_user_message, user_text
from agent_cli.core.results import Diagnostics, Failed, Suspended, TerminalReason, TurnEnd, Usage, empty_end
from agent_cli.headless.output import (
    FAILED,
    SUSPENDED,
    print_line,
    print_notice,
    print_text,
)
from agent_cli.headless.result_object import result_object
from agent_cli.session.live import LiveView
from agent_cli.session.pending_plans import expiry_of, seconds_of
from agent_cli.session.records import WaitingTurn
from agent_cli.session.store import SessionStore
from agent_tools.lazy import lazy_imports
from agent_tools.plan import plan_text
from agent_tools.record import to_json
from agent_tools.text import escape_controls, utc_stamp

with lazy_imports():
    from agent_tools import lookalikes  # only if something is pending


def pending_items(
    asked: Iterable[ApprovalRequested | QuestionAsked],
    history: Sequence[Message],
    nested: Mapping[str, Sequence[Message]],
    *,
    asked_at: str = "",
    plan_ttl: int = 0,
) -> list[dict[str, Any]]:
    """Return an object for each pending decision, with what the user needs to know.

    nested: histories of suspended sub-agents, by their Task call.
    asked_at: when the user was asked, as a log timestamp; now by default.
    plan_ttl: minutes after which a plan expires; 0 for never.
    """
    asked_at = asked_at or utc_stamp()
    request = next((user_text(m.text) for m in reversed(history) if is_user_message(m)), "")
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
        }
    if event.kind == "plan":
        return {"call_id": event.call_id, "kind": "plan", "summary": "Approve the plan", "plan": event.data}
    if event.kind == "review":
        return {"call_id": event.call_id, "kind": "review", "summary": event.data["title"], "review": event.data}
    questions = event.data["questions"]
    return {"call_id": event.call_id, "kind": "question", "summary": questions[0]["question"], "questions": questions}


def headline(item: Mapping[str, Any]) -> str:
    """Describe the question on one line."""
    task = f" ({' '.join(item['agent_task'].split())})" if item.get("agent_task") else ""
    agent = f"sub-agent {item['agent']}{task}: " if item.get("agent") else ""
    word = "expired" if has_expired(item) else "expires"
    until = f", {word} {local_time(item['expires_at'])}" if item.get("expires_at") else ""
    decided = f", {item['decided']}" if item.get("decided") else ""
    return lookalikes.escape_lookalikes(
        f"{agent}{' '.join(str(item['summary']).split())} ({item['call_id']}{until}{decided})"
    )


def has_expired(item: Mapping[str, Any]) -> bool:
    """Return True for a plan that has expired."""
    return bool(item.get("expires_at")) and seconds_of(item["expires_at"]) < time.time()


def pending_question_lines(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format the model's questions with numbered options."""
    lines = []
    for number, question in enumerate(questions, 1):
        which = f"question {number}: " if len(questions) > 1 else ""
        several = " (several may be chosen)" if question.get("multiSelect") else ""
        lines += escape_controls(f"{which}{question['question']}{several}").splitlines()
        for index, option in enumerate(question.get("options", ()), 1):
            more = f" - {option['description']}" if option.get("description") else ""
            lines.append(escape_controls(f"  {index}. {option['label']}{more}"))
    return lines


def decide_commands(session: str, items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the commands that decide what is pending in a session; they can be run as printed."""
    if items and all("decided" in item for item in items):
        return [f"agent resume {session}", f"agent reject {session} --all"]
    several = len(items) > 1
    items = [item for item in items if not has_expired(item) and "decided" not in item]
    found = []
    if several and all(item["kind"] == "approval" for item in items):
        found += [f"agent approve {session} --all", f"agent reject {session} --all"]
    for item in items:
        found += _commands_for(item, f"{session} {_quote(item['call_id'])}" if several else session)
    return found


def _commands_for(item: Mapping[str, Any], call: str) -> list[str]:
    if item["kind"] == "question":
        answers = ["1" if question.get("options") else "'your answer'" for question in item["questions"]]
        return [f"agent answer {call} {' '.join(answers)}"]
    if item["kind"] == "plan":
        approve, change = f"agent approve {call} --mode acceptEdits", "what to change"
        return [approve, f"agent answer {call} '{change}'", f"agent reject {call}"]
    if item["kind"] == "review":
        change = "what to change first"
        undo, end = f"agent reject {call} --undo", f"agent reject {call}"
        return [f"agent approve {call}", f"agent answer {call} '{change}'", undo, end]
    return [f"agent approve {call}", f"agent reject {call} --why 'the reason'"]


def _quote(text: str) -> str:
    from shlex import quote  # IDs are the provider's and rarely need quotes

    return quote(text)


def local_time(stamp: str) -> str:
    """Format a log timestamp (UTC) to the minute, in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds_of(stamp)))


def print_pending(
    session_id: str, items: Sequence[dict[str, Any]], folder: Path | None, *, plan_on_stdout: bool = False
) -> None:
    """Print the pending decisions, and the commands to make them.

    folder: where the session is saved; None if it is not.
    plan_on_stdout: also print plans on standard output.
    """
    for item in items:
        if item["kind"] == "plan" and plan_on_stdout:
            print_text(plan_text(item["plan"]) + "\n")
        print_notice(f"{'decided' if 'decided' in item else 'waiting'}: {headline(item)}")
        for line in pending_question_lines(item["questions"]) if item["kind"] == "question" else ():
            print_notice(f"  {line}")
    if folder is None:
        print_notice(
            "This session is not saved, so this cannot be decided later. Run it without --no-session-persistence."
        )
        return
    if commands := decide_commands(SessionStore.at(folder).short(session_id), items):
        print_notice("Decide with:")
        for command in commands:
            print_notice(f"  {command}")
        print_notice("See the details with: agent pending")


def report_unsent(
    session_id: str, items: Sequence[dict[str, Any]], folder: Path, why: str, *, as_json: bool, structured: bool
) -> int:
    """Report, in the output format, that a suspended session did not get a message; return the exit code."""
    if as_json:
        plans = any(item["kind"] != "approval" for item in items)
        reason: TerminalReason = "await_user_input" if plans else "await_approval"
        end = empty_end(reason)
        result = Suspended(end, tuple(item["call_id"] for item in items))
        fields = result_object(
            result, "suspended", session_id, LiveView(), (None, None), structured=structured, pending=items
        )
        print_line(fields | {"result": why, "message_sent": False})
    print_notice(why)
    print_pending(session_id, items, folder)
    return SUSPENDED


def report_expired(session_id: str, why: str, waiting: WaitingTurn, *, as_json: bool, structured: bool) -> int:
    """Report, in the output format, that a plan expired, which ended its turn; return the exit code."""
    if as_json:
        spent, view = waiting.spent, LiveView()
        view.models = waiting.by_model
        usage = sum(waiting.by_model.values(), Usage())
        end = TurnEnd((), usage, Diagnostics(spent.rounds, spent.tool_calls, 0, 0, "", "cancelled"))
        print_line(
            result_object(Failed(end, text=why), "failed", session_id, view, (None, None), structured=structured)
        )
    print_notice(f"{why} Nothing was run. Ask for a new plan with: agent --resume {session_id[:8]}")
    return FAILED
