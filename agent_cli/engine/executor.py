"""From calls to results: prepare, permit, run, finish; exactly one result per call, whatever happens.

Every call of a round takes the same road. One that is unknown or badly formed becomes an error result that teaches;
one that is refused carries the words of whoever refused it. When the approver defers, the calls that need a person
are all proposed, nothing further runs, and the open calls wait in the history.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from types import GeneratorType
from typing import Any

from agent_cli.core.answers import Answer, Approve, Defer, Edit, Reject
from agent_cli.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    PlanChanged,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
)
from agent_cli.core.messages import ToolCall, ToolMessage
from agent_cli.core.outcome import Denial
from agent_cli.engine.turn import Action, Turn
from agent_cli.permission.decision import Decision, Level
from agent_tools.base import Effect, Finish, Tool, ToolError, ToolResult
from agent_tools.cancel import Cancelled
from agent_tools.values import Value

INTERRUPTED = "Interrupted by the user before this finished."


class Prepared(Value):
    """A call that can be run: its tool, checked arguments and effects."""

    call: ToolCall
    tool: Tool[Any]
    args: Any
    effects: tuple[Effect, ...]
    summary: str


class Ended(Value):
    """What the calls of a round leave behind: a turn that is suspended, or completed with a value."""

    suspended: bool = False
    finish: Finish | None = None


Steps = Generator[Event, None, Ended]


def run_calls(turn: Turn, calls: Sequence[ToolCall]) -> Steps:
    """Give every call its result, in order. Raises Cancelled after the call that was interrupted is answered."""
    finish: Finish | None = None
    for index, call in enumerate(calls):
        if turn.kit.context.cancel.cancelled:
            raise Cancelled
        prepared = prepare(turn, call)
        if isinstance(prepared, str):
            yield ToolRequested(call.id, call.name, call.arguments, call.name or "(no name)")
            yield from fail(turn, call, prepared)
            continue
        yield ToolRequested(call.id, call.name, call.arguments, prepared.summary)
        allowed = yield from permit(turn, prepared)
        if allowed is None:
            yield from propose(turn, calls[index + 1 :])
            return Ended(suspended=True)
        if isinstance(allowed, Prepared):
            result = yield from run(turn, allowed)
            if result.suspend is not None:
                return Ended(suspended=True)
            finish = result.finish or finish
    return Ended(finish=finish)


def prepare(turn: Turn, call: ToolCall) -> Prepared | str:
    """The call made ready to run, or the error text that its result will be."""
    tool = turn.kit.tools.get(call.name)
    if tool is None:
        return f"There is no tool named {call.name!r}. The tools are: {', '.join(turn.kit.tools)}."
    if call.broken:
        return f"The arguments were not a JSON object: {call.broken[:200]!r}. Send them as one JSON object."
    context = turn.kit.context
    try:
        args = tool.read(call.arguments)
        return Prepared(call, tool, args, tool.effects(args, context), tool.summary(args, context))
    except ToolError as error:
        return str(error)


def permit(turn: Turn, prepared: Prepared) -> Generator[Event, None, Prepared | bool | None]:
    """The call to run (edited, perhaps); False where it was refused and answered; None where nobody decided."""
    decision = turn.kit.policy.decide(prepared.tool.name, prepared.effects)
    call = prepared.call
    if decision.level is Level.ALLOW:
        yield ApprovalResolved(call.id, "approve", decision.by, decision.reason, decision.rule)
        return prepared
    if decision.level is Level.DENY:
        yield ApprovalResolved(call.id, "reject", decision.by, decision.reason, decision.rule)
        yield from refuse(turn, prepared, f"Permission was denied: the call {decision.reason}.")
        return False
    try:
        request = approval_request(turn, prepared, decision)
    except ToolError as error:
        yield from fail(turn, call, str(error))
        return False
    yield request
    asked = turn.kit.clock()
    answer = turn.kit.approver(request)
    turn.budget.waited(turn.kit.clock() - asked)
    return (yield from resolve(turn, prepared, answer))


def resolve(turn: Turn, prepared: Prepared, answer: Answer) -> Generator[Event, None, Prepared | bool | None]:
    """Carry out a person's answer."""
    call = prepared.call
    if isinstance(answer, Approve):
        if answer.rule:
            turn.kit.policy.grant(answer.rule)
        yield ApprovalResolved(call.id, "approve", answer.by, "", answer.rule)
        return prepared
    if isinstance(answer, Defer):
        yield ApprovalResolved(call.id, "defer", "person")
        return None
    if isinstance(answer, Edit):
        changed = prepare(turn, call.but(arguments=answer.arguments))
        if isinstance(changed, str):
            yield from fail(turn, call, changed)
            return False
        return (yield from permit(turn, changed))
    yield ApprovalResolved(call.id, "reject", answer.by, answer.reason)
    yield from refuse(turn, prepared, rejection_text(answer))
    return False


