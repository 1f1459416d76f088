"""Pending decisions: as JSON data for results and `agent pending`, as text, and the commands that decide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import Diagnostics, Failed, LiveSession, SessionStore, Suspended, Usage
from agent_cli.console import local_time, print_line, print_notice, print_text
from agent_cli.kernel.results import TerminalReason, TurnEnd, empty_end
from agent_cli.kernel.session.pending_items import has_expired
from agent_cli.kernel.session.records import WaitingTurn
from agent_cli.shells.headless.output import FAILED, SUSPENDED
from agent_cli.shells.headless.result_object import result_object
from agent_tools.lazy import lazy_imports
from agent_tools.plan import plan_text
from agent_tools.text import escape_controls

with lazy_imports():
    from agent_tools import lookalikes  # only if something is pending


def headline(item: Mapping[str, Any]) -> str:
    """Describe the question on one line."""
    task = f" ({' '.join(item['agent_task'].split())})" if item.get("agent_task") else ""
    agent = f"sub-agent {item.get('agent_name') or item['agent']}{task}: " if item.get("agent") else ""
    word = "expired" if has_expired(item) else "expires"
    until = f", {word} {local_time(item['expires_at'])}" if item.get("expires_at") else ""
    decided = f", {item['decided']}" if item.get("decided") else ""
    return lookalikes.escape_lookalikes(
        f"{agent}{' '.join(str(item['summary']).split())} ({item['call_id']}{until}{decided})"
    )


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
    always = [f"agent approve {call} --rule {_quote(item['rule'])} --scope schedule"] if item.get("scheduled") else []
    return [f"agent approve {call}", *always, f"agent reject {call} --why 'the reason'"]


def _quote(text: str) -> str:
    from shlex import quote  # IDs are the provider's and rarely need quotes

    return quote(text)


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
            result, "suspended", session_id, LiveSession(), (None, None), structured=structured, pending=items
        )
        print_line(fields | {"result": why, "message_sent": False})
    print_notice(why)
    print_pending(session_id, items, folder)
    return SUSPENDED


def report_expired(session_id: str, why: str, waiting: WaitingTurn, *, as_json: bool, structured: bool) -> int:
    """Report, in the output format, that a plan expired, which ended its turn; return the exit code."""
    if as_json:
        spent, view = waiting.spent, LiveSession()
        view.models = waiting.by_model
        usage = sum(waiting.by_model.values(), Usage())
        end = TurnEnd((), usage, Diagnostics(spent.rounds, spent.tool_calls, 0, 0, "", "cancelled"))
        print_line(
            result_object(Failed(end, text=why), "failed", session_id, view, (None, None), structured=structured)
        )
    print_notice(f"{why} Nothing was run. Ask for a new plan with: agent --resume {session_id[:8]}")
    return FAILED
