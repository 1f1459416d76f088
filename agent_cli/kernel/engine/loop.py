"""The turn: reason, act, observe, repeat while the model calls tools.

`run_turn` yields events and returns the turn's result. It prints nothing and stores nothing, and copies the history it
is given. On a history that ends in unanswered calls it resumes there, with the budget that is left.

A turn does not end while its plan has open steps, and does not report "done" over a failing check. That holds for a
plan that was made, approved or changed in this turn; one of an earlier request is paused.

`recap` summarizes a turn without a model: what ran, in order, and how it ended.
`deadline` enforces the time limit on running calls and silent models: when it passes, the turn is cancelled.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.compaction.trigger import compact_after_overflow, compact_if_needed
from agent_cli.kernel.engine.progress import format_plan, goal_of, is_question, names_obstacle, open_steps, unfinished
from agent_cli.kernel.engine.prompt_overrides import apply_initial_overrides, follow_mode, restore_overrides
from agent_cli.kernel.engine.sampling import build_request, sample
from agent_cli.kernel.engine.turn import OUT_OF_TIME, Turn, TurnDeps, suspended_state
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.events import (
    Event,
    PlanChanged,
    PlanContinued,
    RoundStarted,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Warned,
)
from agent_cli.kernel.messages import (
    CONTINUE_CUT,
    AssistantMessage,
    Message,
    ToolCall,
    UserMessage,
    is_answered,
    pending_calls,
)
from agent_cli.kernel.results import (
    Action,
    Cap,
    Complete,
    Failed,
    Failure,
    LimitReached,
    Suspended,
    TerminalReason,
    TurnResult,
)
from agent_cli.models.base import ModelError, ToolChoice
from agent_tools.base import Finish
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.record import to_json

if TYPE_CHECKING:
    from agent_cli.kernel.engine.executor import BatchOutcome, Steps

with lazy_imports():
    from agent_cli.kernel.engine import (
        approvals,
        executor,  # with all that calls need; many an answer makes none
        hook_points,
        send_less,  # for requests that are refused
        session_hooks,
        structured_output,
        turn_end,
    )

_MAX_RECAP_LINES = 30
# Distinct words from which on two answers can be compared by them.
_MIN_WORDS = 5


def recap(actions: Sequence[Action], opening: str) -> str:
    """Return a short markdown text: the opening sentence, then one line per call."""
    if not actions:
        return opening
    lines = [f"- {a.summary} ({a.outcome})" for a in actions[-_MAX_RECAP_LINES:]]
    left_out = len(actions) - len(lines)
    earlier = [f"- {left_out} earlier calls"] if left_out else []
    return "\n".join([opening, "", "Before that:", *earlier, *lines])


def _recap_after_answer(turn: Turn, opening: str) -> str:
    """Return a recap, after an answer that the model was to give again and did not."""
    return "\n\n".join(filter(None, [turn.unrepeated, recap(turn.actions, opening)]))


# The clock is checked this often, since it stops while the user is asked.
_RECHECK_SECONDS = 1.0


@contextmanager
def deadline(turn: Turn, seconds: float) -> Iterator[None]:
    """Cancel the turn once its working time reaches `seconds`; 0: never. Waiting for the user does not count."""
    if not seconds:
        yield
        return
    import threading  # costs a one-shot run a millisecond, and few turns have a limit

    ended = threading.Event()

    def watch() -> None:
        while (left := seconds - turn.budget.seconds) > 0:
            if ended.wait(min(left, _RECHECK_SECONDS)):
                return
        if not ended.is_set():
            turn.deps.context.cancel.cancel(OUT_OF_TIME)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


LAST_ROUND = (
    "<reminder>\nThe limit of this turn ({cap}) is reached and no more tools can be called. Say in a few lines what "
    "was done, what is left, and what to do next.\n</reminder>"
)
CAP_WORDS: dict[Cap, str] = {
    "rounds": "rounds", "duration": "time", "tool_calls": "tool calls", "cost": "cost",
    "failures": "failed rounds in a row", "denials": "refusals of the same call", "repetition": "repeated calls",
    "output": "tokens of one answer",
}  # fmt: skip
REASONS: dict[Cap, TerminalReason] = {
    "rounds": "max_rounds", "duration": "max_duration", "tool_calls": "max_tool_calls", "cost": "max_cost",
    "failures": "max_failures", "denials": "max_denials", "repetition": "repetition", "output": "max_output_tokens",
}  # fmt: skip
EMPTY_ANSWER = "Your answer was empty. If the work is done, say in a few lines what was done; otherwise continue."
CUT_EMPTY = (
    "<reminder>\nYour answer was cut at {where} before it had any words. Think less, and act or answer in smaller "
    "steps.\n</reminder>"
)
STUCK = (
    "<reminder>\nNo call of the last {rounds} rounds succeeded. Try another approach, or say plainly what blocks you.\n"
    "</reminder>"
)
# Every answer that announces what the model will do contains one of these.
_FUTURE = ("will ", "'ll ", "\u2019ll ", "going to ", "et me ", "et's ", "et\u2019s ", "need to ")
CUT_CALL = (
    "<reminder>\n{cut} in the middle of a call, which was not run. Make a shorter call: write a file in parts, the "
    "beginning with one call, the rest with further ones.\n</reminder>"
)
# How many times an answer cut at the token limit is continued.
MAX_CONTINUATIONS = 3
# Extra time for the closing summary of a turn that ran out of time.
SUMMARY_SECONDS = 30.0
# Limits at which a user who is present is asked whether to continue.
CONTINUABLE_CAPS: tuple[Cap, ...] = ("failures", "denials", "repetition")
Run = Generator[Event, None, TurnResult]


def run_turn(history: Iterable[Message], deps: TurnDeps, options: TurnOptions) -> Run:
    """Run one turn on a history that ends in a user message or in unanswered calls."""
    turn = Turn(history, deps, options, run_turn)
    saved = {**options.saved, "rules": to_json(deps.policy.rules)} if options.saved else {}
    saved |= {"lent": to_json(options.overrides)} if options.overrides else {}
    yield TurnStarted(options.label, deps.policy.mode, saved)
    if turn.deps.depth == 0 and unfinished(turn.deps.context.plan) and not turn.plan_touched:
        yield PlanChanged(turn.deps.context.plan, paused=True)
    try:
        yield from apply_initial_overrides(turn)
        with deadline(turn, options.limits.seconds if turn.deps.keeps_time else 0):
            result = yield from _rounds(turn)
    except CancelledError:
        yield from turn.close_open_calls(turn.cancelled_result)
        if turn.timed_out and turn.deps.keeps_time:
            result = yield from _out_of_budget(turn, "duration", summary=not turn.in_model_call)
        else:
            result = Failed(turn.end("interrupted"))
    except ModelError as error:
        result = yield from _without_model(turn, error.failure)
    finally:
        restore_overrides(turn)
    agents = deps.state.background if deps.depth == 0 else None
    if agents is not None:
        yield from agents.end_turn(result)
    if deps.depth == 0 and deps.hooks.wants("StopFailure"):
        yield from hook_points.after_failure(turn, result)
    if deps.depth == 0:
        deps.watch.ended(suspended=isinstance(result, Suspended))
    yield from deps.hooks.drain()
    yield _finished(turn, result)
    return result


def _rounds(turn: Turn) -> Run:
    agents = turn.deps.state.background if turn.deps.depth == 0 else None
    if agents is not None:
        agents.resume(turn, ask=turn.deps.attended)
    if waiting := pending_calls(turn.history):
        yield TurnResumed("calls without a result", turn.budget.rounds_left)
        ended = yield from _run_calls(turn, waiting)
        # The program's own call came after the answer.
        answers = (m for m in reversed(turn.history) if isinstance(m, AssistantMessage) and m.text)
        said = next(answers, None) if turn.deps.traits_of(waiting[0].name).of_program else None
        if over := (yield from _result_after_calls(turn, said, ended)):
            return over
    elif turn.options.spent.rounds and turn.deps.depth == 0:
        yield TurnResumed("a turn that was interrupted", turn.budget.rounds_left)
    # The model has answered, and its sub-agents are at work.
    if is_answered(turn.history) and _agents_left(turn) == "suspended":
        return (yield from _suspend(turn, "approval"))
    while True:
        # Messages typed after an interrupt belong to the next turn: read here, they would never be answered.
        turn.deps.context.cancel.check()
        texts = turn.deps.inbox()
        if texts and turn.deps.hooks.wants("UserPromptSubmit"):
            texts = yield from session_hooks.filter_inbox(turn.deps, texts)
        reports = turn.agent_reports()
        for text in [*texts, *turn.news(), *turn.deps.context.notices(), *reports, *_stuck_reminders(turn)]:
            turn.plan_touched = turn.plan_touched or text.startswith("<plan_change>")
            yield from turn.add(UserMessage(text))
        cap = turn.budget.reached()
        if cap and cap in CONTINUABLE_CAPS and turn.deps.attended and turn.deps.depth == 0:
            cap = yield from approvals.ask_to_continue(turn, cap)
        if cap:
            return (yield from _out_of_budget(turn, cap))
        turn.budget.rounds += 1
        yield RoundStarted(turn.budget.all_rounds)
        choice: ToolChoice = "required" if turn.must_call else "auto"
        turn.must_call = False
        answer = yield from _call_model(turn, tool_choice=choice)
        if answer.calls:
            turn.cut_text = turn.unrepeated = ""
            for guard in ("empty", "cut"):
                turn.nudges.pop(guard, None)
            ended = yield from _run_calls(turn, answer.calls)
            if over := (yield from _result_after_calls(turn, answer, ended)):
                return over
        elif not answer.text.strip() and not turn.was_cut and turn.nudges.get("empty"):
            return _complete(turn, answer) if turn.unrepeated else _fail_empty(turn)
        elif more := (_continuation(turn, answer) or (yield from _objection(turn, answer))):
            yield from turn.add(UserMessage(more))
        elif turn.was_cut:
            return LimitReached(turn.end(REASONS["output"]), cap="output", text=turn.cut_text + answer.text)
        elif (waits := _agents_left(turn)) == "suspended":
            return (yield from _suspend(turn, "approval"))
        elif waits:
            continue
        elif (call := turn.deps.at_end(turn)) is not None:
            yield from turn.add(AssistantMessage((call,)))
            ended = yield from _run_calls(turn, (call,))
            if over := (yield from _result_after_calls(turn, answer, ended)):
                return over
        else:
            return _complete(turn, answer, _answer_in_text(turn, answer))


def _agents_left(turn: Turn) -> Literal["", "more", "suspended"]:
    """Wait for the sub-agents in the background before the turn ends, unless they outlive it. Raises CancelledError."""
    agents = turn.deps.state.background
    return agents.wait(turn) if agents is not None and not (turn.deps.depth or agents.outlive) else ""


def _answer_in_text(turn: Turn, answer: AssistantMessage) -> Finish | None:
    return structured_output.answer_in_text(turn, answer) if turn.deps.guards else None


def _stuck_reminders(turn: Turn) -> list[str]:
    """Return reminders that nothing succeeds: after three failed rounds, after ten, and two before the limit."""
    failures, limit = turn.budget.failures, turn.options.limits.failures
    if not failures or failures not in (3, 10, limit - 2):
        return []
    return [STUCK.format(rounds=failures)]


def _run_calls(turn: Turn, calls: Sequence[ToolCall]) -> Steps:
    ended = yield from executor.run_calls(turn, calls)
    if not (ended.suspended or ended.cancelled) and turn.deps.hooks.wants("PostToolBatch"):
        yield from hook_points.after_batch(turn)
    return ended


def _result_after_calls(
    turn: Turn, answer: AssistantMessage | None, ended: BatchOutcome
) -> Generator[Event, None, TurnResult | None]:
    """Return the turn's result if the calls of a round end it."""
    if ended.suspended:
        return (yield from _suspend(turn, ended.suspended))
    turn.budget.end_round()
    if ended.cancelled:
        yield from turn.close_open_calls("Not run: the user cancelled the work.")
        return Failed(turn.end("cancelled"))
    if turn.stopped is not None:
        yield from turn.close_open_calls("Not run: a hook ended the turn.")
        yield Warned(f"A hook ended the turn: {turn.stopped}")
        return _complete(turn, answer, reason="stopped_by_hook")
    if ended.finish is None:
        return None
    if not ended.finish.checked and (more := (yield from _run_end_checks(turn, answer))):
        yield from turn.add(UserMessage(more))
        return None
    return _complete(turn, answer, ended.finish)


