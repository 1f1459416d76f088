"""Run calls: one at a time, with progress and questions on the way, or those that only read in parallel.

Every call has one result, however it ends. Calls that only read may begin before their turn comes; results and events
keep the order of the calls. Files are read, pages fetched, and commands run that only read and leave the directory of
the next one as it is. Each has a context of its own, so nothing that one learns or changes reaches another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.engine.approvals import ask_during, settle_suspended, validated_question
from agent_cli.kernel.engine.helper_model import ask_helper_model
from agent_cli.kernel.engine.prompt_overrides import apply_overrides
from agent_cli.kernel.engine.tool_call import may_mutate
from agent_cli.kernel.engine.turn import Turn, report_failure
from agent_cli.kernel.engine.types import CallError, CheckedCall, PreparedCall
from agent_cli.kernel.events import (
    Event,
    PlanChanged,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Warned,
)
from agent_cli.kernel.messages import ToolCall, ToolMessage
from agent_cli.kernel.results import Action, Denial, Suspended
from agent_tools.base import AskHooks, AskModel, AskUser, Effect, Progress, ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.fs import read_state
from agent_tools.fs.workspace import is_within
from agent_tools.lazy import lazy_imports
from agent_tools.results import Diff, Diffs
from agent_tools.shell.state import carried_state

if TYPE_CHECKING:
    from agent_cli.kernel.engine.subagents import ParallelSubagent

with lazy_imports():
    from agent_cli.kernel.engine import background, hook_points, subagents

# Why a call has no result yet: it waits for the user's approval or answer, or the user cancelled the turn.
Unfinished = Literal["approval", "input", "cancelled"]
NO_ANSWER = "Interrupted by the user before they answered."


def execute_call(
    turn: Turn,
    item: PreparedCall,
    note: str,
    *,
    last: bool,
    prefetched: PrefetchedCall | ParallelSubagent | None = None,
) -> Generator[Event, None, ToolResult | Unfinished]:
    """Run the tool, or collect its prefetched result, and add the result to the history.

    An interrupted call is answered before CancelledError is raised again. A call that waits for the user, because of
    its own question or a sub-agent's, stays open; run again, it continues from there.
    """
    call, context = item.call, turn.deps.context
    started = turn.deps.clock()
    seen, plan, shell = dict(context.seen), context.plan, carried_state(context)
    context.source = read_state.call_source(item.tool.name, call.id)
    folder = str(context.workspace.cwd)
    before = prefetched.signature if prefetched else turn.repeats.signature(item)
    interrupted = cancelled = False
    held, done = turn.deps.state.held.get(call.id), dict[str, Any]()
    hooked = turn.deps.hooks.wants("PostToolUse", item.tool.name)
    original = hook_points.original_text(turn, item) if hooked and held is None else None
    if held is None:
        result, interrupted, done = yield from _outcome(turn, item, prefetched)
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
    if turn.deps.hooks.wants("PostToolUseFailure" if result.is_error else "PostToolUse", item.tool.name):
        result, more = yield from hook_points.after_call(
            turn, item, result, ms, interrupted=interrupted, before=original
        )
        note += more
    text = result.text + note + repeated
    yield from turn.add_result(ToolMessage(call.id, call.name, text, result.is_error, result.media), last)
    context.source = ""
    learned = {p: f for p, f in context.seen.items() if seen.get(p) != f}
    moved = now if (now := carried_state(context)) != shell else None
    if moved is not None and turn.deps.hooks.wants("CwdChanged"):
        yield from hook_points.after_move(turn, folder)
    yield ToolFinished(call.id, call.name, result.is_error, ms, result.display, learned, moved, **done)
    if context.plan != plan:
        turn.plan_changed(plan)
        yield PlanChanged(context.plan)
    turn.actions.append(Action(item.summary, "failed" if result.is_error else "done"))
    if interrupted:
        raise CancelledError
    return "cancelled" if cancelled else result


def _outcome(
    turn: Turn, item: PreparedCall, prefetched: PrefetchedCall | ParallelSubagent | None
) -> Generator[Event, None, tuple[ToolResult | Suspended, bool, dict[str, Any]]]:
    """Return the tool's result, True if it was interrupted, and its effects, as fields of `ToolFinished`.

    Tools that change files run one at a time.
    """
    with turn.deps.state.editing if item.tool.changes_files else nullcontext():
        return (yield from _run(turn, item, prefetched))


def _run(
    turn: Turn, item: PreparedCall, prefetched: PrefetchedCall | ParallelSubagent | None
) -> Generator[Event, None, tuple[ToolResult | Suspended, bool, dict[str, Any]]]:
    call, context = item.call, turn.deps.context
    watched, environment = may_mutate(turn, item), turn.deps.environment
    if watched:
        if environment is not None:
            environment.look()
        cwd = str(context.workspace.cwd)
        with suppress(ToolError):  # the call itself meets the same problem, and reports it
            context.workspace.save_buffers(Path(e.target) for e in item.effects if e.kind == "write")
        yield from map(Warned, turn.deps.watch.before(call.id, call.name, item.summary, item.effects, cwd))
    if prefetched is None or not item.tool.nested:
        yield ToolStarted(call.id, call.name)
    interrupted = False
    result: ToolResult
    try:
        if item.tool.nested:
            nested = yield from prefetched.outcome() if prefetched else _run_nested(turn, item)
            if isinstance(nested, Suspended):
                return nested, False, {}
            result = nested
        else:
            outcome = prefetched.outcome() if prefetched else item.tool.run(item.args, context)
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
        failure = yield from report_failure(turn.deps, f"the tool {call.name}", error)
        result = ToolResult(failure, is_error=True)
    result = context.fit(result, item.tool.result_size)
    done: dict[str, Any] = {}
    if watched:
        if environment is not None and (heads := environment.observe()):
            done["heads"] = heads
        yield from map(Warned, turn.deps.watch.after(call.id))
        if not item.tool.nested and not isinstance(result.display, Diff | Diffs):
            show = context.workspace.show
            done["changed"] = tuple(d.replace(path=show(d.path)) for d in turn.deps.watch.changed(call.id))
    turn.budget.called(failed=result.is_error)
    result, done["check"] = turn.checks.record_result(item, result, done.get("changed", ()))
    if result.overrides:
        yield from apply_overrides(turn, result.overrides)
    return result, interrupted, {name: value for name, value in done.items() if value}


def _run_nested(turn: Turn, item: PreparedCall) -> Generator[Event, None, ToolResult | Suspended]:
    if item.args.background:
        return background.start_in_background(turn, item)
    return (yield from subagents.run_nested(turn, item))


def _run_steps(turn: Turn, call_id: str, outcome: Any) -> Generator[Event, None, ToolResult]:
    """Yield a running tool's progress as events; pass its questions to the small model or to the user."""
    answer: Any = None
    while True:
        try:
            step = outcome.send(answer)
        except StopIteration as stop:
            result: ToolResult = stop.value
            return result
        answer = None
        if isinstance(step, AskModel):
            answer = yield from ask_helper_model(turn, step)
        elif isinstance(step, AskHooks):
            event = "Elicitation" if step.answer is None else "ElicitationResult"
            if turn.deps.hooks.wants(event, step.server):
                answer = yield from hook_points.on_form(turn, step)
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


