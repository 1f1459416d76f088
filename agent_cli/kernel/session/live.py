"""A session as a front end follows it: `SessionView`, with what no log records, and what each event changes.

A front end passes each event to `LiveSession.follow` and draws what has changed. Only the current turn is kept, and
what was done and planned before it.
"""

from __future__ import annotations

from typing import Any

from agent_cli.kernel.events import (
    KINDS,
    PIECES,
    ApprovalRequested,
    Event,
    FirstChunk,
    HookFinished,
    Kind,
    MessageAdded,
    SubagentEvent,
)
from agent_cli.kernel.messages import AssistantMessage, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.view import SessionView
from agent_cli.kernel.session.view_entries import CallView, MessageView, TurnView
from agent_cli.kernel.window import compacted_line, compacting_line, uncompacted_line
from agent_tools.lazy import lazy_imports
from agent_tools.text import short_count, shorten

with lazy_imports():
    from agent_cli.hooks import events as hook_events

_OF_CALLS = frozenset(("requested", "asked", "decided", "started", "output", "answered", "finished"))
_BY_MESSAGE: dict[type, Kind] = {UserMessage: "message", AssistantMessage: "answer", ToolMessage: "answered"}
# Changes that the views of all conversations around the one that they are of take note of.
_OF_ALL = frozenset((*PIECES, "requested", "usage", "hook", "asked", "answered"))
# Changes of which the recorded view knows nothing.
_PASSING = frozenset(("first", "restarted", "output", "retry", "compacting", "hook started", "reading", "continued"))
_DOING = {
    "round": "waiting for the model", "restarted": "waiting for the model", "first": "reading the answer",
    "started": "running", "asked": "waiting for your answer", "finished": "working", "compacted": "working",
    "compacting": "compacting the conversation", "begun": "working", "ended": "",
}  # fmt: skip


class ViewChange:
    """What an event changed.

    event: the event itself, without the sub-agents it is wrapped in.
    view: the conversation: of the session, or of a sub-agent.
    call, message: that it is about.
    """

    __slots__ = ("call", "event", "kind", "message", "view")

    def __init__(self, kind: Kind, event: Any, view: LiveSession) -> None:
        self.kind, self.event, self.view = kind, event, view
        self.call: CallView | None = None
        self.message: MessageView | None = None

    @property
    def task(self) -> CallView | None:
        """The session's own call that the sub-agent works for, directly or not; None for what the session did."""
        view = self.view
        while view.above is not None and view.above.task is not None:
            view = view.above
        return view.task

    @property
    def note(self) -> str:
        """The line for the user; "" for none."""
        event = self.event
        match self.kind:
            case "warning" | "notice":
                text: str = event.text
                return text
            case "hook":
                return hook_events.hook_line(event)
            case "compacting":
                return compacting_line(event)
            case "compacted":
                return compacted_line(event)
            case "uncompacted":
                return uncompacted_line(event)
            case "pinned":
                return f"{'pinned' if event.on else 'no longer pinned'}: {shorten(event.text, 80)}"
        return ""