def _run_end_checks(turn: Turn, answer: AssistantMessage | None) -> Generator[Event, None, str | None]:
    """Run the after_turn command and the Stop hooks; return a message that continues the turn, or None to end it."""
    if turn.options.after_turn and turn.checks.wrote and (more := (yield from turn_end.run_after_turn(turn))):
        return more
    if turn.deps.hooks.wants("SubagentStop" if turn.deps.depth else "Stop"):
        return (yield from hook_points.stop_hooks(turn, answer.text if answer else ""))
    return None


def _call_model(turn: Turn, *, tool_choice: ToolChoice = "auto") -> Generator[Event, None, AssistantMessage]:
    """Call the model once; if it is unavailable, use the next fallback model."""
    while True:
        yield from compact_if_needed(turn)
        try:
            yield from follow_mode(turn)
            answer = yield from sample(turn, build_request(turn, tool_choice=tool_choice))
        except CancelledError:
            if turn.reducer is not None:
                yield from turn.reducer.restore(turn)
            raise
        except ModelError as error:
            if (yield from compact_after_overflow(turn, error.failure)):
                continue
            failure = yield from _send_less(turn, error)
            if failure is None:
                continue
            if not (yield from turn.fall_back(failure)):
                raise ModelError(failure, error.retry_after, error.status, error.code) from error
            yield Warned(f"{failure.message} Continuing with {turn.options.label}.")
            continue
        turn.deps.state.window.refusal = ""
        if turn.reducer is not None:
            yield from turn.reducer.keep(turn)
        if answer.parts:
            yield from turn.add(answer)
        return answer


