"""Session values: the header, the state restored from a log, and the entry in a session list."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    LeftOut,
    QuestionAnswered,
    QuestionAsked,
    TurnFinished,
)
from agent_cli.kernel.messages import Message, ToolCall
from agent_cli.kernel.modes import MAX_PLAN_MINUTES
from agent_cli.kernel.results import Diagnostics, Spent, Usage
from agent_cli.kernel.session.files import is_running
from agent_cli.kernel.window import Compaction, UsageReport
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import TodoItem
from agent_tools.shell.state import ShellSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

with lazy_imports():
    from agent_cli.kernel.session import pending_items, pending_plans  # only where something waits


# fmt: off
Stage = Literal[
    "executing", "awaiting_tool_approval", "awaiting_plan_approval", "awaiting_answer",
    "completed", "failed", "interrupted",
]
# fmt: on
# Results of turns that did not complete, by terminal reason.
ENDS: dict[str, Stage] = {
    "inference_error": "failed",
    "failed": "failed",
    "cancelled": "interrupted",
    "interrupted": "interrupted",
}  # fmt: skip
_DECISION_WORDS = {"approve": "approved", "reject": "rejected", "answer": "answered", "revise": "sent back"}
_DECISION_WORDS |= {"undo": "undone", "cancel": "cancelled"}


class SessionNotFoundError(Exception):
    """No session matches, or several do: `found` has their summaries, the latest first. The message says which."""

    def __init__(self, text: str, found: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.found = found


class Header(Value, tag="Header"):
    """The first record: the fixed facts of a session.

    system: the whole system prompt, including the environment block.
    tools: tool names, fixed at the first request.
    branch: git branch checked out at the start.
    answered: questions could be answered when it began.
    small: the model is offered few tools, with short descriptions.
    schedule: ID of the schedule that started it; "" for none.
    taken_from: the program and the session that it was taken over from: "claude ID"; "" for none.
    host: the other program that has the session and only asks here (`agent gate`); "" for our own sessions.
    """

    session_id: str
    cwd: str
    root: str
    model: str
    system: str
    tools: tuple[str, ...]
    version: str
    forked_from: str = ""
    branch: str = ""
    answered: bool = True
    small: bool = False
    schedule: str = ""
    taken_from: str = ""
    host: str = ""

    @property
    def unrecorded(self) -> str:
        """A sentence about changes that cannot be undone, to follow that there are none; "" for a session of ours."""
        return " What was changed before it was taken over is not recorded." if self.taken_from else ""

    @property
    def begun(self) -> bool:
        """False until a session that was taken over is opened: only then has it a prompt and tools."""
        return not self.taken_from or bool(self.version)


class Partial(Value, tag="Partial"):
    """A piece of an unfinished answer.

    start: its offset in the answer.
    """

    text: str
    start: int = 0


class Mended(Value, tag="Mended"):
    """The log was damaged and has been rewritten.

    bad: number of records lost.
    missing: number of sequence numbers missing at that time.
    kept: file name of the damaged log.
    waiting: the session was waiting for the user at that time.
    """

    bad: int
    missing: int
    kept: str
    waiting: bool = False


class WaitingTurn(Value, tag="Waiting"):
    """A suspended turn: the open calls, the decisions so far, and the state to resume with.

    requests, questions: by call id, for open calls only, including those of sub-agents.
    decisions, answers: the user's, not carried out yet.
    edits: decisions that changed the arguments of a call that was then asked about again.
    asked_at: when the user was last asked.
    nested: histories of sub-agents, by the id of their Task call.
    by_model: usage of the turn so far.
    names: of the sub-agents in the background, by the id of their Task call; their questions are among the others.
    """

    calls: tuple[ToolCall, ...]
    requests: dict[str, ApprovalRequested]
    questions: dict[str, QuestionAsked]
    decisions: dict[str, ApprovalResolved]
    answers: dict[str, QuestionAnswered]
    spent: Spent
    mode: str
    grants: tuple[str, ...]
    saved: dict[str, Any]
    asked_at: str
    nested: dict[str, tuple[Message, ...]] = {}  # noqa: RUF012 - never changed
    nested_seen: dict[str, dict[str, str]] = {}  # noqa: RUF012 - never changed
    nested_shell: dict[str, ShellSnapshot] = {}  # noqa: RUF012 - never changed
    nested_compactions: dict[str, tuple[Compaction, ...]] = {}  # noqa: RUF012 - never changed
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed
    by_model: dict[str, Usage] = {}  # noqa: RUF012 - never changed
    edits: dict[str, ApprovalResolved] = {}  # noqa: RUF012 - never changed
    names: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def undecided(self) -> tuple[str, ...]:
        """Ids of calls that still need a decision."""
        return tuple(i for i in (*self.requests, *self.questions) if i not in self.decisions and i not in self.answers)

    @property
    def decided(self) -> tuple[str, ...]:
        """Ids of calls that are decided but not carried out."""
        return tuple(i for i in (*self.requests, *self.questions) if i in self.decisions or i in self.answers)

    @property
    def plan_ttl(self) -> int:
        """Minutes after which a plan that it presents expires; 0 for never."""
        return int(self.saved.get("settings", {}).get("plan_ttl", MAX_PLAN_MINUTES))

    def expired(self, minutes: int) -> str:
        """Return the message that its plan has expired, for the user and the model; "" if it has not."""
        expired = self.asked_at and pending_plans.is_expired(pending_plans.seconds_of(self.asked_at), minutes)
        return pending_plans.expired_words(minutes) if expired else ""

    def feedback(self, words: str) -> str:
        """Wrap the user's words about the plan that it waits for, for the model."""
        return pending_plans.feedback_block(self.questions[self.undecided[0]].data, words)

    @property
    def is_deferred(self) -> bool:
        """True if it waits only because a hook deferred calls; resuming it asks the hook again."""
        asked = [self.requests.get(call_id) for call_id in self.undecided]
        return bool(asked) and all(request is not None and request.deferred for request in asked)

    @staticmethod
    def hook_mark(pid: int, until: float) -> dict[str, Any]:
        """Return what a checkpoint says of the hook that waits for a decision about a call of another program."""
        return {"gate": [pid, until]}

    @property
    def hook_waits(self) -> bool:
        """True if the hook of another program still waits for the decision."""
        pid, until = self.kept.get("gate", (0, 0.0))
        return bool(until > time.time() and is_running(pid))

    def decision_word(self, call_id: str) -> str:
        """Return the user's decision about a call, in one word."""
        found, answer = self.decisions.get(call_id), self.answers.get(call_id)
        word = found.decision if found is not None else answer.verdict if answer is not None else ""
        return _DECISION_WORDS.get(word, word)