def skip(turn: Turn, item: PreparedCall, *, last: bool) -> Generator[Event, None, None]:
    """Answer a repeated call that would only read unchanged content again."""
    turn.budget.called(failed=False)
    text = f"Skipped: unchanged since your last {item.tool.name} above, which was the same call. Use its result."
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
    if by != "person" and turn.deps.hooks.wants("PermissionDenied", item.tool.name):
        yield from hook_points.after_denial(turn, item, text)


MAX_PARALLEL_CALLS = 4
# Parts of a call's progress that wait to be shown; the oldest are dropped.
_MAX_PENDING_PROGRESS = 200
# Seconds that an interrupted command has to end and hand in its output.
_GRACE_SECONDS = 2.0


class PrefetchedCall:
    """A call that runs in another thread, up to its end or its first question to a model.

    It runs in a nested context, so files it reads count as read only when its turn comes. signature: what its result
    depends on, taken before it ran.
    """

    def __init__(self, item: PreparedCall, context: ToolContext, signature: object) -> None:
        self.item = item
        self.signature = signature
        self._shared = context
        self._context = context.for_call()
        self._context.source = read_state.call_source(item.tool.name, item.call.id)
        self._forget = context.cancel.on_cancel(lambda: self._context.cancel.cancel(context.cancel.reason))
        self._before = dict(context.seen)
        self._context.seen = dict(context.seen)
        self._context.plan = context.plan
        self._done = Flag()
        self._steps: deque[Progress] = deque(maxlen=_MAX_PENDING_PROGRESS)
        self._rest: Generator[Any, Any, ToolResult] | None = None
        self._ask: AskModel | None = None
        self._end: ToolResult | Exception | None = None

    def work(self) -> None:
        """Run the call in the current thread."""
        try:
            self._context.cancel.check()
            outcome = self.item.tool.run(self.item.args, self._context)
            self._end = outcome if isinstance(outcome, ToolResult) else self._advance(outcome)
        except Exception as error:  # noqa: BLE001 - raised again where the call's turn comes
            self._end = error
        finally:
            self._done.set()
            self._forget()

    def abandon(self) -> None:
        """End the call; nobody waits for its result."""
        self._context.cancel.cancel()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def _advance(self, steps: Generator[Any, Any, ToolResult]) -> ToolResult | None:
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                result: ToolResult = stop.value
                return result
            if isinstance(step, AskModel):
                self._ask, self._rest = step, steps
                return None
            self._steps.append(step)

    def outcome(self) -> Generator[Any, Any, ToolResult]:
        """Yield, return or raise what the tool did. Raises CancelledError while waiting."""
        while not self._done.wait(0.05):
            yield from self._new_steps()
            if self._shared.cancel.cancelled:
                # A command hands in the output it had.
                if self.item.tool.command_argument and self._done.wait(_GRACE_SECONDS):
                    break
                raise CancelledError
        yield from self._new_steps()
        try:
            if self._rest is not None:
                return (yield from _continue_steps(self._rest, (yield self._ask)))
            if isinstance(self._end, Exception):
                raise self._end
            assert self._end is not None
            return self._end
        finally:
            read_state.add_learned(self._shared, self._before, self._context)

    def _new_steps(self) -> Generator[Progress, None, None]:
        while self._steps:
            yield self._steps.popleft()