def _send_less(turn: Turn, error: ModelError) -> Generator[Event, None, Failure | None]:
    """Prepare to send the refused request again with less in it; return the failure if that is of no use."""
    if not error.failure.reducible:
        if turn.reducer is not None:
            yield from turn.reducer.restore(turn)
        return error.failure
    turn.reducer = turn.reducer or send_less.RequestReducer()
    return (yield from turn.reducer.reduce(turn, error))


def _objection(turn: Turn, answer: AssistantMessage) -> Generator[Event, None, str | None]:
    """Return why a text-only answer does not end the turn, as a message to the model; None if it does."""
    if turn.deps.background and (texts := turn.deps.inbox()):
        return "\n\n".join(texts)
    if turn.looped:
        return (yield from turn_end.after_repetition(turn))
    if not answer.text.strip():
        turn.nudges["empty"] = 1
        return EMPTY_ANSWER
    gates = turn.gates if turn.deps.depth == 0 else None
    if gates is not None and (due := gates.unfinished(turn, answer.text)):
        return due
    # After a refusal the answer is accepted: a user or a rule has just rejected the model's approach.
    if not (turn.actions and turn.actions[-1].outcome == "refused"):
        more = yield from _plan_nudge(turn, answer, prompt("plan_continue"))
        if more is None and turn.checks.ran:
            more = yield from turn_end.failing_check(turn, answer.text)
        if more:
            return turn_end.for_whole_answer(turn, more, answer.text)
        announces = any(word in answer.text for word in _FUTURE)
        asked = (announces or turn.deps.context.small_model) and not _answer_in_text(turn, answer)
        if asked and (more := (yield from turn_end.ask(turn, answer))):
            return more
    if more := next((text for guard in turn.deps.guards if (text := guard(turn, answer))), None):
        return more
    if gates is not None and (more := (yield from gates.before_end(turn))):
        return more
    more = yield from _run_end_checks(turn, answer)
    return turn_end.for_whole_answer(turn, more, answer.text) if more else None