class RestoredAgent(Value):
    """A sub-agent in the background that has not ended, or whose report the model does not have.

    history: its messages, with open calls. asked: what it asks the user.
    started: ids of calls that have begun.
    ended: how it ended; None if it did not.
    """

    name: str
    kind: str
    call_id: str
    history: tuple[Message, ...]
    asked: tuple[ApprovalRequested | QuestionAsked, ...] = ()
    started: frozenset[str] = frozenset()
    seen: dict[str, str] = {}  # noqa: RUF012 - never changed
    shell: ShellSnapshot | None = None
    compactions: tuple[Compaction, ...] = ()
    ended: TurnFinished | None = None


class Restored(Value):
    """A session restored from its log.

    last: end of the last turn; None while it runs or if it was cut off.
    seq, parent: where the log continues.
    bad: number of records lost since the last repair.
    waiting: the turn that waits for the user, or for a decision to be carried out.
    interrupted: a turn that was cut off otherwise.
    compactions, pins, report, left_out, refusal: the model's view of the history, see `Window`.
    missing: number of missing sequence numbers, repaired or not.
    rebuilt: the header was lost and reconstructed from other records, or has no prompt yet.
    started: ids of open calls that have begun.
    tokens: context size, from the last model call and estimated since.
    name: the session's name; "" if it has none.
    mode: the permission mode of its last turn; "" if the log does not say.
    plans: versions of the plan, each with the number of messages at that time.
    counts: numbers of messages in the log, by scope, for `MessageIds`.
    uuids: those of each message, if they were read from a transcript.
    agents: sub-agents in the background.
    """

    header: Header
    history: tuple[Message, ...]
    seen: dict[str, str]
    plan: tuple[TodoItem, ...]
    usage: Usage
    last: Diagnostics | None
    seq: int
    parent: str
    created: str
    updated: str
    bad: int = 0
    waiting: WaitingTurn | None = None
    interrupted: WaitingTurn | None = None
    model: str = ""
    shell: ShellSnapshot | None = None
    compactions: tuple[Compaction, ...] = ()
    pins: tuple[str, ...] = ()
    report: UsageReport | None = None
    left_out: tuple[LeftOut, ...] = ()
    refusal: str = ""
    missing: int = 0
    rebuilt: bool = False
    started: frozenset[str] = frozenset()
    tokens: int = 0
    name: str = ""
    mode: str = ""
    plans: tuple[tuple[int, tuple[TodoItem, ...]], ...] = ()
    counts: dict[str, int] = {}  # noqa: RUF012 - never changed
    uuids: tuple[tuple[str, ...], ...] = ()
    agents: tuple[RestoredAgent, ...] = ()

    @property
    def stage(self) -> Stage:
        """Where its last turn is, from the log alone."""
        waiting = self.waiting
        if waiting is not None and waiting.undecided:
            questions = [waiting.questions[i] for i in waiting.undecided if i in waiting.questions]
            if not questions:
                return "awaiting_tool_approval"
            return "awaiting_plan_approval" if questions[0].kind == "plan" else "awaiting_answer"
        if waiting is not None:
            return "interrupted"
        if self.last is None:
            return "executing" if self.history else "completed"
        return ENDS.get(self.last.terminal_reason, "completed")

    def pending(self) -> list[dict[str, Any]]:
        """Return the pending decisions as JSON data: open ones in the order of the calls, then made ones.

        Those that were made, but not carried out yet, have `decided`, which describes the decision.
        """
        waiting = self.waiting
        if waiting is None or (self.header.host and not waiting.hook_waits):
            return []
        asked = [waiting.requests.get(i) or waiting.questions[i] for i in (*waiting.undecided, *waiting.decided)]
        ttl, at, names = waiting.plan_ttl, waiting.asked_at, waiting.names
        items = pending_items.pending_items(asked, self.history, waiting.nested, asked_at=at, plan_ttl=ttl, names=names)
        for item in items[len(waiting.undecided) :]:
            item["decided"] = f"{waiting.decision_word(item['call_id'])}, not run"
        return items


class SessionInfo(Value):
    """An entry of `agent sessions list`.

    stage: see `Stage`.
    pending, completed: summaries of calls.
    name: "" if the session has none.
    size: bytes on disk.
    """

    session_id: str
    cwd: str
    model: str
    first_message: str
    query: str
    stage: str
    messages: int
    cost: float
    plan: tuple[TodoItem, ...]
    pending: tuple[str, ...]
    completed: tuple[str, ...]
    created: str
    updated: str
    name: str = ""
    branch: str = ""
    root: str = ""
    size: int = 0
