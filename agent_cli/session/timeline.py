"""Build the timeline of a session, turn by turn, for `agent show` and the stage in lists.

Also the usage report of a log, by model and by turn; it includes sub-agents and helper calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from agent_cli.core.events import Compacted, HookFinished, SessionNamed, Uncompacted
from agent_cli.core.hooks import HOOK_EVENTS
from agent_cli.core.messages import is_synthetic, user_text
from agent_cli.core.results import Usage
from agent_cli.core.window import compacted_line, uncompacted_line
from agent_cli.session.records import Restored
from agent_cli.session.restore import records
from agent_cli.session.summary import ENDS
from agent_tools.record import Value, from_json

# fmt: off
Stage = Literal[
    "executing", "awaiting_tool_approval", "awaiting_plan_approval", "awaiting_answer",
    "completed", "failed", "interrupted",
]
# fmt: on
_BEFORE_MESSAGE = frozenset(row.name for row in HOOK_EVENTS.values() if row.before_message)


def decision_words(decision: str, by: str, name: str = "") -> str:
    """Describe a decision about a call and who made it: a user approves; rules, modes and hooks allow or deny.

    name: of the user, if several can decide.
    """
    user, who = by == "person", name or "you"
    words = {
        "approve": f"approved by {who}" if user else "allowed",
        "reject": f"denied by {who}" if user else "denied",
        "defer": "left open",
        "answer": f"answered by {who}" if user else "answered",
    }.get(decision, decision)
    return f"{words} by a {by}" if words in ("allowed", "denied") and by in ("rule", "mode", "hook") else words


class CallSummary(Value):
    """A call, the decision about it, and its outcome.

    outcome: "" while the call is open.
    started: the call has begun.
    facts: computed facts shown with the approval request.
    """

    call_id: str
    tool: str
    summary: str
    round: int
    decision: str = ""
    by: str = ""
    user: str = ""
    reason: str = ""
    outcome: Literal["", "done", "failed"] = ""
    started: bool = False
    duration_ms: int = 0
    agent: str = ""
    facts: tuple[str, ...] = ()


class AddedMessage(Value):
    """A message that the user sent during a turn, after this many rounds."""

    round: int
    text: str


class TurnSummary(Value):
    """A turn: the query, its calls, its usage, its result.

    added: messages that the user sent during it.
    usage: of all model calls up to the next turn, which includes titles, compactions and side questions.
    agents: usage of each sub-agent, by its Task call.
    notes: compactions and rewinds, in words.
    copied: the turn ran in the session that this one was forked from.
    """

    query: str
    started: str
    model: str
    mode: str
    calls: tuple[CallSummary, ...] = ()
    rounds: int = 0
    duration_ms: int = 0
    usage: Usage = Usage()
    agents: dict[str, Usage] = {}  # noqa: RUF012 - never changed
    result: str = ""
    terminal_reason: str = ""
    stop_reason: str = ""
    text: str = ""
    warnings: tuple[str, ...] = ()
    hooks: tuple[HookFinished, ...] = ()
    notes: tuple[str, ...] = ()
    copied: bool = False
    added: tuple[AddedMessage, ...] = ()


class _Turn:
    """A turn while its records are read.

    before: number of messages in the history when it began.
    """

    def __init__(self, query: str, time: str, before: int, copied: bool) -> None:
        self.fields: dict[str, Any] = {"query": query, "started": time, "model": "", "mode": "", "copied": copied}
        self.before = before
        self.calls: dict[str, CallSummary] = {}
        self.round = 0
        self.agents: dict[str, Usage] = {}
        self.warnings: list[str] = []
        self.hooks: list[HookFinished] = []
        self.notes: list[str] = []
        self.added: list[AddedMessage] = []

    def apply(self, kind: str, data: dict[str, Any], agent: str = "") -> None:
        match kind:
            case "TurnStarted" if not agent:
                self.fields |= {"model": data["model"], "mode": data["mode"]}
            case "RoundStarted" if not agent:
                self.round = data["round"]
            case "MessageAdded" if self.round and not agent and data["message"]["type"] == "UserMessage":
                if not is_synthetic(text := data["message"]["text"]):
                    self.added.append(AddedMessage(self.round, user_text(text)))
            case "ToolRequested":
                call = CallSummary(data["call_id"], data["tool"], data["summary"], self.round, agent=agent)
                before = self.calls.get(call.call_id)
                if before is not None and before.outcome:  # an id that a provider gave twice
                    self.calls[f"{call.call_id} before {len(self.calls)}"] = self.calls.pop(call.call_id)
                self.calls.setdefault(call.call_id, call)
            case "ApprovalRequested":
                rules = data.get("always")
                narrowest = (f"the narrowest rule that would allow it: {rules}",) if rules else ()
                self._change(data, facts=(*data.get("facts", ()), *narrowest))
            case "ApprovalResolved":
                words = data.get("reason", "")
                self._go_on(data["decision"])
                self._change(data, decision=data["decision"], by=data["by"], user=data.get("user", ""), reason=words)
            case "QuestionAnswered":
                by, words = data.get("by", "person"), data.get("text", "")
                self._go_on(data["verdict"])
                self._change(data, decision=data["verdict"], by=by, user=data.get("user", ""), reason=words)
            case "ToolStarted":
                self._change(data, started=True)
            case "ToolFinished":
                outcome = "failed" if data["is_error"] else "done"
                self._change(data, outcome=outcome, duration_ms=data["duration_ms"])
            case "Warned":
                self.warnings.append(data["text"])
            case "HookRan":
                self.hooks.append(from_json(HookFinished, data))
            case "Compacted":
                event: Compacted = from_json(Compacted, data)
                self.notes.append(f"{f'[{agent}] ' if agent else ''}{compacted_line(event)}")
            case "UsageAdded":
                self._add_usage(from_json(Usage, data["usage"]))
            case "Uncompacted" if not agent:
                self.notes.append(uncompacted_line(from_json(Uncompacted, data)))
            case "SessionNamed":
                named: SessionNamed = from_json(SessionNamed, data)
                self._add_usage(named.usage)
            case "SubagentEvent":
                self._apply_nested(data)
            case "TurnFinished" if not agent:
                done = data["diagnostics"]
                self.fields |= {
                    "rounds": done["rounds"],
                    "duration_ms": done["duration_ms"],
                    "result": data["result"],
                    "terminal_reason": done["terminal_reason"],
                    "stop_reason": done["stop_reason"],
                    "text": data.get("text", ""),
                }

    def _go_on(self, decision: str) -> None:
        """Note that a suspended turn has its decision: whatever comes of it, it no longer waits."""
        if decision != "defer" and self.fields.get("result") == "Suspended":
            self.fields["terminal_reason"] = ""

    def _add_usage(self, usage: Usage) -> None:
        self.fields["usage"] = self.fields.get("usage", Usage()) + usage

    def _apply_nested(self, data: dict[str, Any]) -> None:
        event = data["event"]
        if event["type"] == "UsageAdded":
            used = from_json(Usage, event["usage"])
            self.agents[data["call_id"]] = self.agents.get(data["call_id"], Usage()) + used
        self.apply(event["type"], event, data["agent"])

    def _change(self, data: dict[str, Any], **fields: Any) -> None:
        if (call := self.calls.get(data["call_id"])) is not None:
            self.calls[call.call_id] = call.replace(**fields)

    def summary(self) -> TurnSummary:
        return TurnSummary(
            **self.fields,
            calls=tuple(self.calls.values()),
            agents=self.agents,
            warnings=tuple(self.warnings),
            hooks=tuple(self.hooks),
            notes=tuple(self.notes),
            added=tuple(self.added),
        )


def build_timeline(data: bytes) -> list[TurnSummary]:
    """Return the turns of a log, in order. A turn begins with a user's message; resuming continues the same turn."""
    found = records(data)[0]
    starts = turn_starts(found)
    turns: list[_Turn] = []
    early: list[HookFinished] = []  # hooks that run before the message that they belong to
    idle, messages = True, 0
    for number, record in enumerate(found):
        kind, event = record["type"], record["data"]
        if number in starts:
            turns.append(_Turn(user_text(event["message"]["text"]), record["time"], messages, not starts[number]))
            turns[-1].hooks, early = early, []
            idle = False
        if kind == "MessageAdded":
            messages += 1
        elif kind == "Rewound":
            messages = event["messages"]
            _mark_undone(turns, messages)
        if idle and kind == "HookRan" and event["event"] in _BEFORE_MESSAGE:
            early.append(from_json(HookFinished, event))
        elif turns:
            turns[-1].apply(kind, event)
        idle = idle or (kind == "TurnFinished" and event["result"] != "Suspended")
    if turns:
        turns[-1].hooks += early
    return [t.summary() for t in turns]


