"""The timeline of a session, turn by turn, for `agent show`."""

from __future__ import annotations

from typing import Any, Literal

from agent_cli.kernel.events import ApprovalRequested, HookFinished
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.view import SessionView
from agent_cli.kernel.session.view_entries import CallView, TurnView
from agent_tools.record import Value


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

    @property
    def decided(self) -> str:
        """The decision, and who made it."""
        return decision_words(self.decision, self.by, self.user)


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


def turn_summary(turn: TurnView) -> TurnSummary:
    """Return a turn as `agent show` has it."""
    ended: dict[str, Any] = {}
    if (done := turn.finished) is not None:
        waited = done.result == "Suspended" and turn.decided
        ended = {
            "rounds": done.diagnostics.rounds,
            "duration_ms": done.diagnostics.duration_ms,
            "result": done.result,
            # It has its decision: whatever comes of it, it no longer waits.
            "terminal_reason": "" if waited else done.diagnostics.terminal_reason,
            "stop_reason": done.diagnostics.stop_reason,
            "text": done.text,
        }
    return TurnSummary(
        turn.words,
        turn.time,
        turn.model,
        turn.mode,
        tuple(map(_call_summary, turn.calls)),
        usage=turn.usage,
        agents={call.call_id: call.nested.usage for call in turn.calls if call.nested and call.nested.models},
        warnings=tuple(turn.warnings),
        hooks=tuple(turn.hooks),
        notes=tuple(turn.notes),
        copied=turn.copied,
        added=tuple(AddedMessage(view.round, view.sent.words) for view in turn.added),
        **ended,
    )


def _call_summary(call: CallView) -> CallSummary:
    asked = call.question if isinstance(call.question, ApprovalRequested) else None
    facts = asked.facts if asked is not None else ()
    if asked is not None and asked.always:
        facts = (*facts, f"the narrowest rule that would allow it: {asked.always}")
    took = call.finished.duration_ms if call.finished is not None else 0
    return CallSummary(
        call.call_id,
        call.tool,
        call.summary,
        call.round,
        call.decision,
        call.by,
        call.user,
        call.reason,
        call.ran,
        call.started,
        took,
        call.agent,
        facts,
    )


def build_timeline(data: bytes) -> list[TurnSummary]:
    """Return the turns of a log, in order. A turn begins with a user's message; resuming continues the same turn."""
    return [turn_summary(turn) for turn in SessionView.of_log(data).turns]