def _continue_steps(steps: Generator[Any, Any, ToolResult], answer: Any) -> Generator[Any, Any, ToolResult]:
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as stop:
            result: ToolResult = stop.value
            return result
        answer = yield step


def is_parallel_safe(turn: Turn, item: CheckedCall) -> bool:
    """Return True if the call only reads, is allowed without a question, and is not a known repeat."""
    return (
        not isinstance(item, CallError)
        and item.decision.level is Level.ALLOW
        and only_reads(turn, item)
        and not turn.repeats.unchanged(item)
    )


def only_reads(turn: Turn, item: PreparedCall) -> bool:
    """Return True if the call can run beside others, as it only reads."""
    return item.tool.may_run_in_parallel(item.args) and all(_is_read(turn, effect) for effect in item.effects)


def independent_calls(turn: Turn, batch: Sequence[CheckedCall]) -> set[str]:
    """Return the ids of the calls that depend on none before them in the same answer.

    A call may depend on changes of the files that it names, and on each call that is not known to only read or change
    files, such as a command. A command may depend on every change.
    """
    found: set[str] = set()
    changes: list[CheckedCall] = []
    for item in batch:
        if not isinstance(item, CallError) and not any(_may_depend(item, other) for other in changes):
            found.add(item.call.id)
        if isinstance(item, CallError) or not only_reads(turn, item):
            changes.append(item)
    return found


def _may_depend(item: PreparedCall, change: CheckedCall) -> bool:
    if isinstance(change, CallError) or not change.tool.changes_files:
        return True
    if any(e.kind not in ("read", "write") for e in change.effects):
        return True
    named = {e.target for e in item.effects}
    written = change.writes
    return (
        any(e.kind not in ("read", "write", "fetch") for e in item.effects)
        or any(is_within(path, written) for path in named)
        or any(is_within(path, named) for path in written)
    )


def _is_read(turn: Turn, effect: Effect) -> bool:
    return effect.kind in ("read", "fetch") or (effect.kind == "run" and turn.deps.policy.is_pure_read(effect.target))


def start_parallel(turn: Turn, items: Sequence[PreparedCall]) -> dict[str, PrefetchedCall]:
    """Start the calls in a few threads; return them by call id."""
    context = turn.deps.context
    prefetched = [PrefetchedCall(item, context, turn.repeats.signature(item)) for item in items]
    waiting = deque(prefetched)

    def worker() -> None:
        while not context.cancel.cancelled:
            try:
                next_one = waiting.popleft()
            except IndexError:
                return
            next_one.work()

    for _ in range(min(MAX_PARALLEL_CALLS, len(prefetched))):
        Thread(target=worker, daemon=True).start()
    return {b.item.call.id: b for b in prefetched}
