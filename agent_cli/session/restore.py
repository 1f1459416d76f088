"""From the records of a log back to a session: history, what the model has seen, the plan, and what waits."""

from __future__ import annotations

from typing import Any

from agent_cli.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Event,
    MessageAdded,
    Pinned,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    ToolFinished,
    TurnFinished,
    TurnPaused,
    TurnStarted,
    Uncompacted,
    UsageAdded,
)
from agent_cli.core.messages import Message, ToolMessage, pending_calls
from agent_cli.core.outcome import Diagnostics
from agent_cli.core.usage import Usage
from agent_cli.core.window import Window
from agent_cli.session.log import unsealed
from agent_cli.session.records import Header, Restored, Waiting
from agent_tools.display import TodoItem
from agent_tools.shell_state import Carried
from agent_tools.values import Mismatch, from_plain

# Records that carry state; the others are for people and tools that read the log.
_STATEFUL: tuple[Any, ...] = (
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    MessageAdded,
    Pinned,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    ToolFinished,
    TurnFinished,
    TurnPaused,
    TurnStarted,
    Uncompacted,
    UsageAdded,
)
_KINDS: dict[str, Any] = {c.__name__: c for c in _STATEFUL}


class NoSession(Exception):
    """There is no such session, or more than one fits; the message says so."""


class _State:
    """What the records read so far add up to."""

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.window = Window()
        self.nested_windows: dict[str, Window] = {}
        self.seen: dict[str, str] = {}
        self.plan: tuple[TodoItem, ...] = ()
        self.usage = Usage()
        self.last: Diagnostics | None = None
        self.started = TurnStarted("", "")
        self.paused: TurnPaused | None = None
        self.grants: list[str] = []
        self.requests: dict[str, ApprovalRequested] = {}
        self.questions: dict[str, QuestionAsked] = {}
        self.decisions: dict[str, ApprovalResolved] = {}
        self.answers: dict[str, QuestionAnswered] = {}
        self.asked_at = ""
        self.nested: dict[str, list[Message]] = {}
        self.nested_seen: dict[str, dict[str, str]] = {}
        self.shell: Carried | None = None
        self.nested_shell: dict[str, Carried] = {}

    def take(self, event: Event, time: str) -> None:
        match event:
            case MessageAdded(message=message):
                self.history.append(message)
                if isinstance(message, ToolMessage):
                    self._forget(message.call_id)
            case ToolFinished(seen=seen, shell=shell):
                self.seen |= seen
                self.shell = shell or self.shell
            case PlanChanged(items=items):
                self.plan = items
            case Compacted() | Uncompacted() | Pinned():
                self._seen_otherwise(event)
            case UsageAdded(usage=usage, aside=False):
                self.window.reported(usage, len(self.history) + 1)
            case TurnStarted():
                self.started, self.paused, self.last = event, None, None
            case TurnPaused():
                self.paused = event
            case TurnFinished(usage=usage, diagnostics=diagnostics):
                self.usage, self.last = self.usage + usage, diagnostics
            case ApprovalRequested(call_id=call_id):
                self.requests[call_id] = event
                # A review before this call was answered; now the call itself is asked about.
                self.questions.pop(call_id, None)
                self.answers.pop(call_id, None)
                self.decisions.pop(call_id, None)
                self.asked_at = time
            case ApprovalResolved():
                self._decided(event)
            case QuestionAsked(call_id=call_id):
                self.questions[call_id] = event
                self.asked_at = time
            case QuestionAnswered(call_id=call_id, verdict=verdict):
                if verdict != "defer":
                    self.answers[call_id] = event
            case SubagentEvent(call_id=call_id, event=inner):
                self._take_nested(call_id, inner, time)

    def _seen_otherwise(self, event: Compacted | Uncompacted | Pinned) -> None:
        """The model is shown something else of the history than before."""
        self.window.take(event, len(self.history))
        if isinstance(event, Compacted):
            self.seen |= event.seen
            # What it cost is part of a turn's usage, unless the person asked for it between turns.
            self.usage += event.usage if event.trigger == "manual" else Usage()

    def _take_nested(self, call_id: str, event: Event, time: str) -> None:
        """A sub-agent's history is kept until its Task call is answered; what it asks waits like any other call."""
        match event:
            case MessageAdded(message=message):
                self.nested.setdefault(call_id, []).append(message)
                if isinstance(message, ToolMessage):
                    self._forget(message.call_id)
            case ToolFinished(seen=seen, shell=shell):
                self.nested_seen.setdefault(call_id, {}).update(seen)
                if shell is not None:
                    self.nested_shell[call_id] = shell
            case Compacted():
                self.nested_windows.setdefault(call_id, Window()).take(event, len(self.nested.get(call_id, ())))
            case SubagentEvent(call_id=deeper, event=inner):
                self._take_nested(deeper, inner, time)
            case ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered():
                self.take(event, time)

    def _decided(self, event: ApprovalResolved) -> None:
        """A person's decision about what was shown; deferring is none."""
        if event.by == "person" and event.decision != "defer":
            self.decisions[event.call_id] = event
            if event.rule and event.decision == "approve":
                self.grants.append(event.rule)

    def _forget(self, call_id: str) -> None:
        for kept in (self.requests, self.questions, self.decisions, self.answers, self.nested, self.nested_windows):
            kept.pop(call_id, None)

    def waiting(self) -> Waiting | None:
        calls = pending_calls(self.history)
        if not calls or self.paused is None:
            return None
        return Waiting(
            calls=calls,
            requests=dict(self.requests),
            questions=dict(self.questions),
            decisions=dict(self.decisions),
            answers=dict(self.answers),
            spent=self.paused.spent,
            mode=self.paused.mode,
            grants=tuple(self.grants),
            saved=self.started.saved,
            asked_at=self.asked_at,
            kept=self.paused.kept,
            nested_seen=dict(self.nested_seen),
            nested_shell=dict(self.nested_shell),
            nested={call_id: tuple(messages) for call_id, messages in self.nested.items()},
            nested_compactions={i: tuple(w.compactions) for i, w in self.nested_windows.items()},
        )


def records(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The good records of a log, in order, and how many lines were damaged."""
    good: list[dict[str, Any]] = []
    bad = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        record = unsealed(line)
        if record is None:
            bad += 1
        else:
            good.append(record)
    return good, bad


def event_of(record: dict[str, Any]) -> Event | None:
    """The event of a record; None for the header and for kinds that carry no state. Raises Mismatch."""
    cls = _KINDS.get(record["type"])
    found: Event | None = from_plain(cls, record["data"]) if cls else None
    return found


def restore(data: bytes, name: str) -> Restored:
    """Rebuild a session from the bytes of its log; damaged records are skipped and counted. Raises NoSession."""
    good, bad = records(data)
    state = _State()
    header: Header | None = None
    for record in good:
        try:
            if record["type"] == "Header":
                header = from_plain(Header, record["data"])
            elif (event := event_of(record)) is not None:
                state.take(event, record["time"])
        except Mismatch:
            bad += 1
    if header is None:
        raise NoSession(f"Session {name} has no readable header.")
    return Restored(
        header=header,
        history=tuple(state.history),
        seen=state.seen,
        plan=state.plan,
        shell=state.shell,
        usage=state.usage,
        last=state.last,
        seq=good[-1]["seq"],
        parent=good[-1]["id"],
        created=good[0]["time"],
        updated=good[-1]["time"],
        bad=bad,
        waiting=state.waiting(),
        model=state.started.model or header.model,
        compactions=tuple(state.window.compactions),
        pins=tuple(state.window.pins),
        report=state.window.report,
    )