def turn_starts(found: Sequence[dict[str, Any]]) -> dict[int, bool]:
    """Return the indexes of the messages that begin a turn, each with True if that turn ran in this session.

    Messages during a turn belong to it. A fork has the other session's messages without its turns.
    """
    starts: dict[int, bool] = {}
    candidate, running = -1, False
    for number, record in enumerate(found):
        kind, event = record["type"], record["data"]
        if kind == "MessageAdded" and event["message"]["type"] == "UserMessage":
            # The messages that the program adds to a turn come before the user's.
            candidate = (
                number if candidate < 0 or is_synthetic(found[candidate]["data"]["message"]["text"]) else candidate
            )
        elif kind == "MessageAdded":
            if candidate >= 0 and not running and not is_synthetic(found[candidate]["data"]["message"]["text"]):
                starts[candidate] = False
            candidate = -1
        elif kind == "TurnStarted":
            if candidate >= 0:
                starts[candidate] = True
            candidate, running = -1, True
        elif kind == "Rewound" or (kind == "TurnFinished" and event["result"] != "Suspended"):
            candidate, running = -1, False
    if candidate >= 0 and not running:
        starts[candidate] = True
    return starts


def _mark_undone(turns: list[_Turn], messages: int) -> None:
    """Mark the turns undone by a rewind to `messages` messages."""
    note = "undone: the user continued from before this"
    for turn in turns:
        if turn.before >= messages and note not in turn.notes:
            turn.notes.append(note)


