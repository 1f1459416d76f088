"""What happened in a session, turn by turn, told from its records: for `agent show` and for the stage in lists."""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.core.events import HookRan
from agent_cli.core.usage import Usage
from agent_cli.session.records import Restored
from agent_cli.session.restore import records
from agent_tools.values import Value, from_plain

# fmt: off
Stage = Literal[
    "executing", "awaiting_tool_approval", "awaiting_plan_approval", "awaiting_answer", "completed", "failed",
]
# fmt: on


class CallTold(Value):
    """A call: what it was, who decided, how it ended. `outcome` is empty while it is open.

    facts: what was computed for the question about it.
    """

    call_id: str
    tool: str
    summary: str
    round: int
    decision: str = ""
    by: str = ""
    reason: str = ""
    outcome: Literal["", "done", "failed"] = ""
    duration_ms: int = 0
    agent: str = ""
    facts: tuple[str, ...] = ()


class TurnTold(Value):
    """A turn: the query, its calls, what it used, how it ended.

    agents: the usage of each sub-agent, by its Task call.
    """

    query: str
    started: str
    model: str
    mode: str
    calls: tuple[CallTold, ...] = ()
    rounds: int = 0
    duration_ms: int = 0
    usage: Usage = Usage()
    agents: dict[str, Usage] = {}  # noqa: RUF012 - never changed
    result: str = ""
    terminal_reason: str = ""
    stop_reason: str = ""
    text: str = ""
    warnings: tuple[str, ...] = ()
    hooks: tuple[HookRan, ...] = ()


class _Turn:
    """A turn while its records are read."""

    def __init__(self, query: str, time: str) -> None:
        self.fields: dict[str, Any] = {"query": query, "started": time, "model": "", "mode": ""}
        self.calls: dict[str, CallTold] = {}
        self.round = 0
        self.agents: dict[str, Usage] = {}
        self.warnings: list[str] = []
        self.hooks: list[HookRan] = []

    def take(self, kind: str, data: dict[str, Any], agent: str = "") -> None:
        match kind:
            case "TurnStarted" if not agent:
                self.fields |= {"model": data["model"], "mode": data["mode"]}
            case "RoundStarted":
                self.round = data["round"]
            case "ToolRequested":
                told = CallTold(data["call_id"], data["tool"], data["summary"], self.round, agent=agent)
                before = self.calls.get(told.call_id)
                if before is not None and before.outcome:  # an id that a provider gave twice
                    self.calls[f"{told.call_id} before {len(self.calls)}"] = self.calls.pop(told.call_id)
                self.calls.setdefault(told.call_id, told)
            case "ApprovalRequested":
                self._change(data, facts=tuple(data.get("facts", ())))
            case "ApprovalResolved":
                self._change(data, decision=data["decision"], by=data["by"], reason=data.get("reason", ""))
            case "QuestionAnswered":
                self._change(data, decision=data["verdict"], by=data.get("by", "person"), reason=data.get("text", ""))
            case "ToolFinished":
                outcome = "failed" if data["is_error"] else "done"
                self._change(data, outcome=outcome, duration_ms=data["duration_ms"])
            case "Warned":
                self.warnings.append(data["text"])
            case "HookRan":
                self.hooks.append(from_plain(HookRan, data))
            case "SubagentEvent":
                self._nested(data)
            case "TurnFinished" if not agent:
                done = data["diagnostics"]
                self.fields |= {
                    "rounds": done["rounds"],
                    "duration_ms": done["duration_ms"],
                    "usage": self.fields.get("usage", Usage()) + from_plain(Usage, data["usage"]),
                    "result": data["result"],
                    "terminal_reason": done["terminal_reason"],
                    "stop_reason": done["stop_reason"],
                    "text": data.get("text", ""),
                }

    def _nested(self, data: dict[str, Any]) -> None:
        event = data["event"]
        if event["type"] == "UsageAdded":
            used = from_plain(Usage, event["usage"])
            self.agents[data["call_id"]] = self.agents.get(data["call_id"], Usage()) + used
        self.take(event["type"], event, data["agent"])

    def _change(self, data: dict[str, Any], **fields: Any) -> None:
        if (told := self.calls.get(data["call_id"])) is not None:
            self.calls[told.call_id] = told.but(**fields)

    def told(self) -> TurnTold:
        return TurnTold(
            **self.fields,
            calls=tuple(self.calls.values()),
            agents=self.agents,
            warnings=tuple(self.warnings),
            hooks=tuple(self.hooks),
        )


def tell(data: bytes) -> list[TurnTold]:
    """The turns of a log, in order. A turn begins with the user's message; a resumed turn goes on in its own."""
    turns: list[_Turn] = []
    early: list[HookRan] = []  # hooks that run before the message that they belong to
    idle = True
    for record in records(data)[0]:
        kind, event = record["type"], record["data"]
        if kind == "MessageAdded" and event["message"]["type"] == "UserMessage" and idle:
            turns.append(_Turn(event["message"]["text"], record["time"]))
            turns[-1].hooks, early = early, []
            idle = False
        if idle and kind == "HookRan" and event["event"] in ("SessionStart", "UserPromptSubmit", "PreToolUse"):
            early.append(from_plain(HookRan, event))
        elif turns:
            turns[-1].take(kind, event)
        idle = idle or (kind == "TurnFinished" and event["result"] != "Suspended")
    if turns:
        turns[-1].hooks += early
    return [t.told() for t in turns]


def stage_of(session: Restored) -> Stage:
    """Where a session stands, from its log alone."""
    waiting = session.waiting
    if waiting is not None and waiting.undecided:
        questions = [waiting.questions[i] for i in waiting.undecided if i in waiting.questions]
        if not questions:
            return "awaiting_tool_approval"
        return "awaiting_plan_approval" if questions[0].kind == "plan" else "awaiting_answer"
    if session.last is None:
        return "executing" if session.history else "completed"
    reason = session.last.terminal_reason
    return "failed" if reason in ("inference_error", "failed", "cancelled", "interrupted") else "completed"
