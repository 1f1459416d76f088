"""What the records of a log add up to: history, what the model has seen, the plan, and what waits.

The turn at the end of a log: what it has spent, and what it is resumed with.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Collection, Iterable, Mapping
from time import strptime
from typing import Any, TypeVar

from agent_cli.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Checkpoint,
    Compacted,
    Event,
    FilesSeen,
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
from agent_cli.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from agent_cli.core.results import Action, Diagnostics, Spent, Usage
from agent_cli.core.window import Window
from agent_cli.session.history import History
from agent_cli.session.records import WaitingTurn
from agent_tools.display import TodoItem
from agent_tools.shell.state import ShellSnapshot


class OpenTurn:
    """What the records of a turn add up to. held: its state when a user was asked last; None where nobody was asked
    since the model's last answer, or where that can no longer be told. mode and kept: as in a checkpoint, as far as is
    known.
    """

    def __init__(self) -> None:
        self.began = TurnStarted("", "")
        self.held: Checkpoint | None = None
        self.mode = ""
        self.kept: dict[str, Any] = {}
        self.by_model: dict[str, Usage] = {}
        self._spent = Spent()
        self._before = (self._spent, self.mode, self.kept, self.by_model)
        # Since when it has been working; empty while a user is asked.
        self._since = self._until = ""

    def begin(self, event: TurnStarted, time: str, *, resumed: bool) -> None:
        """A turn starts, or resumes with the calls that it left open."""
        self.began, self._since = event, time
        self._before = self._spent, self.mode, self.kept, self.by_model
        if not resumed:
            lent = event.saved.get("lent")
            self.held, self._spent, self.mode, self.by_model = None, Spent(), event.mode, {}
            self.kept = {"lent": [lent]} if lent else {}

    def resume(self) -> None:
        """The turn that has begun resumes with what was spent before."""
        self._spent, self.mode, self.kept, self.by_model = self._before

    def hold(self, event: Checkpoint | TurnPaused) -> None:
        """A user is asked: the account is exact here."""
        self.held = Checkpoint(event.spent, event.mode, event.kept)
        self._spent, self.mode, self.kept, self._since = event.spent, event.mode, event.kept, ""

    def release(self) -> None:
        """Nothing is asked any more, or that can no longer be told."""
        self.held = None

    def answered(self, mode: str = "") -> None:
        """A user has answered. mode: what a plan is to be carried out in."""
        self._since, self.mode = self._since or self._until, mode or self.mode

    def reached(self, time: str) -> None:
        """A record of this time."""
        self._until = time

    def called(self, result: ToolMessage) -> None:
        """A call has its result."""
        action = Action(result.name, "failed" if result.is_error else "done")
        self._spent = self._spent.but(tool_calls=self._spent.tool_calls + 1, actions=(*self._spent.actions, action))

    def used(self, model: str, usage: Usage) -> None:
        """A model call has begun and been paid for."""
        self.by_model = {**self.by_model, model: self.by_model.get(model, Usage()) + usage}
        self._spent = self._spent.but(cost=self._spent.cost + usage.cost, usage=self._spent.usage + usage)

    def entered(self, round_: int) -> None:
        """A round begins; a sub-agent's are counted on from its parent's."""
        self._spent = self._spent.but(rounds=max(self._spent.rounds, round_))

    @property
    def spent(self) -> Spent:
        """What the turn has spent by the last record."""
        if not (self._since and self._until):
            return self._spent
        seconds = max(0.0, _seconds(self._until) - _seconds(self._since))
        return self._spent.but(seconds=self._spent.seconds + seconds)


def _seconds(time: str) -> float:
    """A time as the log writes it (UTC, ISO 8601), in seconds."""
    try:
        return timegm(strptime(time[:19], "%Y-%m-%dT%H:%M:%S")) + float(f"0{time[19:].rstrip('Z')}")
    except ValueError:
        return 0.0


# Records that carry state; the others are for people and tools that read the log.
KINDS = events_by_tag(
    "ApprovalRequested ApprovalResolved Checkpoint Compacted FilesSeen MessageAdded Pinned PlanChanged "
    "QuestionAnswered QuestionAsked Rewound RoundStarted SessionNamed SubagentEvent ToolFinished ToolRequested "
    "ToolStarted TurnFinished TurnPaused TurnResumed TurnStarted Uncompacted UsageAdded"
)
# As good a guess as there is without a tokenizer.
_CHARACTERS = 4
T = TypeVar("T")
# How a turn ended that can be resumed as it stands.
_CUT_OFF = ("interrupted", "inference_error")


class ReplayState:
    """What the records read so far add up to."""

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
        self._used: Usage | None = None
        self.grants: list[str] = []
        self.requests: dict[str, ApprovalRequested] = {}
        self.questions: dict[str, QuestionAsked] = {}
        self.decisions: dict[str, ApprovalResolved] = {}
        self.answers: dict[str, QuestionAnswered] = {}
        self.asked_at = ""
        self.nested: dict[str, History] = {}
        self.nested_seen: dict[str, dict[str, str]] = {}
        self.shell: ShellSnapshot | None = None
        self.nested_shell: dict[str, ShellSnapshot] = {}
        self.window = Window()
        self.nested_windows: dict[str, Window] = {}

    def take(self, event: Event, time: str) -> None:
        self.turn.reached(time)
        match event:
            case MessageAdded(message=message):
                self.history.add(message)
                self._moved(message)
                self._count(message)
            case RoundStarted(round=number):
                self.turn.entered(number)
            case ToolRequested(call_id=call_id, tool=tool, arguments=arguments):
                self.history.called(ToolCall(call_id, tool, arguments))
            case ToolStarted(call_id=call_id):
                self.started.add(call_id)
            case FilesSeen(seen=seen):
                self.seen |= seen
            case ToolFinished(seen=seen, shell=shell):
                self.seen |= seen
                self.shell = shell or self.shell
            case UsageAdded(model=model, usage=usage, aside=aside):
                self.turn.used(model, usage)
                if not aside:
                    self._used = usage
                    self.window.reported(usage, len(self.history.messages) + 1)
            case Compacted() | Uncompacted() | Pinned():
                self._seen_otherwise(event)
            case PlanChanged(items=items, paused=False):
                self.plan = items
                self.plans.append((len(self.history.messages), items))
            case Rewound(messages=messages, plan=plan):
                gone = sum(map(_characters, self.history.messages[messages:])) // _CHARACTERS
                self._tokens, self._since = max(0, self.tokens - gone), 0
                self.history.rewind(messages)
                self.window.rewind_to(messages)
                self.plan, self.seen = plan, {}
                self.plans = [(count, items) for count, items in self.plans if count <= messages]
            case TurnStarted():
                self.turn.begin(event, time, resumed=bool(self.history.open))
                self.last = None
                self.history.turn_started()
            case TurnResumed():
                self.turn.resume()
            case TurnPaused() | Checkpoint():
                self.turn.hold(event)
            case TurnFinished(usage=usage, diagnostics=diagnostics):
                self.usage, self.last = self.usage + usage, diagnostics
            case SessionNamed(name=name, usage=usage):
                self.name, self.usage = name, self.usage + usage
            case ApprovalRequested(call_id=call_id, binding=binding):
                self.requests[call_id] = event
                # A review before this call was answered; now the call itself is asked about.
                self.questions.pop(call_id, None)
                self.answers.pop(call_id, None)
                # What was decided holds for just what was shown.
                if (decided := self.decisions.get(call_id)) is not None and decided.binding != binding:
                    del self.decisions[call_id]
                self.asked_at = time
            case ApprovalResolved():
                self._decided(event)
            case QuestionAsked(call_id=call_id, ran=ran):
                self.questions[call_id] = event
                if ran is not None:
                    # It was approved, or it would not have run; only the question is open.
                    self.requests.pop(call_id, None)
                    self.decisions.pop(call_id, None)
                self.asked_at = time
            case QuestionAnswered(call_id=call_id, verdict=verdict, mode=mode):
                if verdict != "defer":
                    self.answers[call_id] = event
                    self.turn.answered(mode)
            case SubagentEvent(call_id=call_id, event=inner):
                self._take_nested(call_id, inner, time)

    def _seen_otherwise(self, event: Compacted | Uncompacted | Pinned) -> None:
        """The model is shown something else of the history than before."""
        self.window.apply(event, len(self.history.messages))
        if isinstance(event, Compacted):
            self._tokens, self._since = event.tokens_after, 0
            self.seen |= event.seen
            # What it cost is part of a turn's usage, unless the user asked for it between turns.
            self.usage += event.usage if event.trigger == "manual" else Usage()
        elif isinstance(event, Uncompacted):
            self._tokens, self._since = event.tokens, 0

    def _take_nested(self, call_id: str, event: Event, time: str) -> None:
        """A sub-agent's history is kept until its Task call is answered; what it asks waits like any other call."""
        match event:
            case MessageAdded(message=message):
                self.nested.setdefault(call_id, History()).add(message)
                self._moved(message)
            case RoundStarted(round=number):
                self.turn.entered(number)
            case UsageAdded(model=model, usage=usage):
                self.turn.used(model, usage)
            case ToolStarted(call_id=started):
                self.started.add(started)
            case ToolRequested(call_id=asked, tool=tool, arguments=arguments):
                self.nested.setdefault(call_id, History()).called(ToolCall(asked, tool, arguments))
            case ToolFinished(seen=seen, shell=shell):
                self.nested_seen.setdefault(call_id, {}).update(seen)
                if shell is not None:
                    self.nested_shell[call_id] = shell
            case Compacted():
                there = self.nested.setdefault(call_id, History())
                self.nested_windows.setdefault(call_id, Window()).apply(event, len(there.messages))
            case SubagentEvent(call_id=deeper, event=inner):
                self._take_nested(deeper, inner, time)
            case ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered():
                self.take(event, time)

    def _decided(self, event: ApprovalResolved) -> None:
        """A user's decision about what was shown; deferring is none."""
        if event.by == "person" and event.decision != "defer":
            self.turn.answered()
            self.decisions[event.call_id] = event
            if event.rule and event.decision == "approve":
                self.grants.append(event.rule)

    def _moved(self, message: Message) -> None:
        """A history grew: a call has its result, or the model goes on, and what a user was asked is settled."""
        if isinstance(message, ToolMessage):
            self.turn.called(message)
            self._forget(message.call_id)
            self.started.discard(message.call_id)
        else:
            self.turn.release()

    def _forget(self, call_id: str) -> None:
        for kept in (self.requests, self.questions, self.decisions, self.answers, self.nested, self.nested_windows):
            kept.pop(call_id, None)

    def lost(self) -> None:
        """Records are missing here. What waits may have gone on in them, and must not run a second time."""
        for history in (self.history, *self.nested.values()):
            history.lost()
        self.turn.release()

    def _count(self, message: Message) -> None:
        """Keep account of what the conversation fills of a window: a report comes just before its answer."""
        used, self._used = self._used, None
        if isinstance(message, AssistantMessage) and used is not None and used.input:
            self._tokens, self._since = used.input + used.output, 0
        else:
            self._since += _characters(message)

    @property
    def tokens(self) -> int:
        return self._tokens + self._since // _CHARACTERS

    def waiting(self) -> WaitingTurn | None:
        """The turn that waits for a user, or for what a user has decided to be carried out; None where there is none.

        A call that has begun does not wait: it may have run in part, and must not run a second time. Behind it, what
        the user has decided still waits to be carried out.
        """
        begun = self._begun(self.history.open)
        inside = self._begun(i for history in self.nested.values() for i in history.open)
        calls = tuple(call for call in self.history.open.values() if call.id not in begun)
        if not calls or self.turn.held is None or inside:
            return None
        if begun and not any(call.id in self.decisions or call.id in self.answers for call in calls):
            return None
        return self._resumable(calls, begun)

    def interrupted(self) -> WaitingTurn | None:
        """The turn that broke off, where it can be resumed; its open calls are not."""
        broke_off = self.last is None or self.last.terminal_reason in _CUT_OFF
        # A copy of a session has no turn of its own yet.
        if not (broke_off and self.turn.began.model and self.history.messages) or self.waiting() is not None:
            return None
        return self._resumable(())

    def _begun(self, calls: Iterable[str]) -> set[str]:
        """Those of the open calls that have begun. A sub-agent's call resumes with what is open in it."""
        # A call that has run, and whose result asks the user, is not run again.
        asking = {i for i, asked in self.questions.items() if asked.ran is not None}
        return {i for i in calls if i in self.started and i not in self.nested and i not in asking}

    def _resumable(self, calls: tuple[ToolCall, ...], begun: Collection[str] = ()) -> WaitingTurn:
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
        return turn.but(
            requests=_without(self.requests, begun),
            questions=_without(self.questions, begun),
            decisions=_without(self.decisions, begun),
            answers=_without(self.answers, begun),
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
