"""Read a session's records into a `Document`, the source of every export format.

Also the labels that all formats share.
"""

from __future__ import annotations

import json
from typing import Any

from agent_cli.kernel.messages import Text, Thinking, UserMessage, is_synthetic, user_text, without_note
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.session.timeline import decision_words
from agent_cli.kernel.session.view import SessionView
from agent_cli.kernel.session.view_entries import CallView, EntryView, NoteView
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs, Display, TodoView
from agent_tools.text import counted, shorten


class UserEntry(Value, tag="Said"):
    """A message of the user, or of the program on their behalf.

    shown: number of images and documents attached.
    """

    text: str
    time: str
    shown: int = 0


class AssistantEntry(Value, tag="Answer"):
    """An answer of the model, with its thinking if the provider reports it."""

    text: str
    time: str
    thinking: str = ""


class ToolEntry(Value, tag="Done"):
    """A tool call.

    outcome: "done", "failed", "rejected", or "" while it is open.
    inner: calls of its sub-agent.
    """

    call_id: str
    tool: str
    summary: str
    arguments: dict[str, Any]
    time: str
    decision: str = ""
    by: str = ""
    user: str = ""
    reason: str = ""
    outcome: str = ""
    text: str = ""
    duration_ms: int = 0
    display: Display | None = None
    inner: tuple["ToolEntry", ...] = ()  # noqa: UP037 - resolved when it is read back


class NoteEntry(Value, tag="Remark"):
    """A note of the program: a warning, the end of a turn, a compaction, a rewind."""

    text: str
    time: str


Entry = UserEntry | AssistantEntry | ToolEntry | NoteEntry


class Document(Value, tag="Told"):
    """A whole session.

    bad: number of damaged records that were skipped.
    """

    header: Header
    name: str
    created: str
    updated: str
    usage: Usage
    entries: tuple[Entry, ...]
    bad: int = 0


def build_document(data: bytes, name: str) -> Document:
    """Build the document of a log. Raises SessionNotFoundError if nothing can be read."""
    view = SessionView.of_log(data)
    if not view.created:
        raise SessionNotFoundError(f"Nothing of session {name} can be read.")
    header = view.header or Header(name, "", "", "", "", (), "")
    entries = tuple(entry for each in view.entries if (entry := _entry(each)) is not None)
    return Document(header, view.name, view.created, view.updated, view.usage, entries, view.bad)


def _entry(view: EntryView) -> Entry | None:
    if isinstance(view, CallView):
        return _tool_entry(view)
    if isinstance(view, NoteView):
        if view.kind in ("info", "complete"):
            return None
        lead = {"warning": "warning: ", "rewind": "the user went back to before: "}.get(view.kind, "")
        return NoteEntry(lead + (shorten(view.text, 80) if view.kind == "rewind" else view.text), view.time)
    if isinstance(message := view.message, UserMessage):
        return UserEntry(message.typed or without_note(message.text), view.time, len(message.media))
    thinking = "\n\n".join(p.text for p in message.parts if isinstance(p, Thinking) and p.text)
    text = "".join(p.text for p in message.parts if isinstance(p, Text))
    return AssistantEntry(text, view.time, thinking) if text.strip() or thinking else None


def _tool_entry(call: CallView) -> ToolEntry:
    done = call.finished
    return ToolEntry(
        call.call_id,
        call.tool,
        call.summary,
        call.arguments,
        call.time,
        call.decision,
        call.by,
        call.user,
        call.reason,
        call.outcome,
        call.result.text if call.result is not None else "",
        done.duration_ms if done is not None else 0,
        done.display if done is not None else None,
        tuple(map(_tool_entry, call.nested.own_calls() if call.nested is not None else ())),
    )


def title_of(session: Document) -> str:
    """Return a one-line title."""
    first = next((user_text(e.text) for e in session.entries if isinstance(e, UserEntry)), "")
    return session.name or " ".join(first[:400].split())[:80] or f"session {session.header.session_id}"


def document_facts(session: Document) -> list[tuple[str, str]]:
    """Return the known header facts of a document as (name, value) pairs."""
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


def speaker_heading(entry: UserEntry) -> str:
    """Return the heading of a user entry: the user, or a note of the program."""
    return "Note to the model" if is_synthetic(entry.text) else "You"


def format_time(time: str) -> str:
    """Format a record's time for display, in UTC."""
    return f"{time[:10]} {time[11:16]} UTC" if len(time) >= 16 else time


def how(call: ToolEntry) -> str:
    """Describe the decision about a call and its outcome."""
    decided = decision_words(call.decision, call.by, call.user)
    ended = f"{call.outcome} in {call.duration_ms} ms" if call.duration_ms and call.outcome else call.outcome
    parts = [decided, "" if call.outcome == "rejected" else ended or "no result"]
    return ", ".join(p for p in parts if p)


def decision_text(call: ToolEntry) -> str:
    """Return the reason the user gave with a decision."""
    return call.reason if call.by == "person" else ""


def diffs_of(call: ToolEntry) -> tuple[Diff, ...]:
    """Return the file changes a call made."""
    match call.display:
        case Diff() as diff:
            return (diff,)
        case Diffs(files=files):
            return files
    return ()


def steps(call: ToolEntry) -> list[str]:
    """Return the plan a call wrote, as checklist lines."""
    marks = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
    items = call.display.items if isinstance(call.display, TodoView) else ()
    return [f"{marks[item.status]} {item.content}" for item in items]


def arguments_text(call: ToolEntry) -> str:
    """Return a call's arguments as JSON, a command as plain text; "" if the result shows them better."""
    if diffs_of(call) or steps(call):
        return ""
    if set(call.arguments) <= {"command", "description"} and isinstance(call.arguments.get("command"), str):
        return str(call.arguments["command"])
    return json.dumps(call.arguments, indent=2, ensure_ascii=False) if call.arguments else ""