def _complete(
    turn: Turn, answer: AssistantMessage | None, finish: Finish | None = None, reason: TerminalReason = "completed"
) -> TurnResult:
    return Complete(
        turn.end(reason),
        text=_with_unrepeated(turn, turn.cut_text + answer.text) if answer else "",
        return_value=finish.value if finish else None,
        plan_unfinished=turn.left_open,
        verified=turn.checks.description,
    )


def _with_unrepeated(turn: Turn, text: str) -> str:
    """Return an answer after the one that it had to give again, unless it has that one's length and words.

    Short answers are claims rather than content, so words say nothing about them.
    """
    there = turn.unrepeated
    if not there:
        return text
    words, again = (set(re.findall(r"\w{4,}", each.casefold())) for each in (there, text))
    other = len(words) >= _MIN_WORDS and 2 * len(words & again) < len(words)
    missing = there if other or 2 * len(text) < len(there) else ""
    return "\n\n".join(filter(None, [missing, text]))


def _suspend(turn: Turn, why: str) -> Run:
    waiting = [call.id for call in pending_calls(turn.history)]
    if turn.deps.depth == 0 and (agents := turn.deps.state.background) is not None:
        if not agents.outlive:
            agents.wait_idle(turn)
        waiting += [call_id for agent in agents.open for call_id in agent.asked]
    left, mode = turn.budget.rounds_left, turn.deps.policy.mode
    yield TurnPaused(len(waiting), turn.budget.rounds, left, turn.spent, mode, suspended_state(turn))
    reason: TerminalReason = "await_approval" if why == "approval" else "await_user_input"
    return Suspended(turn.end(reason), pending=tuple(waiting))


