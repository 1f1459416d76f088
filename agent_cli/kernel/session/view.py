"""What happened in a session: the one place that folds its events.

`SessionView` takes the events of a log or of a running turn, in order, and has the session as turns, calls and notes.
Exports, reports, `agent show` and lists are projections of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_cli.kernel.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Event,
    HookFinished,
    MessageAdded,
    Noted,
    Pinned,
    PlanChanged,
    PlanContinued,
    QuestionAnswered,
    QuestionAsked,
    Rewound,
    RoundStarted,
    SessionNamed,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Uncompacted,
    UsageAdded,
    Warned,
    events_by_tag,
)
from agent_cli.kernel.messages import (
    AssistantMessage,
    ToolMessage,
    UserMessage,
    undone_files,
)
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.records import Header, Mended
from agent_cli.kernel.session.view_entries import (
    CallView,
    DraftView,
    EntryView,
    MessageView,
    NoteKind,
    NoteView,
    PlanNow,
    SessionEntries,
    TurnView,
    WorkDone,
)
from agent_cli.kernel.window import compacted_line, uncompacted_line
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError, from_json
from agent_tools.results import CommandOutput, Diff, Note
from agent_tools.text import shorten

if TYPE_CHECKING:
    from agent_cli.kernel.session.completion_record import CompletionRecord

with lazy_imports():
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel.session import completion_record, restore  # to read a log

KINDS = events_by_tag(
    "ApprovalRequested ApprovalResolved Compacted HookRan MessageAdded Noted Pinned PlanChanged PlanContinued "
    "QuestionAnswered QuestionAsked Rewound RoundStarted SessionNamed SubagentEvent ToolFinished ToolRequested "
    "ToolStarted TurnFinished TurnStarted Uncompacted UsageAdded Warned"
)
# Events that change a view while a turn runs and are not in the log.
LIVE_EVENTS = (TextDelta, ThinkingDelta, ToolProgress, AnswerRestarted)
# Characters kept of the output of a running call.
_MAX_OUTPUT_CHARS = 4_000
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


class ViewWatch:
    """What has changed in a view and in those of its sub-agents since it was last read.

    entries: that are new or have changed. output: what running calls have printed.
    """

    def __init__(self) -> None:
        self.entries: dict[EntryView, None] = {}
        self.output: list[tuple[CallView, str]] = []


class SessionView(SessionEntries):
    """A session as its events tell it.

    watch: notes what changes. prefix: of the entries' keys. effort: how much the model thinks.
    """

    def __init__(self, agent: str = "", watch: ViewWatch | None = None, prefix: str = "") -> None:
        super().__init__(agent)
        self.watch, self._prefix = watch, prefix
        self._nested: dict[CallView, SessionView] = {}
        self._texts: list[str] = []
        self.effort = ""
        self._open: dict[str, CallView] = {}
        self._unfinished: dict[CallView, None] = {}
        self._early: list[HookFinished] = []
        # A message during a turn, which begins one of its own if a turn starts with it.
        self._next: MessageView | None = None
        self._last = Usage()
        # Turns that are no longer in `turns`, and who approved the plan that comes next.
        self._dropped, self._approved = 0, ""

    def completion(self, root: str = "") -> CompletionRecord:
        """Return what was planned and done. root: the project's folder, if the view has no header."""
        return completion_record.CompletionRecord.of(self, root)

    @classmethod
    def of_log(cls, data: bytes) -> SessionView:
        """Return the session of a log. Damaged records are left out and counted."""
        view = cls()
        good, view.bad = restore.records(data)
        for record in good:
            view.add_record(record["type"], record["data"], record["time"])
        view.end()
        return view

    def add_record(self, kind: str, data: Any, time: str) -> None:
        """Take the next record of a log. One that cannot be read is counted."""
        self.created, self.updated = self.created or time, time
        try:
            if kind == "Header":
                self.header = from_json(Header, data)
            elif kind == Mended._tag:
                self._note("the end of this session's log was damaged and has been repaired", time, "info", None)
            elif (event := KINDS.get(kind)) is not None:
                self.apply(from_json(event, data), time)
        except DecodeError:
            self.bad += 1

    @property
    def turn_number(self) -> int:
        """The number of the latest turn, from 1. A run by a program may begin without its message."""
        return max(1, self._dropped + len(self.turns))

    def find(self, call_id: str) -> CallView | None:
        """Return the latest call with an ID; None if there is none."""
        return self._open.get(call_id)

    def end(self) -> None:
        """Note that no more events come. Notes to the model for its next turn are no turn."""
        if (turn := self.turn) is not None and turn.waits and not turn.message.from_user:
            self.turns.pop()
        if self.turns:
            self.turns[-1].hooks += self._early
            self._early = []

    def apply(self, event: Event, time: str = "") -> CallView | None:
        """Take the next event; return the call that it is about, if any. time: of its record."""
        if isinstance(event, LIVE_EVENTS):
            return self._apply_live(event)
        idle = self.turn is None or not self.turn.running
        if isinstance(event, HookFinished) and idle and hook_events.runs_before_message(event.event):
            self._early.append(event)
            return None
        match event:
            case ToolRequested():
                return self._request(event, time)
            case ApprovalRequested() | QuestionAsked():
                if isinstance(event, QuestionAsked) and event.call_id not in self._open and event.data.get("title"):
                    self._note(str(event.data["title"]), time, "info", event)
                return self._change(event.call_id, question=event, asks=True)
            case ApprovalResolved() | QuestionAnswered():
                return self._decide(event, time)
            case ToolStarted():
                return self._change(event.call_id, started=True, stopped=False)
            case ToolFinished():
                call = self._change(event.call_id, finished=event, output="")
                self._add_work(call, event, time)
                return call
            case MessageAdded(message=ToolMessage() as message):
                self._next = None
                self._texts.append(message.text)
                call = self._change(message.call_id, result=message)
                if call is not None:
                    self._unfinished.pop(call, None)
                return call
            case SubagentEvent():
                return self._apply_nested(event, time)
            case MessageAdded(message=(UserMessage() | AssistantMessage()) as message, uuids=uuids):
                self._add_message(message, uuids, time)
            case Compacted() | Uncompacted():
                text = compacted_line(event) if isinstance(event, Compacted) else uncompacted_line(event)
                self._note(text, time, "window", event)
            case Warned(text=text):
                self._note(text, time, "warning", event)
            case Noted(text=text):
                self._note(text, time, "info", event)
            case _:
                self._apply_of_session(event, time)
        self._of_turn(event, "")
        return None

    def _apply_live(self, event: Event) -> CallView | None:
        match event:
            case TextDelta(text=text):
                self.draft.pieces.append(("text", text))
            case ThinkingDelta(text=text):
                self.draft.pieces.append(("thinking", text))
            case AnswerRestarted():
                self._end_draft()
            case ToolProgress(text=text) if (call := self._open.get(event.call_id)) is not None:
                call.output = (call.output + text)[-_MAX_OUTPUT_CHARS:]
                if self.watch is not None:
                    self.watch.output.append((call, text))
                return call
        return None

    def _end_draft(self) -> None:
        if self.draft.pieces:
            self.draft = DraftView()

    def _apply_of_session(self, event: Event, time: str) -> None:
        match event:
            case PlanChanged(items=items):
                self.plan = items
                if not event.paused:
                    self.work.append(PlanNow(self.turn_number, items, self._approved))
                    self._approved = ""
            case Rewound(messages=messages, plan=plan):
                self.plan = plan
                self.work.append(PlanNow(self.turn_number, plan))
                self._rewind(event, messages, time)
            case TurnStarted():
                self._start_turn(event)
            case RoundStarted() if self.turn is not None:
                self.turn.round = event.round
                self._end_draft()
            case PlanContinued():
                self._note("the plan has open steps; continuing", time, "info", event)
            case Pinned(text=text, on=on):
                self._note(f"{'pinned' if on else 'no longer pinned'}: {shorten(text, 80)}", time, "info", event)
            case HookFinished():
                if event.outcome != "success":
                    self._note(_hook_words(event), time, "info", event)
                if (check := event.check) is not None:
                    took = event.duration_ms / 1000
                    done = WorkDone(self.turn_number, event.name, time, (), event.command, event.exit_code, took, check)
                    self.work.append(done)
            case TurnFinished():
                self._finish_turn(event, time)
            case SessionNamed():
                self.name = event.name
                if not event.model:
                    self._note(f"renamed to “{shorten(event.name, 80)}”", time, "info", event)
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
        inner, agent = event.event, event.name or event.agent
        task = self._open.get(event.call_id) or self._begin(event.call_id, agent, {}, time)
        if (nested := self._nested.get(task)) is None:
            nested = task.nested = self._nested[task] = self._nest(agent, task)
            nested.background = bool(event.name)
            self.begun.append(task)
        call = nested.apply(inner, time)
        if not isinstance(inner, LIVE_EVENTS):
            self._touch(task)
        while isinstance(inner, SubagentEvent):
            agent, inner = inner.agent, inner.event
        if isinstance(inner, Warned):
            self._note(inner.text, time, "warning", inner)
        self._of_turn(inner, agent)
        if isinstance(inner, ToolRequested) and call is not None:
            self._add_call(call)
        if isinstance(inner, ToolFinished):
            self._add_work(call, inner, time)
        return call

    def _add_work(self, call: CallView | None, event: ToolFinished, time: str) -> None:
        """Add what a call did to the work, if anything."""
        display, check = event.display, event.check
        ran: tuple[str, int | None, float] = ("", None, 0.0)
        if isinstance(display, CommandOutput):
            ran = (display.command, display.exit_code, display.seconds)
        elif check is not None:
            ran = (check.command, check.exit_code, 0.0)
        files = event.changed or (call.diffs if call is not None and not event.is_error else ())
        if files or ran[0] or event.heads:
            summary = call.summary if call is not None else event.tool
            light = tuple(diff.replace(patch="") for diff in files)
            ended = isinstance(display, Note) and display.ended is not None
            self.work.append(WorkDone(self.turn_number, summary, time, light, *ran, check, ended, event.heads))

    def _nest(self, agent: str, task: CallView) -> SessionView:
        """Return a view of the conversation of a sub-agent. task: its call."""
        return SessionView(agent, self.watch, f"{task.key}/")

    def _finish_turn(self, event: TurnFinished, time: str) -> None:
        self._next = None
        self.ends.append(event)
        if (turn := self.turn) is not None:
            turn.finished, turn.decided, turn.resumed = event, False, False
        self._end_draft()
        if event.result != "Suspended":
            self._stop_calls()
        if event.result != "Complete" or event.degraded:
            why = event.failure.message if event.failure else event.text
            reason = event.diagnostics.terminal_reason
            how = _ENDS.get(reason, reason.replace("_", " "))
            self._note(f"{how}: {why}" if why else how, time, "end", event)
        else:
            self._note("", time, "complete", event)

    def _stop_calls(self) -> None:
        """Note that nothing comes of the calls that are open."""
        for call in self._unfinished:
            call.stopped = True
            self._touch(call)
            if call in self._nested:
                self._nested[call]._stop_calls()
        self._unfinished.clear()

    def _add_message(self, message: UserMessage | AssistantMessage, uuids: tuple[str, ...], time: str) -> None:
        view = MessageView(message, time, uuids)
        self._add(view)
        if isinstance(message, UserMessage):
            self._add_user_message(view, self.turn)
            if undone := undone_files(message.text):
                self.work.append(WorkDone(self.turn_number, "Undo", time, tuple(Diff(name, "") for name in undone)))
        else:
            self._add_answer(view, message, self.turn)
        view.effort, view.round = self.effort, self.turn.round if self.turn is not None else 0
        self._texts.append(message.words if isinstance(message, UserMessage) else message.text)

    def _add_user_message(self, view: MessageView, turn: TurnView | None) -> None:
        """Begin a turn, or add the message to the one that runs. Messages of the program may come before the user's."""
        before = len(self._texts)
        if turn is not None and turn.waits:
            if not turn.message.from_user:
                turn.message, turn.time, turn.before = view.sent, view.time, before
        elif turn is not None and turn.started and turn.running:
            if self._next is None or not self._next.sent.from_user:
                self._next = view
            if turn.round and view.sent.from_user:
                turn.added.append(view)
        else:
            self.turns.append(TurnView(view.sent, view.time, before))
            self.turns[-1].hooks, self._early = self._early, []

    def _add_answer(self, view: MessageView, message: AssistantMessage, turn: TurnView | None) -> None:
        self._next = None
        self._end_draft()
        if turn is not None and turn.waits:
            # A fork has the other session's messages without its turns.
            if not turn.message.from_user:
                self.turns.pop()
            else:
                turn.copied = True
        view.usage, self._last = self._last, Usage()
        view.calls = [self._begin(call.id, call.name, call.arguments, view.time) for call in message.calls]

    def _start_turn(self, event: TurnStarted) -> None:
        view, self._next = self._next, None
        self._end_draft()
        self.effort = str(event.saved.get("settings", {}).get("effort") or "")
        if view is not None and (turn := self.turn) is not None:
            # The turn before it was cut off.
            turn.added = [each for each in turn.added if each is not view]
            self.turns.append(TurnView(view.sent, view.time, len(self._texts) - 1))
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
        self._unfinished[call] = None
        self._add(call)
        return call

    def _add(self, entry: EntryView) -> None:
        entry.key = f"{self._prefix}{len(self.entries)}"
        self.entries.append(entry)
        self._touch(entry)

    def _touch(self, entry: EntryView) -> None:
        if self.watch is not None:
            self.watch.entries[entry] = None

    def _request(self, event: ToolRequested, time: str) -> CallView:
        call = self._begin(event.call_id, event.tool, event.arguments, time)
        call.summary, call.agent, call.requested, call.stopped = event.summary, self.agent, True, False
        self._unfinished[call] = None
        self._add_call(call)
        self._touch(call)
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
        if isinstance(event, QuestionAnswered) and decision == "approve" and self._is_plan(event.call_id):
            self._approved = event.user or ("you" if event.by == "person" else event.by)
        made = {
            "decision": decision,
            "by": event.by,
            "user": event.user,
            "reason": reason,
            "decided": time,
            "answer": event,
        }
        return self._change(event.call_id, **made, asks=decision == "defer")

    def _is_plan(self, call_id: str) -> bool:
        call = self._open.get(call_id)
        return call is not None and call.asked is not None and call.asked.kind == "plan"

    def _change(self, call_id: str, **fields: Any) -> CallView | None:
        if (call := self._open.get(call_id)) is not None:
            call.__dict__.update(fields)
            self._touch(call)
        return call

    def _note(self, text: str, time: str, kind: NoteKind, event: Event | None) -> None:
        self._add(NoteView(text, time, kind, event))

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
        self._note(there, time, "rewind", event)
        self._next = None
        if (turn := self.turn) is not None and turn.waits:
            self.turns.pop()  # its message was taken back before the turn began
        for turn in self.turns:
            if turn.before >= messages and _UNDONE not in turn.notes:
                turn.notes.append(_UNDONE)


def _hook_words(event: HookFinished) -> str:
    how = {"blocked": "blocked this", "cancelled": "was stopped"}.get(event.outcome, "failed")
    return f"hook {event.name or event.event} {how}{f': {event.note}' if event.note else ''}"