class LiveSession(SessionView):
    """A conversation under way.

    task: the call that it works for, in the view above; None for the session itself.
    first: the beginning of the answer under way. answer: the text of the latest one.
    doing: the current activity, in words. lately: what was last begun: a call, thinking, writing.
    streamed: characters received since the provider last reported usage.
    asked: calls with a question and no result yet, each with the call of its sub-agent.
    running: its calls that have started and not ended.
    made: number of its calls; every: with those of its sub-agents.
    failed_hooks: each once, those of sub-agents included.
    turn_usage: of the model calls of this turn, without those of sub-agents. spent: usage of the session.
    context: tokens of the model's window in use.
    """

    def __init__(self, agent: str = "") -> None:
        super().__init__(agent)
        self.task: CallView | None = None
        self.above: LiveSession | None = None
        self.first: FirstChunk | None = None
        self.answer = self.doing = self._before_hook = ""
        self.lately = "working"
        self.streamed = self.made = self.every = self.context = 0
        self.asked: dict[CallView, CallView | None] = {}
        self.running: dict[CallView, None] = {}
        self.failed_hooks: dict[tuple[str, str, str], HookFinished] = {}
        self.turn_usage = self.spent = Usage()
        self._piece = self._change_made = ViewChange("piece", None, self)

    @property
    def task_id(self) -> str:
        """The ID of its Task call; "" for the session itself."""
        return self.task.call_id if self.task is not None else ""

    def asked_for(self, call_id: str) -> str:
        """Describe the sub-agent that a question is for; "" for none."""
        task = next((task for call, task in [*self.asked.items()] if call.call_id == call_id), None)
        if task is None:
            return ""
        if task.nested is not None and task.nested.background:
            return f"for {task.nested.agent} in the background: {task.summary.partition(': ')[2]}"
        name = task.summary if task.requested else f"Sub-agent {task.nested.agent if task.nested is not None else ''}"
        return f"for {name[:1].lower()}{name[1:]}"

    def asked_together(self, call_id: str) -> list[CallView]:
        """Return the session's own calls of the same answer that need approval, in order; empty for a sub-agent's."""
        calls = [call for call in self.own_calls() if isinstance(call.question, ApprovalRequested)]
        rounds = {call.round for call in calls if call.call_id == call_id}
        return [call for call in calls if call.round in rounds]

    def follow(self, event: Event) -> ViewChange:
        """Take the next event and return what it changed. That of a piece of an answer holds until the next one."""
        self.apply(event)
        return self._change_made

    def apply(self, event: Event, time: str = "") -> CallView | None:
        kind = KINDS.get(type(event), "")
        if kind in PIECES:
            self._add_piece(kind, event)
            return None
        if isinstance(event, MessageAdded):
            kind = _BY_MESSAGE[type(event.message)]
        elif kind == "begun" and not (self.turn and self.turn.running):
            # Its message was recorded before it began, or by an earlier process.
            self.turns.append(TurnView(UserMessage(""), time, 0))
        call: CallView | None = None
        if kind in _OF_CALLS:
            # A resumed turn continues calls of its first part.
            about: Any = event.message if isinstance(event, MessageAdded) else event
            tool = getattr(about, "name" if kind == "answered" else "tool", "")
            call = self._open.get(about.call_id) or self._begin(about.call_id, tool, {}, time)
        call = super().apply(event, time) if kind not in _PASSING else call if kind == "output" else None
        if isinstance(event, SubagentEvent):
            change = self._nested[self._open[event.call_id]]._change_made  # type: ignore[attr-defined]
        else:
            change = ViewChange(kind, event, self)
            change.call = call
            if kind in ("message", "answer"):
                change.message = next(entry for entry in reversed(self.entries) if isinstance(entry, MessageView))
            self._follow_own(change, event)
        if change.kind in _OF_ALL:
            self._follow_every(change)
        self._change_made = change
        return call

    def _add_piece(self, kind: Kind, event: Any) -> None:
        if kind != "piece":
            self.doing = self.lately = "writing" if kind == "text" else "thinking"
            self.streamed += len(event.text)
        change = self._change_made = self._piece
        change.kind, change.event = kind, event

    def _follow_own(self, change: ViewChange, event: Any) -> None:
        """Note what the conversation's own event says."""
        self.doing = _DOING.get(change.kind, self.doing)
        match change.kind:
            case "first":
                self.first = event
            case "answer" if change.message is not None:
                change.message.first, self.first = self.first, None
                self.answer = event.message.text
            case "requested":
                self.made += 1
            case "started" if change.call is not None:
                self.running[change.call] = None
            case "finished" if change.call is not None:
                self.running.pop(change.call, None)
            case "usage":
                self.turn_usage, self.streamed = self.turn_usage + event.usage, 0
                if event.usage.input and not event.aside:
                    self.context = event.usage.input + event.usage.output
            case "compacted":
                self.context = event.tokens_after
            case "uncompacted":
                self.context = event.tokens
            case "reading":
                self.doing = f"reading the prompt, {100 * event.read // event.total} % of {short_count(event.total)}"
            case "hook started":
                self.doing, self._before_hook = f"hook {event.name}", self.doing
            case "hook":
                self.doing = self._before_hook
            case "begun" | "ended":
                self.turn_usage, self.streamed = Usage(), 0
                self.running.clear()
                if change.kind == "begun" and self.task is None and (turn := self.turn) and not turn.resumed:
                    self._forget()

    def _follow_every(self, change: ViewChange) -> None:
        """Note what an event says of the whole, sub-agents included."""
        call = change.call
        match change.kind:
            case "requested":
                self.every += 1
                self.lately = call.summary if call is not None else self.lately
            case "text" | "thinking":
                self.lately = change.view.lately
            case "usage":
                self.spent += change.event.usage
            case "hook" if change.event.failed:
                hook = change.event
                self.failed_hooks.setdefault((hook.event, hook.source, hook.command), hook)
            case "asked" if call is not None:
                self.asked[call] = change.task
            case "answered" if call is not None:
                self.asked.pop(call, None)

    def continue_from(self, view: SessionView | None) -> None:
        """Continue with what was done in a session that was resumed; None: in none."""
        self.work, self._dropped = [], 0
        if view is not None:
            # A turn that waits goes on under its number.
            self.work, self._dropped = view.work, view.turn_number - bool(view.turn and view.turn.running)

    def _forget(self) -> None:
        """Drop what is known of the turns before this one."""
        self._dropped += len(self.turns[:-1])
        at_work = [call for call in self.own_calls() if call.nested is not None and call.nested.at_work]
        self.entries = [*(call for call in at_work if call is not self.entries[-1]), *self.entries[-1:]]
        self.turns = self.turns[-1:]
        self.ends, self.begun, self._texts = [], [], []
        kept = [call for call in self._open.values() if call.result is None or call in at_work]
        self._nested = {call: nested for call, nested in self._nested.items() if call in kept}
        self._open = {call_id: call for call_id, call in self._open.items() if call in kept}

    def _nest(self, agent: str, task: CallView) -> LiveSession:
        nested = type(self)(agent)
        nested.task, nested.above = task, self
        return nested
