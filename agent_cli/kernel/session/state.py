"""Replay the records of a log: the history, what the model has seen, the plan, and what is pending.

Includes the turn at the end of the log: what it has spent, and the state to resume it with.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Collection, Iterable, Mapping
from time import strptime
from typing import Any, TypeVar

from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Checkpoint,
    Compacted,
    Event,
    FilesSeen,
    LeftOut,
    MessageAdded,
    Pinned,
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
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Uncompacted,
    UsageAdded,
    events_by_tag,
)
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage, reported_calls
from agent_cli.kernel.results import Action, Diagnostics, Spent, Usage
from agent_cli.kernel.session.history import History
from agent_cli.kernel.session.records import RestoredAgent, WaitingTurn
from agent_cli.kernel.window import Window
from agent_tools.results import TodoItem
from agent_tools.shell.state import ShellSnapshot


class OpenTurn:
    """The turn that a log ends in.

    checkpoint: the latest one; None if the user was not asked since the last answer, or if records about that are
        missing.
    mode, kept: as in a checkpoint, as far as known.
    """

    def __init__(self) -> None:
        self.began = TurnStarted("", "")
        self.checkpoint: Checkpoint | None = None
        self.mode = ""
        self.kept: dict[str, Any] = {}
        self.by_model: dict[str, Usage] = {}
        self._spent = Spent()
        self._before = (self._spent, self.mode, self.kept, self.by_model)
        # When the current stretch of work began; "" while the user is asked.
        self._since = self._until = ""

    def begin(self, event: TurnStarted, time: str, *, resumed: bool) -> None:
        """Start a turn, or resume one with its open calls."""
        self.began, self._since = event, time
        self._before = self._spent, self.mode, self.kept, self.by_model
        if not resumed:
            overrides = event.saved.get("lent")
            self.checkpoint, self._spent, self.mode, self.by_model = None, Spent(), event.mode, {}
            self.kept = {"lent": [overrides]} if overrides else {}

    def resume(self) -> None:
        """Make the turn that just began a resumption: restore its earlier totals."""
        self._spent, self.mode, self.kept, self.by_model = self._before

    def save_checkpoint(self, event: Checkpoint | TurnPaused) -> None:
        """Record a checkpoint: the user is asked, and the totals are exact."""
        self.checkpoint = Checkpoint(event.spent, event.mode, event.kept)
        self._spent, self.mode, self.kept, self._since = event.spent, event.mode, event.kept, ""

    def clear_checkpoint(self) -> None:
        """Drop the checkpoint: no question is open, or that is unknown."""
        self.checkpoint = None

    def note_answer(self, mode: str = "") -> None:
        """Record the user's answer.

        mode: the mode in which an approved plan is carried out.
        """
        self._since, self.mode = self._since or self._until, mode or self.mode

    def advance(self, time: str) -> None:
        """Advance the clock to the time of a record."""
        self._until = time

    def count_call(self, result: ToolMessage) -> None:
        """Count a finished call."""
        action = Action(result.name, "failed" if result.is_error else "done")
        self._spent = self._spent.replace(tool_calls=self._spent.tool_calls + 1, actions=(*self._spent.actions, action))

    def add_usage(self, model: str, usage: Usage) -> None:
        """Add the usage of a model call."""
        self.by_model = {**self.by_model, model: self.by_model.get(model, Usage()) + usage}
        self._spent = self._spent.replace(cost=self._spent.cost + usage.cost, usage=self._spent.usage + usage)

    def enter_round(self, round_: int) -> None:
        """Begin a round; a sub-agent's rounds count on from its parent's."""
        self._spent = self._spent.replace(rounds=max(self._spent.rounds, round_))

    @property
    def spent(self) -> Spent:
        """What the turn has spent up to the last record."""
        if not (self._since and self._until):
            return self._spent
        seconds = max(0.0, _seconds(self._until) - _seconds(self._since))
        return self._spent.replace(seconds=self._spent.seconds + seconds)


def _seconds(time: str) -> float:
    """Convert a log time (UTC, ISO 8601) to seconds."""
    try:
        return timegm(strptime(time[:19], "%Y-%m-%dT%H:%M:%S")) + float(f"0{time[19:].rstrip('Z')}")
    except ValueError:
        return 0.0


# Events that carry state; the others are only informative.
KINDS = events_by_tag(
    "ApprovalRequested ApprovalResolved Checkpoint Compacted FilesSeen LeftOut MessageAdded Pinned PlanChanged "
    "QuestionAnswered QuestionAsked Rewound RoundStarted SessionNamed SubagentEvent ToolFinished ToolRequested "
    "ToolStarted TurnFinished TurnPaused TurnResumed TurnStarted Uncompacted UsageAdded"
)
# An estimate that needs no tokenizer.
_CHARS_PER_TOKEN = 4
T = TypeVar("T")
# Terminal reasons of turns that can be resumed as they are.
_CUT_OFF = ("interrupted", "inference_error")
# What a waiting turn has by call.
_DECIDED = ("requests", "questions", "decisions", "answers", "edits")


class AgentReplay:
    """A sub-agent in the background: its turn is replayed like any other. ended: how; None while it goes on."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.state = ReplayState()
        self.ended: TurnFinished | None = None

    def restored(self, call_id: str) -> RestoredAgent:
        """Return the state from which another process continues, or its report."""
        state, waits = self.state, self.state.waiting()
        asked: tuple[ApprovalRequested | QuestionAsked, ...] = ()
        if waits is not None:
            asked = (*waits.requests.values(), *waits.questions.values())
        return RestoredAgent(
            self.name, self.kind, call_id, state.history.end(), asked, frozenset(state.started), state.seen,
            state.shell, tuple(state.window.compactions), self.ended,
        )  # fmt: skip