def stage_of(session: Restored) -> Stage:
    """Return the stage of a session, from its log alone."""
    waiting = session.waiting
    if waiting is not None and waiting.undecided:
        questions = [waiting.questions[i] for i in waiting.undecided if i in waiting.questions]
        if not questions:
            return "awaiting_tool_approval"
        return "awaiting_plan_approval" if questions[0].kind == "plan" else "awaiting_answer"
    if waiting is not None:
        return "interrupted"
    if session.last is None:
        return "executing" if session.history else "completed"
    stage: Stage = ENDS.get(session.last.terminal_reason, "completed")  # type: ignore[assignment]
    return stage


class TurnUsage(Value):
    """The query of one turn and its usage."""

    query: str
    usage: Usage


class Spending(Value):
    """A session's total usage, by model in order of first use, and by turn."""

    total: Usage = Usage()
    models: dict[str, Usage] = {}  # noqa: RUF012 - never changed
    turns: tuple[TurnUsage, ...] = ()


def summarize_usage(data: bytes) -> Spending:
    """Add up the usage in a log, without what a fork was copied from."""
    found = records(data)[0]
    starts = turn_starts(found)
    models: dict[str, Usage] = {}
    turns: list[TurnUsage] = []
    for number, record in enumerate(found):
        kind, event = record["type"], record["data"]
        if starts.get(number):
            turns.append(TurnUsage(user_text(event["message"]["text"]), Usage()))
        while kind == "SubagentEvent":
            event = event["event"]
            kind = event["type"] if event["type"] in ("SubagentEvent", "UsageAdded") else ""
        if kind == "UsageAdded" or (kind == "SessionNamed" and event.get("model")):
            used = _usage(event)
            name = _model_key(event["model"], models)
            models[name] = models.get(name, Usage()) + used
            if turns:
                turns[-1] = turns[-1].replace(usage=turns[-1].usage + used)
    return Spending(sum(models.values(), Usage()), models, tuple(turns))


def _model_key(model: str, models: dict[str, Usage]) -> str:
    """Return the name under which to list a model: logs of earlier versions also have it without its provider."""
    provider, _, bare = model.rpartition("/")
    if provider and bare in models:
        models[model] = models.pop(bare)
    return model if provider else next((name for name in models if name.endswith(f"/{model}")), model)


def _usage(event: dict[str, Any]) -> Usage:
    usage: Usage = from_json(Usage, event["usage"])
    return usage