def rejection_text(answer: Reject) -> str:
    """What the model reads when a person, or nobody, said no."""
    if answer.by != "person":
        return f"Permission was denied: the call {answer.reason}."
    if answer.reason:
        return f"The user refused this call and said: {answer.reason}"
    return "The user refused this call. Do not try the same again; ask what they want, or take another way."


def approval_request(turn: Turn, prepared: Prepared, decision: Decision) -> ApprovalRequested:
    """The question, with what would happen. Raises ToolError where the call is bound to fail."""
    return ApprovalRequested(
        call_id=prepared.call.id,
        tool=prepared.tool.name,
        summary=prepared.summary,
        reason=decision.reason,
        effects=prepared.effects,
        cwd=str(turn.kit.context.workspace.cwd),
        preview=prepared.tool.preview(prepared.args, turn.kit.context),
        always=turn.kit.policy.always_rule(prepared.tool.name, prepared.effects),
    )


def propose(turn: Turn, calls: Sequence[ToolCall]) -> Generator[Event, None, None]:
    """Show every further call that needs a person, so that all can be decided at once."""
    for call in calls:
        prepared = prepare(turn, call)
        if isinstance(prepared, str):
            continue
        decision = turn.kit.policy.decide(prepared.tool.name, prepared.effects)
        if decision.level is Level.ASK:
            yield ToolRequested(call.id, call.name, call.arguments, prepared.summary)
            with contextlib.suppress(ToolError):
                yield approval_request(turn, prepared, decision)


def run(turn: Turn, prepared: Prepared) -> Generator[Event, None, ToolResult]:
    """Run the tool and add its result. An interrupted call is answered before Cancelled goes on."""
    call, context = prepared.call, turn.kit.context
    turn.budget.tool_calls += 1
    yield ToolStarted(call.id, call.name)
    started = turn.kit.clock()
    seen, plan = dict(context.seen), context.plan
    interrupted = False
    try:
        outcome = prepared.tool.run(prepared.args, context)
        if isinstance(outcome, GeneratorType):
            result = yield from _forward(call.id, outcome)
        else:
            result = outcome  # type: ignore[assignment]
    except ToolError as error:
        result = ToolResult(str(error), is_error=True)
    except Cancelled:
        result, interrupted = ToolResult(INTERRUPTED, is_error=True), True
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        result = ToolResult(f"{error.strerror or error}{where}", is_error=True)
    except Exception as error:  # noqa: BLE001 - a faulty tool must cost its call, not the turn; the model reads it
        result = ToolResult(f"The tool {call.name} failed: {type(error).__name__}: {error}", is_error=True)
    if result.suspend is None:
        yield from turn.add(ToolMessage(call.id, call.name, result.text, result.is_error))
    learned = {p: f for p, f in context.seen.items() if seen.get(p) != f}
    ms = round((turn.kit.clock() - started) * 1000)
    yield ToolFinished(call.id, call.name, result.is_error, ms, result.display, learned)
    if context.plan != plan:
        yield PlanChanged(context.plan)
    turn.actions.append(Action(prepared.summary, "failed" if result.is_error else "done"))
    if interrupted:
        raise Cancelled
    return result


def _forward(call_id: str, outcome: Any) -> Generator[Event, None, ToolResult]:
    """Pass a running tool's progress on as events."""
    while True:
        try:
            progress = next(outcome)
        except StopIteration as stop:
            result: ToolResult = stop.value
            return result
        yield ToolProgress(call_id, progress.text)


def fail(turn: Turn, call: ToolCall, text: str) -> Generator[Event, None, None]:
    """Answer a call that never ran with an error the model can learn from."""
    turn.budget.tool_calls += 1
    yield from turn.add(ToolMessage(call.id, call.name, text, is_error=True))
    yield ToolFinished(call.id, call.name, True, 0)
    turn.actions.append(Action(call.name or "unnamed call", "failed"))


def refuse(turn: Turn, prepared: Prepared, text: str) -> Generator[Event, None, None]:
    """Answer a call that was not allowed, and remember the denial."""
    call = prepared.call
    turn.denials.append(Denial(call.id, call.name, call.arguments, text))
    yield from turn.add(ToolMessage(call.id, call.name, text, is_error=True))
    yield ToolFinished(call.id, call.name, True, 0)
    turn.actions.append(Action(prepared.summary, "refused"))
