"""What a session consists of: messages, calls and notes, in turns; and the answer that the model is writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Event,
    FirstChunk,
    HookFinished,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    TurnFinished,
)
from agent_cli.kernel.messages import AssistantMessage, ToolMessage, UserMessage
from agent_cli.kernel.results import Check, Usage
from agent_cli.kernel.session.records import Header
from agent_tools.record import Value
from agent_tools.results import CommandOutput, Diff, Diffs, TodoItem
from agent_tools.text import counted, shorten

# Characters of what a sub-agent in the background does.
_MAX_DOING_CHARS = 50
Outcome = Literal["", "done", "failed", "rejected"]
# What a call waits for, or how it ended; "stopped" if its turn ended before it did.
CallStatus = Literal["requested", "waiting", "running", "done", "failed", "denied", "stopped"]
# "info": what matters while the session is watched. "complete": a turn that ended as it should.
NoteKind = Literal["warning", "window", "rewind", "end", "info", "complete"]


class CallView:
    """A tool call, the decision about it, and what came of it.

    agent: the type of the sub-agent that made it; "" for the session's own.
    requested: it passed the checks of its arguments, so `summary` is a sentence and not only the tool's name.
    decision, by, user, reason: the latest decision of a rule, a mode, a hook or a user; answer: all of it.
    asks: the question about it is open.
    output: the end of what a running tool has printed.
    finished: how the tool ended; result: what the model got, also of a call that was rejected.
    stopped: its turn ended first.
    nested: what its sub-agent did; None without one.
    """

    key = ""

    def __init__(self, call_id: str, tool: str, arguments: dict[str, Any], time: str) -> None:
        self.call_id, self.tool, self.arguments, self.time = call_id, tool, arguments, time
        self.summary = tool
        self.agent, self.round = "", 0
        self.requested = self.started = False
        self.question: ApprovalRequested | QuestionAsked | None = None
        self.decision = self.by = self.user = self.reason = self.decided = ""
        self.answer: ApprovalResolved | QuestionAnswered | None = None
        self.asks = self.stopped = False
        self.output = ""
        self.finished: ToolFinished | None = None
        self.result: ToolMessage | None = None
        self.nested: SessionEntries | None = None

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
    def asked(self) -> QuestionAsked | None:
        """The question about it, other than whether it may run."""
        return self.question if isinstance(self.question, QuestionAsked) else None

    @property
    def status(self) -> CallStatus:
        """The state of the call to show: a command that failed counts as failed."""
        if self.nested is not None and self.nested.at_work:
            return "waiting" if any(call.asks for call in self.nested.all_calls()) else "running"
        if self.asks:
            return "stopped" if self.stopped else "waiting"
        if self.decision == "reject":
            return "denied"
        if self.finished is not None:
            display = self.finished.display
            failed = self.finished.is_error or (isinstance(display, CommandOutput) and display.failed)
            return "failed" if failed else "done"
        if self.result is not None:
            return "failed" if self.result.is_error or self.stopped else "done"
        return "stopped" if self.stopped else "running" if self.started else "requested"

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

    key = ""

    def __init__(self, message: UserMessage | AssistantMessage, time: str, uuids: tuple[str, ...]) -> None:
        self.message, self.time, self.uuids = message, time, uuids
        self.effort = ""
        self.round = 0
        self.calls: list[CallView] = []
        self.usage = Usage()
        self.first: FirstChunk | None = None

    @property
    def sent(self) -> UserMessage:
        """The message, where it is no answer."""
        assert isinstance(self.message, UserMessage)
        return self.message


class NoteView:
    """A note of the program: a warning, a compaction, a rewind, how a turn ended.

    event: what it is about. more: the summary of a compaction. end: of a turn, if it is about that.
    """

    key = ""

    def __init__(self, text: str, time: str, kind: NoteKind, event: Event | None) -> None:
        self.text, self.time, self.kind, self.event = text, time, kind, event
        self.more = event.summary if isinstance(event, Compacted) else ""
        self.end = event if isinstance(event, TurnFinished) else None


class DraftView:
    """The answer that the model is writing: its text and thinking so far, in pieces of a kind each."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Literal["text", "thinking"], str]] = []

    def join(self, kind: Literal["text", "thinking"]) -> str:
        """Return what there is of a kind."""
        return "".join(text for each, text in self.pieces if each == kind)


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

    def __init__(self, message: UserMessage, time: str, before: int) -> None:
        self.message, self.time, self.before = message, time, before
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
    def words(self) -> str:
        """What the user asked, in their own words."""
        return self.message.words

    @property
    def waits(self) -> bool:
        """True if its message is there, and nothing else yet."""
        return not self.started and not self.copied and self.finished is None

    @property
    def running(self) -> bool:
        """True until it has ended; a suspended turn goes on later."""
        return self.finished is None or self.finished.result == "Suspended"


