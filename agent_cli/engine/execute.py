"""Run one call: progress and questions on the way, and its result, however it ends."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.core.events import (
    Event,
    PlanChanged,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Warned,
)
from agent_cli.core.messages import ToolCall, ToolMessage
from agent_cli.core.results import Action, Denial, Suspended
from agent_cli.engine.approvals import ask_during, settle_suspended, validated_question
from agent_cli.engine.barrier import report_failure
from agent_cli.engine.helper_model import ask_helper_model
from agent_cli.engine.prompt_overrides import apply_overrides
from agent_cli.engine.subagents import run_nested
from agent_cli.engine.tool_call import may_mutate
from agent_cli.engine.turn import Turn
from agent_cli.engine.types import PreparedCall
from agent_tools.base import AskModel, AskUser, ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.result_limits import ResultSize
from agent_tools.shell.state import carried_state
from agent_tools.text import size_of

if TYPE_CHECKING:
    from agent_cli.engine.parallel import PrefetchedCall
    from agent_cli.engine.parallel_subagents import ParallelSubagent

with lazy_imports():
    from agent_cli.engine import hook_points

# Why a call has no result yet: it waits for the user's approval or answer, or the user cancelled the turn.
Unfinished = Literal["approval", "input", "cancelled"]
NO_ANSWER = "Interrupted by the user before they answered."


def execute_call(
    turn: Turn, item: PreparedCall, note: str, *, last: bool, begun: PrefetchedCall | ParallelSubagent | None = None
) -> Generator[Event, None, ToolResult | Unfinished]:
    """Run the tool, or collect its prefetched result, and add the result to the history.

    An interrupted call is answered before CancelledError is raised again. A call that waits for the user, its own
    question
    or a sub-agent's, stays open; run again, it continues from there.
    """
    call, context = item.call, turn.deps.context
    started = turn.deps.clock()
    seen, plan, shell = dict(context.seen), context.plan, carried_state(context)
    before = begun.signature if begun else turn.repeats.signature(item)
    interrupted = cancelled = False
    held = turn.deps.state.held.get(call.id)
    if held is None:
        result, interrupted = yield from _outcome(turn, item, begun)
        if isinstance(result, Suspended):
            return "approval" if result.end.diagnostics.terminal_reason == "await_approval" else "input"
    else:
        result = held
    if result.suspend is not None:
        try:
            settled = yield from settle_suspended(turn, call.id, result)
        except CancelledError:
            text = "\n\n".join(filter(None, [result.text, NO_ANSWER]))
            settled, interrupted = (result.replace(text=text, is_error=True, suspend=None), False), True
            turn.deps.state.held.pop(call.id, None)
        if settled is None:
            return "input"
        result, cancelled = settled
    repeated = turn.repeats.record_result(item, result, before)
    if turn.gates is not None:
        repeated += turn.gates.record_result(item, result)
    ms = round((turn.deps.clock() - started) * 1000)
    if not result.is_error and turn.deps.hooks.wants("PostToolUse", item.tool.name):
        note += yield from hook_points.post_tool_use(turn, item, result, ms)
    text = result.text + note + repeated
    yield from turn.add_result(ToolMessage(call.id, call.name, text, result.is_error, result.media), last)
    learned = {p: f for p, f in context.seen.items() if seen.get(p) != f}
    moved = now if (now := carried_state(context)) != shell else None
    yield ToolFinished(call.id, call.name, result.is_error, ms, result.display, learned, moved)
    if context.plan != plan:
        turn.plan_changed(plan)
        yield PlanChanged(context.plan)
    turn.actions.append(Action(item.summary, "failed" if result.is_error else "done"))
    if interrupted:
        raise CancelledError
    return "cancelled" if cancelled else result


def _outcome(
    turn: Turn, item: PreparedCall, begun: PrefetchedCall | ParallelSubagent | None
) -> Generator[Event, None, tuple[ToolResult | Suspended, bool]]:
    """Return the tool's result, and True if it was interrupted."""
    call, context = item.call, turn.deps.context
    watched = may_mutate(turn, item)
    if watched:
        cwd = str(context.workspace.cwd)
        yield from map(Warned, turn.deps.watch.before(call.id, call.name, item.summary, item.effects, cwd))
    if begun is None or not item.tool.nested:
        yield ToolStarted(call.id, call.name)
    interrupted = False
    result: ToolResult
    try:
        if item.tool.nested:
            nested = yield from begun.outcome() if begun else run_nested(turn, item)
            if isinstance(nested, Suspended):
                return nested, False
            result = nested
        else:
            outcome = begun.outcome() if begun else item.tool.run(item.args, context)
            if isinstance(outcome, ToolResult):
                result = outcome
            else:
                result = yield from _run_steps(turn, call.id, outcome)
            if result.suspend is not None:
                result = result.replace(suspend=validated_question(turn, item.tool.name, result.suspend))
    except ToolError as error:
        result = ToolResult(str(error), is_error=True)
    except CancelledError:
        result, interrupted = ToolResult(turn.cancelled_because, is_error=True), True
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        result = ToolResult(f"{error.strerror or error}{where}", is_error=True)
    except Exception as error:  # noqa: BLE001 - a faulty tool must cost its call, not the turn; the model reads it
        said = yield from report_failure(turn.deps, f"the tool {call.name}", error)
        result = ToolResult(said, is_error=True)
    result = fit_result(result, item.tool.result_size, context)
    if watched:
        yield from map(Warned, turn.deps.watch.after(call.id))
    turn.budget.called(failed=result.is_error)
    turn.checks.record_result(item, result)
    if result.lent:
        yield from apply_overrides(turn, result.lent)
    return result, interrupted