def _out_of_budget(turn: Turn, cap: Cap, *, summary: bool = True) -> Run:
    """Summarize in one last round without calls, or with our own recap.

    The recap is used where a round would exceed the limit (of cost or rounds), and where that round fails.
    """
    text = ""
    if turn.timed_out:
        turn.deps.context.cancel = CancelToken()
    if summary and cap not in ("cost", "rounds"):
        yield from turn.add(UserMessage(LAST_ROUND.format(cap=CAP_WORDS[cap])))
        try:
            with deadline(turn, turn.budget.seconds + SUMMARY_SECONDS if cap == "duration" else 0):
                answer = yield from _call_model(turn, tool_choice="none")
            text = answer.text
            yield from turn.close_open_calls("Not run: the limit is reached.")
        except ModelError as error:
            yield Warned(error.failure.message)
        except CancelledError:
            if not turn.timed_out:
                raise
    text = text or _recap_after_answer(turn, f"The limit of this turn ({CAP_WORDS[cap]}) is reached.")
    return LimitReached(turn.end(REASONS[cap]), cap=cap, text=text)


def _fail_empty(turn: Turn) -> TurnResult:
    """Fail the turn: the model gave two empty answers in a row."""
    failure = Failure("malformed", "The model gave an empty answer twice in a row; try again, or another model.")
    text = recap(turn.actions, failure.message)
    return Failed(turn.end("empty_answer"), failure=failure, text=text)


def _continuation(turn: Turn, answer: AssistantMessage) -> str | None:
    """Return the message that continues an answer cut at its token limit; None after MAX_CONTINUATIONS times."""
    if not turn.was_cut or turn.nudges.get("cut", 0) >= MAX_CONTINUATIONS:
        return None
    turn.nudges["cut"] = turn.nudges.get("cut", 0) + 1
    if turn.cut_in_call:
        return CUT_CALL.format(cut=turn.cut)
    turn.cut_text += answer.text
    if not answer.text.strip():
        return CUT_EMPTY.format(where=f"{turn.cut_at:,} tokens" if turn.cut_at else "the token limit")
    return CONTINUE_CUT


def _without_model(turn: Turn, failure: Failure) -> Run:
    """End a turn whose model failed: with a recap (and no replay) if tools ran, else as failed."""
    said = _broken_off(turn)
    yield from turn.close_open_calls("Not run: the model failed.")
    if not turn.tools_ran:
        text = f"{failure.message} Its answer until then:\n\n{said}" if said else failure.message
        return Failed(turn.end("inference_error"), failure=failure, text=text)
    recapped = _recap_after_answer(turn, f"The model failed: {failure.message}")
    text = "\n\n".join(filter(None, [said, recapped]))
    return Complete(turn.end("inference_error"), text=text, degraded=True, failure=failure)


def _broken_off(turn: Turn) -> str:
    """Return the words of an answer that broke off; "" if there are none, or a user has seen them."""
    last = turn.history[-1] if turn.history else None
    if turn.deps.attended or not isinstance(last, AssistantMessage) or last.stop_reason != "error":
        return ""
    return last.text.strip()


def _finished(turn: Turn, result: TurnResult) -> TurnFinished:
    return TurnFinished(
        result=result._tag,  # type: ignore[arg-type]
        diagnostics=result.end.diagnostics,
        usage=turn.usage,
        earlier=turn.options.spent.usage,
        text=getattr(result, "text", ""),
        degraded=getattr(result, "degraded", False),
        failure=getattr(result, "failure", None),
        denials=tuple(d.call_id for d in result.end.denials),
        plan_unfinished=turn.left_open,
        verified=turn.checks.description,
        changed_files=turn.checks.wrote,
    )


def _plan_nudge(turn: Turn, answer: AssistantMessage, template: str) -> Generator[Event, None, str | None]:
    """Return a message that continues an unfinished plan; None to accept the answer.

    An answer that asks something, or names what blocks the work, is final.
    """
    plan = turn.deps.context.plan
    if not turn.left_open or is_question(answer.text) or names_obstacle(answer.text):
        return None
    attempt = turn.nudges.get("plan", 0) + 1
    if attempt > turn.options.plan_nudges:
        return None
    turn.nudges["plan"] = attempt
    yield PlanContinued(turn.budget.rounds, attempt, len(answer.text))
    step = next((t for t in plan if t.status == "in_progress"), open_steps(plan)[0])
    return template.format(goal=goal_of(turn.history), plan=format_plan(plan), step=step.content)
