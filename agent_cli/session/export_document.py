"""Read a session's records into a `Document`, the source of every export format.

Also the labels that all formats share.
"""

from __future__ import annotations

import json
from typing import Any

from agent_cli.core.events import (
    ApprovalResolved,
    Compacted,
    Event,
    MessageAdded,
    QuestionAnswered,
    Rewound,
    SessionNamed,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    TurnFinished,
    Uncompacted,
    Warned,
    events_by_tag,
)
from agent_cli.core.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    is_synthetic,
    user_text,
    without_note,
)
from agent_cli.core.results import Usage
from agent_cli.core.window import compacted_line, uncompacted_line
from agent_cli.session.records import Header, SessionNotFoundError
from agent_cli.session.restore import records
from agent_cli.session.timeline import decision_words
from agent_tools.record import DecodeError, Value, from_json
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


_KINDS = events_by_tag(
    "ApprovalResolved Compacted MessageAdded QuestionAnswered Rewound SessionNamed SubagentEvent ToolFinished "
    "ToolRequested TurnFinished Uncompacted Warned"
)


class _DocumentBuilder:
    """Collects the entries. A call's entry is where it was requested; later events complete it."""

    def __init__(self) -> None:
        self.entries: list[Entry | str] = []
        self.calls: dict[str, ToolEntry] = {}
        self.inner: dict[str, list[str]] = {}
        self._open: dict[str, str] = {}
        self._messages: list[str] = []
        self.name = ""
        self.usage = Usage()

    def apply(self, event: Event, time: str, task: str = "") -> None:
        if isinstance(event, MessageAdded) and not task:
            self._messages.append(event.message.text)
        match event:
            case MessageAdded(message=UserMessage(text=text, media=media)) if not task:
                self.entries.append(UserEntry(without_note(text), time, len(media)))
            case MessageAdded(message=AssistantMessage() as message) if not task:
                self._add_answer(message, time)
            case MessageAdded(message=ToolMessage(call_id=call_id, text=text, is_error=is_error)):
                self._finish(call_id, text, is_error=is_error)
            case ToolRequested(call_id=call_id, tool=tool, arguments=arguments, summary=summary):
                self._begin(ToolEntry(call_id, tool, summary, arguments, time), task)
            case ApprovalResolved(call_id=call_id, decision=decision, by=by, reason=reason, user=user):
                self._change(call_id, decision=decision, by=by, user=user, reason=reason)
            case QuestionAnswered(call_id=call_id, verdict=verdict, by=by, text=text, user=user):
                self._change(call_id, decision=verdict, by=by, user=user, reason=text)
            case ToolFinished(call_id=call_id, duration_ms=duration, display=display):
                self._change(call_id, duration_ms=duration, display=display)
            case SubagentEvent(call_id=call_id, event=inner):
                self.apply(inner, time, call_id)
            case SessionNamed(name=name, usage=usage):
                self.name, self.usage = name, self.usage + usage
            case Compacted() if not task:
                self.entries.append(NoteEntry(compacted_line(event), time))
                self.usage += event.usage if event.trigger == "manual" else Usage()
            case Uncompacted() if not task:
                self.entries.append(NoteEntry(uncompacted_line(event), time))
            case Rewound(messages=messages):
                there = "".join(self._messages[messages : messages + 1])
                del self._messages[messages:]
                self.entries.append(NoteEntry(f"the user went back to before: {shorten(user_text(there), 80)}", time))
            case Warned(text=text):
                self.entries.append(NoteEntry(f"warning: {text}", time))
            case TurnFinished() if not task:
                self.usage += event.usage
                if event.result != "Complete" or event.degraded:
                    why = event.failure.message if event.failure else event.text
                    how = event.diagnostics.terminal_reason
                    self.entries.append(NoteEntry(f"{how}: {why}" if why else how, time))

    def _add_answer(self, message: AssistantMessage, time: str) -> None:
        thinking = "\n\n".join(p.text for p in message.parts if isinstance(p, Thinking) and p.text)
        text = "".join(p.text for p in message.parts if isinstance(p, Text))
        if text.strip() or thinking:
            self.entries.append(AssistantEntry(text, time, thinking))
        for call in message.calls:
            self._begin(ToolEntry(call.id, call.name, call.name, call.arguments, time), "")

    def _begin(self, call: ToolEntry, task: str) -> None:
        """Add a call, or update it: the message that requests it comes first, its summary later."""
        key = self._open.get(call.call_id)
        if key is not None and not self.calls[key].outcome:
            self.calls[key] = self.calls[key].replace(summary=call.summary, tool=call.tool, arguments=call.arguments)
            return
        # Ids may repeat: some providers restart counting in every answer.
        key = f"{call.call_id} {len(self.calls)}"
        self._open[call.call_id] = key
        self.calls[key] = call
        if task:
            self.inner.setdefault(self._open.get(task, task), []).append(key)
        else:
            self.entries.append(key)

    def _finish(self, call_id: str, text: str, *, is_error: bool) -> None:
        key = self._open.get(call_id)
        if key is not None:
            rejected = self.calls[key].decision == "reject"
            outcome = "rejected" if rejected else "failed" if is_error else "done"
            self.calls[key] = self.calls[key].replace(text=text, outcome=outcome)

    def _change(self, call_id: str, **changes: Any) -> None:
        if (key := self._open.get(call_id)) is not None:
            self.calls[key] = self.calls[key].replace(**changes)

    def end(self) -> tuple[Entry, ...]:
        return tuple(self._whole(e) if isinstance(e, str) else e for e in self.entries)

    def _whole(self, key: str) -> ToolEntry:
        return self.calls[key].replace(inner=tuple(self._whole(k) for k in self.inner.get(key, ()) if k != key))


def build_document(data: bytes, name: str) -> Document:
    """Build the document of a log. Raises SessionNotFoundError if nothing can be read."""
    good, bad = records(data)
    telling = _DocumentBuilder()
    header = Header(name, "", "", "", "", (), "")
    for record in good:
        try:
            if record["type"] == "Header":
                header = from_json(Header, record["data"])
            elif (cls := _KINDS.get(record["type"])) is not None:
                telling.apply(from_json(cls, record["data"]), record["time"])
        except DecodeError:
            bad += 1
    if not good:
        raise SessionNotFoundError(f"Nothing of session {name} can be read.")
    return Document(header, telling.name, good[0]["time"], good[-1]["time"], telling.usage, telling.end(), bad)


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