def fit_result(result: ToolResult, size: ResultSize, context: ToolContext) -> ToolResult:
    """Return the result as the model is shown it: of a long one the beginning and the end, and the file with all."""
    most = context.result_limits.most(size)
    # The tool itself may have added a few notes to a result of the right size.
    if size == "whole" or size_of(result.text) <= most * 5 // 4 + 500:
        return result
    buffer = context.result_buffer(size)
    buffer.feed(result.text.encode("utf-8", "replace"))
    buffer.close()
    return result.replace(text=buffer.text("ask for less of it", failed=result.is_error))


def _run_steps(turn: Turn, call_id: str, outcome: Any) -> Generator[Event, None, ToolResult]:
    """Yield a running tool's progress as events; pass its questions to the small model or to the user."""
    answer: str | None = None
    while True:
        try:
            step = outcome.send(answer)
        except StopIteration as stop:
            result: ToolResult = stop.value
            return result
        answer = None
        if isinstance(step, AskModel):
            answer = yield from ask_helper_model(turn, step)
        elif isinstance(step, AskUser):
            try:
                answer = yield from ask_during(turn, call_id, step)
            except CancelledError:
                outcome.close()
                raise
        else:
            yield ToolProgress(call_id, step.text)


def fail_call(turn: Turn, call: ToolCall, text: str, *, last: bool) -> Generator[Event, None, None]:
    """Answer a call that never ran with an error the model can act on."""
    turn.budget.called(failed=True)
    text += turn.repeats.record_unrun(call, text)
    yield from turn.answer(call, text, is_error=True, last=last)
    turn.actions.append(Action(call.name or "unnamed call", "failed"))


def skip(turn: Turn, item: PreparedCall, since: int, *, last: bool) -> Generator[Event, None, None]:
    """Answer a repeated call that would only read unchanged content again."""
    turn.budget.called(failed=False)
    text = f"Skipped: unchanged since round {since}, where the same call was made. Use that result."
    text += turn.repeats.record_unrun(item.call, text)
    yield from turn.answer(item.call, text, is_error=False, last=last)


def refuse(
    turn: Turn, item: PreparedCall, text: str, note: str, *, by: str, last: bool
) -> Generator[Event, None, None]:
    """Answer a call that was not allowed, and record the denial. note: what hooks add for the model."""
    call = item.call
    turn.denials.append(Denial(call.id, call.name, call.arguments, text, by, item.decision.rule))
    turn.budget.denied(call)
    yield from turn.answer(call, text + note, is_error=True, last=last)
    turn.actions.append(Action(item.summary, "refused"))