class WorkDone(Value):
    """What a call did to the work: it changed files, ran a command, checked the work, or moved HEAD.

    turn: number of the turn, from 1. time: when it ended.
    files: that it changed, without their patches.
    command: that it ran; "" for another tool, whose call `summary` describes. code: its exit code; None if killed.
    check: the check that it was. ended: the command was started by an earlier call, in the background.
    heads: the commits that were checked out before and after it, if it changed that.
    """

    turn: int
    summary: str
    time: str = ""
    files: tuple[Diff, ...] = ()
    command: str = ""
    code: int | None = None
    seconds: float = 0.0
    check: Check | None = None
    ended: bool = False
    heads: tuple[str, ...] = ()


class PlanNow(Value):
    """The plan from here on. approved: who approved it, if that is what made it."""

    turn: int
    items: tuple[TodoItem, ...]
    approved: str = ""


class SessionEntries:
    """What a session has come to. An entry's `key` is its place: "3", "3/0" for the first of its sub-agent.

    entries: what was said and done, in order. turns: the same, by turn.
    models: usage by model, in order of first use. own_usage: of its model calls without those of sub-agents.
    ends: how each part of a turn ended.
    agent: the type of the sub-agent whose conversation this is, or its name in the background; "" for a session.
    background: the sub-agent works in the background. begun: the types of sub-agents, in
        the order in which they began, each with its call.
    draft: the answer under way.
    work: what was done and planned, in order, sub-agents included: see `completion_record`.
    bad: records that could not be read.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.background = False
        self.header: Header | None = None
        self.name = self.created = self.updated = ""
        self.entries: list[EntryView] = []
        self.turns: list[TurnView] = []
        self.plan: tuple[TodoItem, ...] = ()
        self.models: dict[str, Usage] = {}
        self.ends: list[TurnFinished] = []
        self.begun: list[CallView] = []
        self.work: list[WorkDone | PlanNow] = []
        self.bad = 0
        self.draft = DraftView()
        self.own_usage = self._other_usage = Usage()

    @property
    def messages(self) -> list[MessageView]:
        """The messages and answers, in order."""
        return [entry for entry in self.entries if isinstance(entry, MessageView)]

    @property
    def turn(self) -> TurnView | None:
        """The latest turn; None before the first."""
        return self.turns[-1] if self.turns else None

    @property
    def at_work(self) -> bool:
        """True for a sub-agent in the background that has not ended."""
        return self.background and (self.turn is None or self.turn.running)

    def background_lines(self) -> list[str]:
        """Return a line about each sub-agent in the background that has not ended."""
        lines = []
        for task in self.own_calls():
            if (nested := task.nested) is not None and nested.at_work:
                calls = [*nested.own_calls()]
                doing = shorten(calls[-1].summary or calls[-1].tool, _MAX_DOING_CHARS) if calls else "working"
                if any(call.asks for call in calls):
                    doing = "waits for your answer"
                counted_calls = [counted(len(calls), "call")] * bool(calls)
                lines.append(" · ".join([f"{nested.agent}: {task.summary.partition(': ')[2]}", doing, *counted_calls]))
        return lines

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
