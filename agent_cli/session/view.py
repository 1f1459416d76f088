"""What happened in a session: the one place that folds its events.

`SessionView` takes the events of a log or of a running turn, in order, and has the session as turns, calls and notes.
Exports, reports, `agent show` and lists are projections of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from agent_cli.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Event,
    FirstChunk,
    HookFinished,
    MessageAdded,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    Rewound,
    RoundStarted,
    SessionNamed,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Uncompacted,
    UsageAdded,
    Warned,
    events_by_tag,
)
from agent_cli.core.hooks import HOOK_EVENTS
from agent_cli.core.messages import AssistantMessage, ToolMessage, UserMessage, is_synthetic, user_text
from agent_cli.core.results import Usage
from agent_cli.core.window import compacted_line, uncompacted_line
from agent_cli.session.records import Header
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError, from_json
from agent_tools.results import Diff, Diffs, TodoItem

with lazy_imports():
    from agent_cli.session import restore  # to read a log

KINDS = events_by_tag(
    "ApprovalRequested ApprovalResolved Compacted HookRan MessageAdded PlanChanged QuestionAnswered QuestionAsked "
    "Rewound RoundStarted SessionNamed SubagentEvent ToolFinished ToolRequested ToolStarted TurnFinished TurnStarted "
    "Uncompacted UsageAdded Warned"
)
_BEFORE_MESSAGE = frozenset(row.name for row in HOOK_EVENTS.values() if row.before_message)
# How a turn ended, where the reason's own name does not say it.
_ENDS = {
    "await_approval": "waiting for approval",
    "await_user_input": "waiting for an answer",
    "max_rounds": "stopped at the limit of model calls",
    "max_duration": "stopped at the time limit",
    "max_tool_calls": "stopped at the limit of tool calls",
    "max_cost": "stopped at the budget",
    "max_failures": "stopped after too many failures",
    "max_denials": "stopped after too many denials",
    "max_output_tokens": "stopped at the length limit of an answer",
}
_UNDONE = "undone: the user continued from before this"
Outcome = Literal["", "done", "failed", "rejected"]
NoteKind = Literal["warning", "window", "rewind", "end"]


class CallView:
    """A tool call, the decision about it, and what came of it.

    agent: the type of the sub-agent that made it; "" for the session's own.
    requested: it passed the checks of its arguments, so `summary` is a sentence and not only the tool's name.
    decision, by, user, reason: the latest decision of a rule, a mode, a hook or a user; verdict: all of it.
    asks: the question about it is open.
    finished: how the tool ended; result: what the model got, also of a call that was rejected.
    nested: what its sub-agent did; None without one.
    """

    def __init__(self, call_id: str, tool: str, arguments: dict[str, Any], time: str) -> None:
        self.call_id, self.tool, self.arguments, self.time = call_id, tool, arguments, time
        self.summary = tool
        self.agent, self.round = "", 0
        self.requested = self.started = False
        self.question: ApprovalRequested | QuestionAsked | None = None
        self.decision = self.by = self.user = self.reason = self.decided = ""
        self.asks = False
        self.verdict: ApprovalResolved | QuestionAnswered | None = None
        self.finished: ToolFinished | None = None
        self.result: ToolMessage | None = None
        self.nested: SessionView | None = None

    @property
    def outcome(self) -> Outcome:
        """What the model was told; "" while the call is open."""
        if self.result is None:
            return ""
        return "rejected" if self.decision == "reject" else "failed" if self.result.is_error else "done"

    @property
    def ran(self) -> Literal["", "done", "failed"]:
        """How the tool itself ended; "" if it did not run, or runs."""
        return "" if self.finished is None else "failed" if self.finished.is_error else "done"

    @property
    def diffs(self) -> tuple[Diff, ...]:
        """The files that it changed."""
        display = self.finished.display if self.finished is not None else None
        return display.files if isinstance(display, Diffs) else (display,) if isinstance(display, Diff) else ()


class MessageView:
    """A message of the user, or of the program on their behalf, or an answer of the model.

    uuids: IDs under which a host sent it.
    calls, usage: of an answer. effort: how hard the model was told to think. first: its beginning, while it is watched.
    """

    def __init__(self, message: UserMessage | AssistantMessage, time: str, uuids: tuple[str, ...]) -> None:
        self.message, self.time, self.uuids = message, time, uuids
        self.effort = ""
        self.round = 0
        self.calls: list[CallView] = []
        self.usage = Usage()
        self.first: FirstChunk | None = None


class NoteView:
    """A note of the program: a warning, a compaction, a rewind, or how a turn ended if it did not complete."""

    def __init__(self, text: str, time: str, kind: NoteKind, event: Event) -> None:
        self.text, self.time, self.kind, self.event = text, time, kind, event


EntryView = MessageView | CallView | NoteView


class TurnView:
    """A turn: what was asked, its calls, and how it ended.

    before: number of messages in the history when it began.
    copied: it ran in the session that this one was forked from.
    calls: in order, each once. added: messages that the user sent while it ran.
    usage: of all model calls up to the next turn, which includes titles, compactions and side questions.
    finished: how its latest part ended; None before that. decided: of what it waited for, something was decided since.
    resumed: it has started again since it was suspended.
    """

    def __init__(self, query: str, time: str, before: int) -> None:
        self.query, self.time, self.before = query, time, before
        self.model = self.mode = ""
        self.started = self.copied = self.resumed = False
        self.round = 0
        self.calls: dict[CallView, None] = {}
        self.added: list[MessageView] = []
        self.usage = Usage()
        self.warnings: list[str] = []
        self.hooks: list[HookFinished] = []
        self.notes: list[str] = []
        self.finished: TurnFinished | None = None
        self.decided = False

    @property
    def waits(self) -> bool:
        """True if its message is there, and nothing else yet."""
        return not self.started and not self.copied and self.finished is None

    @property
    def running(self) -> bool:
        """True until it has ended; a suspended turn goes on later."""
        return self.finished is None or self.finished.result == "Suspended"


class SessionView:
    """A session as its events tell it.

    entries: what was said and done, in order. turns: the same, by turn.
    models: usage by model, in order of first use. own_usage: of its model calls without those of sub-agents.
    ends: how each part of a turn ended.
    agent: the type of the sub-agent whose conversation this is; "" for a session. begun: the types of sub-agents, in
        the order in which they began, each with its call.
    bad: records that could not be read.
    """

    def __init__(self, agent: str = "") -> None:
        self.agent = agent
        self.header: Header | None = None
        self.name = self.created = self.updated = ""
        self.entries: list[EntryView] = []
        self.turns: list[TurnView] = []
        self.plan: tuple[TodoItem, ...] = ()
        self.models: dict[str, Usage] = {}
        self.ends: list[TurnFinished] = []
        self.begun: list[CallView] = []
        self.bad = 0
        self._texts: list[str] = []
        self._effort = ""
        self._open: dict[str, CallView] = {}
        self._early: list[HookFinished] = []
        # A message during a turn, which begins one of its own if a turn starts with it.
        self._next: MessageView | None = None
        self.own_usage = self._last = self._other_usage = Usage()

    @classmethod
    def of_log(cls, data: bytes) -> SessionView:
        """Return the session of a log. Damaged records are left out and counted."""
        view = cls()
        good, view.bad = restore.records(data)
        for record in good:
            kind, time = record["type"], record["time"]
            view.created, view.updated = view.created or time, time
            try:
                if kind == "Header":
                    view.header = from_json(Header, record["data"])
                elif (event := KINDS.get(kind)) is not None:
                    view.apply(from_json(event, record["data"]), time)
            except DecodeError:
                view.bad += 1
        view.end()
        return view

    @property
    def turn(self) -> TurnView | None:
        """The latest turn; None before the first."""
        return self.turns[-1] if self.turns else None

    @property
    def usage(self) -> Usage:
        """The usage of all model calls. Logs of earlier versions have it by turn only."""
        ended = (end.usage for end in self.ends)
        return sum(self.models.values(), Usage()) if self.models else sum(ended, self._other_usage)

    def own_calls(self) -> Iterator[CallView]:
        """Yield the calls, without those of sub-agents."""
        return (entry for entry in self.entries if isinstance(entry, CallView))

    def all_calls(self) -> Iterator[CallView]:
        """Yield every call, each before those of its sub-agent."""
        waiting = list(self.own_calls())[::-1]
        while waiting:
            call = waiting.pop()
            yield call
            waiting += reversed(list(call.nested.own_calls()) if call.nested is not None else [])

    def notes(self, kind: NoteKind) -> Iterator[NoteView]:
        """Yield the notes of a kind."""
        return (entry for entry in self.entries if isinstance(entry, NoteView) and entry.kind == kind)

    def find(self, call_id: str) -> CallView | None:
        """Return the latest call with an ID; None if there is none."""
        return self._open.get(call_id)

    def end(self) -> None:
        """Note that no more events come."""
        if self.turns:
            self.turns[-1].hooks += self._early
            self._early = []

    def apply(self, event: Event, time: str = "") -> CallView | None:
        """Take the next event; return the call that it is about, if any. time: of its record."""
        if isinstance(event, HookFinished) and event.event in _BEFORE_MESSAGE and self._is_idle():
            self._early.append(event)
            return None
        match event:
            case ToolRequested():
                return self._request(event, time)
            case ApprovalRequested() | QuestionAsked():
                return self._change(event.call_id, question=event, asks=True)
            case ApprovalResolved() | QuestionAnswered():
                return self._decide(event, time)
            case ToolStarted():
                return self._change(event.call_id, started=True)
            case ToolFinished():
                return self._change(event.call_id, finished=event)
            case MessageAdded(message=ToolMessage() as message):
                self._next = None
                self._texts.append(message.text)
                return self._change(message.call_id, result=message)
            case SubagentEvent():
                return self._apply_nested(event, time)
            case MessageAdded(message=(UserMessage() | AssistantMessage()) as message, uuids=uuids):
                self._add_message(message, uuids, time)
            case Compacted() | Uncompacted():
                text = compacted_line(event) if isinstance(event, Compacted) else uncompacted_line(event)
                self._note(text, time, "window", event)
            case Warned(text=text):
                self._note(text, time, "warning", event)
            case _:
                self._apply_of_session(event, time)
        self._of_turn(event, "")
        return None

    def _is_idle(self) -> bool:
        return self.turn is None or not self.turn.running

    def _apply_of_session(self, event: Event, time: str) -> None:
        match event:
            case PlanChanged(items=items):
                self.plan = items
            case Rewound(messages=messages, plan=plan):
                self.plan = plan
                self._rewind(event, messages, time)
            case TurnStarted():
                self._start_turn(event)
            case RoundStarted() if self.turn is not None:
                self.turn.round = event.round
            case TurnFinished():
                self._finish_turn(event, time)
            case SessionNamed():
                self.name = event.name
                self._other_usage += event.usage
                self._add_usage(event.model, event.usage)

    def _of_turn(self, event: Event, agent: str) -> None:
        """Add what a turn has of its own events and of those of its sub-agents. agent: the type of the sub-agent."""
        turn = self.turn
        if isinstance(event, UsageAdded):
            if not agent:
                self.own_usage += event.usage
                self._last = self._last if event.aside else event.usage
            self._add_usage(event.model, event.usage)
        elif turn is None:
            return
        elif isinstance(event, Warned):
            turn.warnings.append(event.text)
        elif isinstance(event, HookFinished):
            turn.hooks.append(event)
        elif isinstance(event, Compacted):
            turn.notes.append(f"{f'[{agent}] ' if agent else ''}{compacted_line(event)}")
        elif isinstance(event, Uncompacted) and not agent:
            turn.notes.append(uncompacted_line(event))

    def _apply_nested(self, event: SubagentEvent, time: str) -> CallView | None:
        inner, agent = event.event, event.agent
        task = self._open.get(event.call_id) or self._begin(event.call_id, agent, {}, time)
        if task.nested is None:
            task.nested = self._nest(agent, task)
            self.begun.append(task)
        call = task.nested.apply(inner, time)
        while isinstance(inner, SubagentEvent):
            agent, inner = inner.agent, inner.event
        if isinstance(inner, Warned):
            self._note(inner.text, time, "warning", inner)
        self._of_turn(inner, agent)
        if isinstance(inner, ToolRequested) and call is not None:
            self._add_call(call)
        return call

    def _nest(self, agent: str, task: CallView) -> SessionView:
        """Return a view of the conversation of a sub-agent. task: its call."""
        return SessionView(agent)

    def _finish_turn(self, event: TurnFinished, time: str) -> None:
        self._next = None
        self.ends.append(event)
        if (turn := self.turn) is not None:
            turn.finished, turn.decided, turn.resumed = event, False, False
        if event.result != "Complete" or event.degraded:
            why = event.failure.message if event.failure else event.text
            reason = event.diagnostics.terminal_reason
            how = _ENDS.get(reason, reason.replace("_", " "))
            self._note(f"{how}: {why}" if why else how, time, "end", event)

    def _add_message(self, message: UserMessage | AssistantMessage, uuids: tuple[str, ...], time: str) -> None:
        view = MessageView(message, time, uuids)
        self.entries.append(view)
        if isinstance(message, UserMessage):
            self._add_user_message(view, self.turn)
        else:
            self._add_answer(view, message, self.turn)
        view.effort, view.round = self._effort, self.turn.round if self.turn is not None else 0
        self._texts.append(message.text)

    def _add_user_message(self, view: MessageView, turn: TurnView | None) -> None:
        """Begin a turn, or add the message to the one that runs. Messages of the program may come before the user's."""
        text, before = view.message.text, len(self._texts)
        if turn is not None and turn.waits:
            if is_synthetic(turn.query):
                turn.query, turn.time, turn.before = text, view.time, before
        elif turn is not None and turn.started and turn.running:
            if self._next is None or is_synthetic(self._next.message.text):
                self._next = view
            if turn.round and not is_synthetic(text):
                turn.added.append(view)
        else:
            self.turns.append(TurnView(text, view.time, before))
            self.turns[-1].hooks, self._early = self._early, []

    def _add_answer(self, view: MessageView, message: AssistantMessage, turn: TurnView | None) -> None:
        self._next = None
        if turn is not None and turn.waits:
            # A fork has the other session's messages without its turns.
            if is_synthetic(turn.query):
                self.turns.pop()
            else:
                turn.copied = True
        view.usage, self._last = self._last, Usage()
        view.calls = [self._begin(call.id, call.name, call.arguments, view.time) for call in message.calls]

    def _start_turn(self, event: TurnStarted) -> None:
        view, self._next = self._next, None
        self._effort = str(event.saved.get("settings", {}).get("effort") or "")
        if view is not None and (turn := self.turn) is not None:
            # The turn before it was cut off.
            turn.added = [each for each in turn.added if each is not view]
            self.turns.append(TurnView(view.message.text, view.time, len(self._texts) - 1))
        if (turn := self.turn) is not None:
            turn.started, turn.model, turn.mode = True, event.model, event.mode
            turn.resumed = turn.finished is not None

    def _begin(self, call_id: str, tool: str, arguments: dict[str, Any], time: str) -> CallView:
        """Return the open call of an ID, which may repeat: some providers count from 1 in every answer."""
        call = self._open.get(call_id)
        if call is not None and call.result is None and call.finished is None:
            call.tool, call.arguments = tool, arguments
            return call
        call = self._open[call_id] = CallView(call_id, tool, arguments, time)
        self.entries.append(call)
        return call

    def _request(self, event: ToolRequested, time: str) -> CallView:
        call = self._begin(event.call_id, event.tool, event.arguments, time)
        call.summary, call.agent, call.requested = event.summary, self.agent, True
        self._add_call(call)
        return call

    def _add_call(self, call: CallView) -> None:
        """Add a call to the turn, which has those of sub-agents, too."""
        if (turn := self.turn) is not None and call not in turn.calls:
            call.round = turn.round
            turn.calls[call] = None

    def _decide(self, event: ApprovalResolved | QuestionAnswered, time: str) -> CallView | None:
        if isinstance(event, ApprovalResolved):
            decision, reason = str(event.decision), event.reason
        else:
            decision, reason = event.verdict, event.text
        if (turn := self.turn) is not None and decision != "defer":
            turn.decided = True
        made = {"decision": decision, "by": event.by, "user": event.user, "reason": reason, "decided": time}
        return self._change(event.call_id, **made, asks=decision == "defer", verdict=event)

    def _change(self, call_id: str, **fields: Any) -> CallView | None:
        if (call := self._open.get(call_id)) is not None:
            call.__dict__.update(fields)
        return call

    def _note(self, text: str, time: str, kind: NoteKind, event: Event) -> None:
        self.entries.append(NoteView(text, time, kind, event))

    def _add_usage(self, model: str, usage: Usage) -> None:
        if (turn := self.turn) is not None:
            turn.usage += usage
        if not model and usage == Usage():
            return
        provider, _, bare = model.rpartition("/")
        if provider and bare in self.models:
            # Logs of earlier versions also have a model without its provider.
            self.models[model] = self.models.pop(bare)
        name = model if provider else next((n for n in self.models if n.endswith(f"/{model}")), model)
        self.models[name] = self.models.get(name, Usage()) + usage

    def _rewind(self, event: Rewound, messages: int, time: str) -> None:
        there = "".join(self._texts[messages : messages + 1])
        del self._texts[messages:]
        self._note(user_text(there), time, "rewind", event)
        self._next = None
        if (turn := self.turn) is not None and turn.waits:
            self.turns.pop()  # its message was taken back before the turn began
        for turn in self.turns:
            if turn.before >= messages and _UNDONE not in turn.notes:
                turn.notes.append(_UNDONE)
