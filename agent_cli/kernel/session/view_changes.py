"""What changes in a session's view, as JSON: what a front end in another language draws, without an event of its own.

A change is an object with a `type`:

- `reset`: what was shown is void, and the view follows from its entry `first` on.
- `entry`: the entry with this `key` is new or has changed. `entry` is all of it, with a `kind`: user, answer, call,
  note or end. Keys count from 0. That of an entry of a sub-agent begins with the key of its call: "12/0".
- `draft`: the answer under way, whole; empty once it is an entry, or void. `text` and `thinking` add a piece to it.
- `output`: a piece of what the running call with this key prints.
- `plan`, `usage`, `turn`: the plan, what was used, how the latest turn stands.

Summaries, commands, paths and patches have characters that look like others written out, as in a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from agent_cli.kernel.events import ApprovalResolved, Event, TurnFinished
from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, UserMessage
from agent_cli.kernel.result_words import short_result
from agent_cli.kernel.session.view import SessionView, ViewWatch
from agent_cli.kernel.session.view_entries import CallView, EntryView, MessageView, NoteView
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import to_json
from agent_tools.results import CommandOutput, Diff, Diffs, Display, FileView, Media
from agent_tools.text import counted, dollars, one_line, short_count, short_duration, shorten, tokens_used

Change = dict[str, Any]
# Calls that a snapshot has of a sub-agent: the newest are what matters while it works.
_MAX_NESTED = 200
# What the model reads of a change that was made in part.
_TAKEN = re.compile(r"took (\d+) of the (\d+) parts")
_ANSWERED = {"approve": "Approved", "revise": "Changes requested", "undo": "Undone", "cancel": "Cancelled"}


class ViewChanges:
    """The view of a session, and what its events change."""

    def __init__(self) -> None:
        self._watch = ViewWatch()
        self.view = SessionView(watch=self._watch)
        self._draft, self._pieces = self.view.draft, 0
        self._facts = facts_of(self.view)

    def apply(self, event: Event, time: str = "") -> list[Change]:
        """Take the next event; return what it changes."""
        self.view.apply(event, time)
        return self.take()

    def take(self) -> list[Change]:
        """Return what has changed in the view since this was called last. Pieces of one text are joined."""
        changes: list[Change] = []
        draft = self.view.draft
        if draft is not self._draft:
            self._draft, self._pieces = draft, 0
            changes.append({"type": "draft", "text": "", "thinking": ""})
        for kind, pieces in groupby(draft.pieces[self._pieces :], itemgetter(0)):
            changes.append({"type": kind, "text": "".join(text for _, text in pieces)})
        self._pieces = len(draft.pieces)
        for call, printed in groupby(self._watch.output, itemgetter(0)):
            changes.append({"type": "output", "key": call.key, "text": "".join(text for _, text in printed)})
        changes += _changed(self._watch.entries)
        changes += self._changed_facts()
        self._watch.output.clear()
        self._watch.entries.clear()
        return changes

    def _changed_facts(self) -> list[Change]:
        """Return the facts about the session that are not as they were said last."""
        now = facts_of(self.view)
        changed = {name: fact for name, fact in now.items() if self._facts[name] != fact}
        self._facts = now
        return [{"type": name, name: fact} for name, fact in changed.items()]

    def snapshot(self, newest: int) -> list[Change]:
        """Return the view as changes to an empty one, with its newest entries; `first` is the key of the first."""
        first = max(0, len(self.view.entries) - newest)
        draft = {"type": "draft", **{kind: self.view.draft.join(kind) for kind in ("text", "thinking")}}
        facts = [{"type": name, name: fact} for name, fact in facts_of(self.view).items()]
        return [{"type": "reset", "first": first}, *self.entries(first, len(self.view.entries)), *facts, draft]

    def entries(self, first: int, end: int) -> list[Change]:
        """Return some entries, each with those of its sub-agent."""
        return list(_changed(_with_nested(self.view.entries[first:end])))


def facts_of(view: SessionView) -> dict[str, Any]:
    """Return the plan, the usage and the turn of a view."""
    turn, usage = view.turn, view.usage
    return {
        "plan": [to_json(item) for item in view.plan],
        "usage": {"cost": usage.cost, "reliable": usage.reliable, "input": usage.input, "output": usage.output},
        "turn": {
            "running": turn is not None and turn.started and (turn.finished is None or turn.resumed),
            "round": turn.round if turn is not None else 0,
            "mode": turn.mode if turn is not None else "",
            "model": turn.model if turn is not None else "",
        },
    }


def _with_nested(entries: list[EntryView]) -> Iterator[EntryView]:
    for entry in entries:
        yield entry
        if isinstance(entry, CallView) and entry.nested is not None:
            yield from _with_nested(entry.nested.entries[-_MAX_NESTED:])


def _changed(entries: Iterable[EntryView]) -> Iterator[Change]:
    for entry in entries:
        if (shown := entry_json(entry)) is not None:
            yield {"type": "entry", "key": entry.key, "entry": shown}


def entry_json(entry: EntryView) -> dict[str, Any] | None:
    """Return an entry as JSON data; None for one that is not for a reader."""
    if isinstance(entry, CallView):
        return _call(entry)
    if isinstance(entry, NoteView):
        return _note(entry)
    return _message(entry)


def _message(view: MessageView) -> dict[str, Any] | None:
    message = view.message
    if isinstance(message, UserMessage):
        text = message.words if message.from_user else ""
        if "/" in view.key or not (text or message.media):
            return None  # of a sub-agent: the prompt, which its call has
        return {"kind": "user", "text": text, "media": _media(message.media), "time": view.time}
    assert isinstance(message, AssistantMessage)
    parts = [
        {"type": "thinking" if isinstance(part, Thinking) else "text", "text": part.text}
        for part in message.parts
        if isinstance(part, Text | Thinking) and part.text.strip()
    ]
    return {"kind": "answer", "parts": parts, "time": view.time} if parts else None


def _media(media: Iterable[Media]) -> list[dict[str, Any]]:
    return [{"mime": each.mime, "name": each.name, "data": each.data} for each in media]


def _note(note: NoteView) -> dict[str, Any] | None:
    nested = "/" in note.key
    if (end := note.end) is not None:
        # A turn that waits shows its question; one of a sub-agent, its result.
        return None if nested or end.result == "Suspended" else _end(note, end)
    if nested and note.kind == "warning":
        return None  # it is said in the session itself, too
    text = note.text
    if note.kind == "rewind":
        text = "the conversation was rewound to an earlier message; what follows starts from there"
    return {
        "kind": "note",
        "text": text[:1].upper() + text[1:],
        "style": "dim" if note.kind in ("info", "window") else "warn",
        "more": note.more,
    }


def _end(note: NoteView, event: TurnFinished) -> dict[str, Any]:
    if event.failure is not None:
        return {"kind": "note", "text": event.failure.message, "style": "bad", "more": ""}
    if event.diagnostics.terminal_reason in ("interrupted", "cancelled"):
        text = "Interrupted. Say what to do instead, or continue."
        return {"kind": "note", "text": text, "style": "warn", "more": ""}
    if event.result == "MaxIterations":
        text = f"{note.text[:1].upper()}{note.text[1:]}. Say “continue” to go on."
        return {"kind": "note", "text": text, "style": "warn", "more": ""}
    took, used = event.diagnostics.duration_ms / 1000, event.usage
    words = (
        short_duration(took) if took >= 1 else "",
        tokens_used(used.input, used.output),
        dollars(used.cost) if used.cost else "",
        event.verified,
    )
    return {"kind": "end", "text": " · ".join(filter(None, words))}


def _call(call: CallView) -> dict[str, Any] | None:
    asked = call.asked
    if not call.requested and asked is None and call.result is None and call.nested is None:
        return None  # the model has asked for it, and its arguments have not been checked
    display = call.finished.display if call.finished is not None else None
    # A review is asked before its call, which it has the line of until then.
    title = str(asked.data.get("title") or "") if asked is not None and not call.requested else ""
    plan = str(asked.data.get("plan") or "") if asked is not None and asked.kind == "plan" else ""
    result = call.result
    return {
        "kind": "call",
        "call_id": call.call_id,
        "tool": call.tool,
        "summary": escape_lookalikes(one_line(title or call.summary)),
        "status": call.status,
        "brief": _brief(call, display),
        "decision": decision_line(call),
        "arguments": call.arguments,
        "plan": plan,
        "display": _display(display),
        # Of what a display shows in full, the text for the model says nothing more.
        "result": result.text if result is not None and (display is None or isinstance(display, FileView)) else "",
        "media": _media(result.media) if result is not None else [],
        "output": call.output,
        "nested": call.nested is not None,
        "agent": call.agent,
        "time": call.time,
    }


def _brief(call: CallView, display: Display | None) -> str:
    """Return what came of a call in a few words."""
    status = call.status
    if status in ("waiting", "stopped"):
        return "waiting" if status == "waiting" else "stopped"
    if call.nested is not None:
        calls, usage = sum(1 for _ in call.nested.own_calls()), call.nested.usage
        tokens = usage.input + usage.output
        took = short_duration(call.finished.duration_ms / 1000) if call.finished is not None else ""
        if call.nested.background:
            last = next((each.summary for each in reversed([*call.nested.own_calls()])), "")
            took = shorten(one_line(last), 60) if call.nested.at_work else ""
        return " · ".join(
            filter(
                None, (counted(calls, "call") if calls else "", f"{short_count(tokens)} tokens" * bool(tokens), took)
            )
        )
    if status == "denied":
        return "" if call.by == "person" else "denied"
    if status not in ("done", "failed"):
        return ""
    words = _change_size(call.diffs) or one_line(short_result(display))
    if not words and status == "failed" and call.result is not None:
        words = shorten(call.result.text.partition("\n")[0])
    # The line of an edit often says its size already.
    return "" if words == "0s" or words in call.summary else words


def _change_size(diffs: tuple[Diff, ...]) -> str:
    if not diffs:
        return ""
    size = f"+{sum(diff.added for diff in diffs)} -{sum(diff.removed for diff in diffs)}"
    return size if len(diffs) == 1 else f"{counted(len(diffs), 'file')}, {size}"


def decision_line(call: CallView) -> str:
    """Return what was decided about a call, by whom and with which comment; "" for nothing worth showing."""
    if call.asks or call.answer is None or call.decision == "defer":
        return ""
    said = f": {call.reason.strip()}" if call.reason.strip() else ""
    by = f" by {escape_lookalikes(one_line(call.user))}" if call.user else ""
    if not isinstance(call.answer, ApprovalResolved):
        return f"{_ANSWERED.get(call.decision, 'Answered')}{by}{said}"
    if call.decision == "reject":
        if call.by != "person":
            return f"Denied: it {call.reason}" if call.reason else "Denied by the settings"
        return f"Rejected{by}{said}"
    return f"Allowed{by}{_changed_by_user(call.answer)}{_lasting(call.answer)}{said}" if call.by == "person" else ""


def _changed_by_user(answer: ApprovalResolved) -> str:
    """Return what the user changed of a call before it ran, in words."""
    if answer.arguments is None:
        return ""
    taken = _TAKEN.search(answer.change)
    return f", {taken[1]} of {taken[2]} changes" if taken else ", with other arguments"


def _lasting(answer: ApprovalResolved) -> str:
    if answer.mode:
        return ", and all edits this session" if answer.mode == "acceptEdits" else f", in the mode {answer.mode}"
    where = {"project": " in this project", "schedule": " in this schedule"}.get(answer.scope, "")
    return f", always{where}: {escape_lookalikes(one_line(answer.rule))}" if answer.rule else ""


def _display(display: Display | None) -> dict[str, Any] | None:
    """Return a display as JSON data, with what it shows of files and commands written out."""
    if isinstance(display, Diff):
        return {"type": "files", "files": [file_json(display)]}
    if isinstance(display, Diffs):
        return {"type": "files", "files": [file_json(each) for each in display.files]}
    if display is None:
        return None
    data: dict[str, Any] = to_json(display)
    if isinstance(display, CommandOutput):
        data["command"] = escape_lookalikes(display.command)
    return data


def file_json(diff: Diff) -> dict[str, Any]:
    """Return a change of a file to show."""
    return {
        "path": escape_lookalikes(one_line(diff.path)),
        "patch": escape_lookalikes(diff.patch),
        "added": diff.added,
        "removed": diff.removed,
        "what": "new" if diff.created else "deleted" if diff.deleted else "",
    }
