"""The words about a session and its calls that all documents share."""

from __future__ import annotations

import json

from agent_cli.core.messages import of_program
from agent_cli.session.export.told import Document, ToolEntry, UserEntry
from agent_cli.session.story import decision_words
from agent_tools.clipping import counted
from agent_tools.display import Diff, Diffs, TodoView


def document_facts(session: Document) -> list[tuple[str, str]]:
    """What a document says at its top: names and values, only those that are known."""
    header, used = session.header, session.usage
    cost = f"${used.cost:.4f}" if used.reliable else "unknown (no price for this model)"
    known = [
        ("Session", header.session_id),
        ("Project", header.root),
        ("Branch", header.branch),
        ("Model", header.model),
        ("Copied from", header.forked_from),
        ("Begun", format_time(session.created)),
        ("Last change", format_time(session.updated)),
        ("Tokens", f"{used.input:,} in ({used.cache_read:,} from cache), {used.output:,} out"),
        ("Cost", cost),
        ("Damaged", counted(session.bad, "record") + " left out" if session.bad else ""),
    ]
    return [(name, value) for name, value in known if value]


def speaker_heading(said: UserEntry) -> str:
    """Whose words they are, for a heading."""
    return "Note to the model" if of_program(said.text) else "You"


def format_time(time: str) -> str:
    """A record's time for a reader, in UTC."""
    return f"{time[:10]} {time[11:16]} UTC" if len(time) >= 16 else time


def how(call: ToolEntry) -> str:
    """What was decided about a call and how it ended."""
    decided = decision_words(call.decision, call.by)
    ended = f"{call.outcome} in {call.duration_ms} ms" if call.duration_ms and call.outcome else call.outcome
    parts = [decided, "" if call.outcome == "rejected" else ended or "no result"]
    return ", ".join(p for p in parts if p)


def decision_text(call: ToolEntry) -> str:
    """What the user said when they decided."""
    return call.reason if call.by == "person" else ""


def diffs_of(call: ToolEntry) -> tuple[Diff, ...]:
    """The changes to files that a call made."""
    match call.display:
        case Diff() as diff:
            return (diff,)
        case Diffs(files=files):
            return files
    return ()


def steps(call: ToolEntry) -> list[str]:
    """The plan that a call wrote down."""
    marks = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
    items = call.display.items if isinstance(call.display, TodoView) else ()
    return [f"{marks[item.status]} {item.content}" for item in items]


def arguments_text(call: ToolEntry) -> str:
    """What the call was given, unless its result shows that better; JSON, but the one text of a command as it is."""
    if diffs_of(call) or steps(call):
        return ""
    if set(call.arguments) <= {"command", "description"} and isinstance(call.arguments.get("command"), str):
        return str(call.arguments["command"])
    return json.dumps(call.arguments, indent=2, ensure_ascii=False) if call.arguments else ""