class ReplayState:
    """The state after the records read so far. agents: sub-agents in the background that the model has no report of."""

    def __init__(self) -> None:
        self.history = History()
        self.seen: dict[str, str] = {}
        self.plan: tuple[TodoItem, ...] = ()
        self.plans: list[tuple[int, tuple[TodoItem, ...]]] = []
        self.usage = Usage()
        self.last: Diagnostics | None = None
        self.name = ""
        self.turn = OpenTurn()
        self.started: set[str] = set()
        self._tokens = 0
        self._since = 0
        self._last_usage: Usage | None = None
        self.grants: list[str] = []
        self.requests: dict[str, ApprovalRequested] = {}
        self.questions: dict[str, QuestionAsked] = {}
        self.decisions: dict[str, ApprovalResolved] = {}
        self.answers: dict[str, QuestionAnswered] = {}
        # Decisions that changed the arguments of a call, which is then asked about with the new ones.
        self.edits: dict[str, ApprovalResolved] = {}
        self.asked_at = ""
        self.nested: dict[str, History] = {}
        self.nested_seen: dict[str, dict[str, str]] = {}
        self.shell: ShellSnapshot | None = None
        self.nested_shell: dict[str, ShellSnapshot] = {}
        self.window = Window()
        self.nested_windows: dict[str, Window] = {}
        self.counts: dict[str, int] = {}
        self.agents: dict[str, AgentReplay] = {}

    def apply(self, event: Event, time: str) -> None:
        self.turn.advance(time)
        match event:
            case MessageAdded(message=message):
                self.counts[""] = self.counts.get("", 0) + 1
                self.history.add(message)
                self._after_message(message)
                self._count(message)
                for call_id in reported_calls(message.text) if self.agents else ():
                    self.agents.pop(call_id, None)
            case RoundStarted(round=number):
                self.turn.enter_round(number)
            case ToolRequested(call_id=call_id, tool=tool, arguments=arguments):
                self.history.note_call(ToolCall(call_id, tool, arguments))
            case ToolStarted(call_id=call_id):
                self.started.add(call_id)
            case FilesSeen(seen=seen):
                self.seen |= seen
            case ToolFinished(seen=seen, shell=shell):
                self.seen |= seen
                self.shell = shell or self.shell
            case UsageAdded(model=model, usage=usage, aside=aside):
                self.usage += usage
                if event.of_turn:
                    self.turn.add_usage(model, usage)
                if not aside:
                    self._last_usage = usage
                    self.window.record_usage(usage, len(self.history.messages) + 1)
            case Compacted() | Uncompacted() | Pinned() | LeftOut():
                self._apply_to_window(event)
            case PlanChanged(items=items, paused=False):
                self.plan = items
                self.plans.append((len(self.history.messages), items))
            case Rewound(messages=messages, plan=plan):
                gone = sum(map(_characters, self.history.messages[messages:])) // _CHARS_PER_TOKEN
                self._tokens, self._since = max(0, self.tokens - gone), 0
                self.history.rewind(messages)
                self.window.rewind_to(messages)
                self.plan, self.seen = plan, {}
                self.agents = {i: agent for i, agent in self.agents.items() if agent.ended is None}
                self.plans = [(count, items) for count, items in self.plans if count <= messages]
            case TurnStarted():
                self.turn.begin(event, time, resumed=bool(self.history.open))
                self.last = None
                self.history.turn_started()
            case TurnResumed():
                self.turn.resume()
            case TurnPaused() | Checkpoint():
                self.turn.save_checkpoint(event)
            case TurnFinished(diagnostics=diagnostics, failure=failure):
                self.last = diagnostics
                self.window.refusal = failure.complaint if failure is not None and failure.reducible else ""
            case SessionNamed(name=name, usage=usage):
                self.name, self.usage = name, self.usage + usage
            case ApprovalRequested(call_id=call_id, binding=binding):
                self.requests[call_id] = event
                # A review before this call was answered; now the call itself is in question.
                self.questions.pop(call_id, None)
                self.answers.pop(call_id, None)
                # A decision is valid only for the request that was shown.
                if (decided := self.decisions.get(call_id)) is not None and decided.binding != binding:
                    del self.decisions[call_id]
                    if decided.arguments is not None:
                        self.edits[call_id] = decided
                self.asked_at = time
            case ApprovalResolved():
                self._apply_decision(event)
            case QuestionAsked(call_id=call_id, ran=ran):
                self.questions[call_id] = event
                if ran is not None:
                    # The call has run, so it was approved; only its question is open.
                    self.requests.pop(call_id, None)
                    self.decisions.pop(call_id, None)
                self.asked_at = time
            case QuestionAnswered(call_id=call_id, verdict=verdict, mode=mode):
                if verdict != "defer":
                    self.answers[call_id] = event
                    self.turn.note_answer(mode)
            case SubagentEvent():
                self._apply_to_agent(event, time)

    def _apply_to_agent(self, event: SubagentEvent, time: str) -> None:
        """Apply an event of a sub-agent. One in the background has a state for itself."""
        call_id, inner = event.call_id, event.event
        if not event.name:
            self._apply_nested(call_id, inner, time)
            return
        agent = self.agents.setdefault(call_id, AgentReplay(event.name, event.agent))
        agent.state.apply(inner, time)
        if isinstance(inner, MessageAdded):
            self.counts[call_id] = self.counts.get(call_id, 0) + 1
        elif isinstance(inner, UsageAdded):
            self.usage += inner.usage
            self.turn.add_usage(inner.model, inner.usage)
        elif isinstance(inner, TurnFinished):
            agent.ended = inner if inner.result != "Suspended" else None

    def _apply_to_window(self, event: Compacted | Uncompacted | Pinned | LeftOut) -> None:
        """Apply an event that changes what the model is shown of the history."""
        self.window.apply(event, len(self.history.messages))
        if isinstance(event, Compacted):
            self._tokens, self._since = event.tokens_after, 0
            self.seen |= event.seen
        elif isinstance(event, Uncompacted):
            self._tokens, self._since = event.tokens, 0

    def _apply_nested(self, call_id: str, event: Event, time: str) -> None:
        """Apply a sub-agent's event. Its history is needed until its Task call is answered."""
        match event:
            case MessageAdded(message=message):
                self.counts[call_id] = self.counts.get(call_id, 0) + 1
                self.nested.setdefault(call_id, History()).add(message)
                self._after_message(message)
            case RoundStarted(round=number):
                self.turn.enter_round(number)
            case UsageAdded(model=model, usage=usage):
                self.usage += usage
                self.turn.add_usage(model, usage)
            case ToolStarted(call_id=started):
                self.started.add(started)
            case ToolRequested(call_id=asked, tool=tool, arguments=arguments):
                self.nested.setdefault(call_id, History()).note_call(ToolCall(asked, tool, arguments))
            case ToolFinished(seen=seen, shell=shell):
                self.nested_seen.setdefault(call_id, {}).update(seen)
                if shell is not None:
                    self.nested_shell[call_id] = shell
            case Compacted():
                there = self.nested.setdefault(call_id, History())
                self.nested_windows.setdefault(call_id, Window()).apply(event, len(there.messages))
            case SubagentEvent(call_id=deeper, event=inner):
                self._apply_nested(deeper, inner, time)
            case ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered():
                self.apply(event, time)

    def _apply_decision(self, event: ApprovalResolved) -> None:
        """Record a user's decision; deferring is not one."""
        if event.by == "person" and event.decision != "defer":
            self.turn.note_answer(event.mode)
            self.decisions[event.call_id] = event
            if event.rule and (event.decision == "approve" or event.arguments is not None):
                self.grants.append(event.rule)

    def _after_message(self, message: Message) -> None:
        """Update the turn for a new message: a call was answered, or the model continued and no question is open."""
        if isinstance(message, ToolMessage):
            self.turn.count_call(message)
            self._forget(message.call_id)
            self.started.discard(message.call_id)
        else:
            self.turn.clear_checkpoint()

    def _forget(self, call_id: str) -> None:
        for kept in (
            self.requests,
            self.questions,
            self.decisions,
            self.answers,
            self.edits,
            self.nested,
            self.nested_windows,
        ):
            kept.pop(call_id, None)

    def mark_lost(self) -> None:
        """Note missing records. Pending calls may have run in them, so they must not run again."""
        for history in (self.history, *self.nested.values()):
            history.mark_lost()
        self.turn.clear_checkpoint()
        for agent in self.agents.values():
            agent.state.mark_lost()

    def _count(self, message: Message) -> None:
        """Track the context size: a usage report comes just before its answer."""
        usage, self._last_usage = self._last_usage, None
        if isinstance(message, AssistantMessage) and usage is not None and usage.input:
            self._tokens, self._since = usage.input + usage.output, 0
        else:
            self._since += _characters(message)

    @property
    def tokens(self) -> int:
        return self._tokens + self._since // _CHARS_PER_TOKEN

    def waiting(self) -> WaitingTurn | None:
        """Return the turn that waits for a user, or for decisions to be carried out; None if there is none.

        A call that has begun is not pending: it may have run in part and must not run again. Later calls that the user
        has decided still wait. The questions of sub-agents in the background wait with those of the turn.
        """
        found = self._own_waiting()
        for call_id, agent in self.agents.items():
            if agent.ended is None and (asked := agent.state.waiting()) is not None:
                found = found or self._build_waiting(())
                found = found.replace(
                    names={**found.names, call_id: agent.name},
                    nested={**found.nested, call_id: agent.state.history.end()},
                    asked_at=max(found.asked_at, asked.asked_at),
                    grants=(*found.grants, *asked.grants),
                    **{name: {**getattr(found, name), **getattr(asked, name)} for name in _DECIDED},
                )
        return found

    def _own_waiting(self) -> WaitingTurn | None:
        started = self._started_calls(self.history.open)
        inside = self._started_calls(i for history in self.nested.values() for i in history.open)
        calls = tuple(call for call in self.history.open.values() if call.id not in started)
        if not calls or self.turn.checkpoint is None or inside:
            return None
        if started and not any(call.id in self.decisions or call.id in self.answers for call in calls):
            return None
        return self._build_waiting(calls, started)

    def interrupted(self) -> WaitingTurn | None:
        """Return the turn that was cut off, if it can be resumed; its open calls cannot."""
        broke_off = self.last is None or self.last.terminal_reason in _CUT_OFF
        broke_off = broke_off or any(agent.ended is None for agent in self.agents.values())
        # A fork has no turn yet.
        if not (broke_off and self.turn.began.model and self.history.messages) or self.waiting() is not None:
            return None
        return self._build_waiting(())

    def _started_calls(self, calls: Iterable[str]) -> set[str]:
        """Return the open calls that have started, except sub-agents, which resume with their own open calls."""
        # A call that has run and whose result asks the user does not run again.
        asking = {i for i, asked in self.questions.items() if asked.ran is not None}
        return {i for i in calls if i in self.started and i not in self.nested and i not in asking}

    def _build_waiting(self, calls: tuple[ToolCall, ...], started: Collection[str] = ()) -> WaitingTurn:
        turn = WaitingTurn(
            calls=calls,
            requests={},
            questions={},
            decisions={},
            answers={},
            spent=self.turn.spent,
            mode=self.turn.mode,
            grants=tuple(self.grants),
            saved=self.turn.began.saved,
            asked_at=self.asked_at,
            kept=self.turn.kept,
            by_model=self.turn.by_model,
        )
        if not calls:
            return turn
        return turn.replace(
            requests=_without(self.requests, started),
            questions=_without(self.questions, started),
            decisions=_without(self.decisions, started),
            answers=_without(self.answers, started),
            edits=_without(self.edits, started),
            nested_seen=dict(self.nested_seen),
            nested_shell=dict(self.nested_shell),
            nested={call_id: history.end() for call_id, history in self.nested.items()},
            nested_compactions={i: tuple(w.compactions) for i, w in self.nested_windows.items()},
        )


def _without(found: Mapping[str, T], gone: Collection[str]) -> dict[str, T]:
    return {i: item for i, item in found.items() if i not in gone}


def _characters(message: Message) -> int:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return len(message.text) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
