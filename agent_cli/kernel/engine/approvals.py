"""Approvals of a round's calls, and questions to the user: hooks answer first, then the user.

Also checks that an approval still holds when its call is about to run: what a command destroys must be what was shown.
Without hooks none of their code is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from agent_cli.kernel.decisions import Answer, Approve, Defer, QuestionReply, Reject, reply_record
from agent_cli.kernel.engine.tool_call import approval_fingerprint, call_fingerprint, prepare_call
from agent_cli.kernel.engine.turn import Turn, checkpoint, report_failure
from agent_cli.kernel.engine.types import CallError, CheckedCall, PreparedCall
from agent_cli.kernel.events import ApprovalRequested, Event, QuestionAnswered, QuestionAsked
from agent_cli.kernel.messages import ToolCall, UserMessage
from agent_cli.kernel.results import Cap
from agent_tools.base import AskUser, Effect, Suspend, Tool, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.plan import ExitPlanMode, plan_text
from agent_tools.record import to_json
from agent_tools.results import TodoItem

if TYPE_CHECKING:
    from agent_cli.kernel.engine.hook_points import RoundHooks

with lazy_imports():
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel.engine import hook_points
    from agent_tools import ask_user as ask_user_tool

Q = TypeVar("Q", ApprovalRequested, QuestionAsked)
A = TypeVar("A")
CANCELLED = ToolResult("The user cancelled the work. Nothing more is to be done.", is_error=True)


def ask_user(turn: Turn, item: PreparedCall) -> Generator[Event, None, tuple[ToolResult | None, PreparedCall]]:
    """Ask the user a tool's question, or to approve a plan; return the result that the reply makes, and the call.

    The result is CANCELLED if they cancel the work, None if nobody has replied yet. The call contains the plan as the
    user edited it.
    """
    suspend = _suspend(turn, item)
    if isinstance(suspend, ToolResult):
        return suspend, item
    result, edited = yield from _answer(turn, item.call.id, suspend, adopt=item.tool.asks_user)
    if edited and not item.tool.asks_user:
        name = item.tool.plan_argument
        known = {todo.content.strip(): todo for todo in getattr(item.args, name)}
        steps = tuple(known.get(step, TodoItem(step)) for step in edited["steps"])
        item = item.replace(args=item.args.replace(**{name: steps}))
    return result, item


def settle_suspended(
    turn: Turn, call_id: str, result: ToolResult
) -> Generator[Event, None, tuple[ToolResult, bool] | None]:
    """Ask the question of a tool that ran and suspended; return its result with the user's reply.

    The second value is True if they cancel the work. Returns None if nobody has replied yet: the call stays open, and
    the tool's output is stored until the turn is resumed. Raises CancelledError.
    """
    assert result.suspend is not None
    turn.deps.state.held[call_id] = result
    answered, _ = yield from _answer(turn, call_id, result.suspend, adopt=True, ran=result)
    if answered is None:
        return None
    turn.deps.state.held.pop(call_id, None)
    text = "\n\n".join(filter(None, [result.text, answered.text]))
    return result.replace(text=text, is_error=answered.is_error, suspend=None), answered is CANCELLED


def validated_question(turn: Turn, name: str, suspend: Suspend) -> Suspend:
    """Return a tool's question in the form that every front end can show. Raises ToolError if it is invalid."""
    # Only tools that are not built in can ask something invalid.
    if suspend.kind == "plan" and turn.deps.depth:
        raise ToolError(f"The tool {name} cannot be used by a sub-agent: it puts a plan to the user.")
    tools: dict[str, Tool[Any]] = {"questions": ask_user_tool.AskUserQuestion(), "plan": ExitPlanMode()}
    try:
        if suspend.kind not in tools or not isinstance(suspend.data, dict):
            raise ToolError(f"its kind is {suspend.kind!r}, and not {' or '.join(map(repr, tools))}.")
        tool = tools[suspend.kind]
        made = tool.run(tool.read(suspend.data), turn.deps.context)
    except ToolError as error:
        raise ToolError(f"The tool {name} is faulty: its question cannot be asked. {error}") from None
    assert isinstance(made, ToolResult)
    assert made.suspend is not None
    return made.suspend


def _answer(
    turn: Turn, call_id: str, suspend: Suspend, *, adopt: bool, ran: ToolResult | None = None
) -> Generator[Event, None, tuple[ToolResult | None, dict[str, Any]]]:
    """Ask; return the result that the reply makes, and the plan as the user edited it ({} if they did not).

    adopt: make the steps of an approved plan the todo list.
    """
    asked = QuestionAsked(call_id, suspend.kind, suspend.data)
    reply = yield from put_question(turn, asked.replace(ran=ran) if ran else asked)
    if isinstance(reply, Defer):
        return None, {}
    if reply.verdict == "cancel":
        return CANCELLED, {}
    if suspend.kind == "plan":
        return _plan_result(turn, reply, suspend, adopt=adopt), reply.plan
    return ToolResult(f"The user answered: {reply.text}" if reply.by == "person" else reply.text), {}


_WAIT_MESSAGES = {"plan": "A plan waits for your approval", "review": "Work waits for you to look at it"}


def put_question(turn: Turn, asked: QuestionAsked) -> Generator[Event, None, QuestionReply | Defer]:
    """Ask the user and record the answer. Raises CancelledError."""
    yield asked
    yield from checkpoint(turn)
    message = _WAIT_MESSAGES.get(asked.kind, "The agent has a question")
    reply = yield from get_answer(turn, asked, turn.deps.asker, "elicitation_dialog", message)
    if isinstance(reply, Defer):
        yield QuestionAnswered(asked.call_id, "defer", by="default")
    else:
        yield reply_record(asked, reply)
    return reply


def get_answer(turn: Turn, asked: Q, ask: Callable[[Q], A], kind: str, message: str) -> Generator[Event, None, A]:
    """Return the answer of `ask`. Raises CancelledError.

    If a user is present, the Notification hooks run in the background while the question is shown; otherwise they run
    to their end before the turn is suspended. They do not run for an answer that was recorded before or is automatic.
    """
    deps = turn.deps
    deps.context.cancel.check()
    if deps.attended and not deps.recorded(asked) and deps.hooks.wants("Notification", kind):
        hook_points.begin_notification(turn, kind, message)
    with turn.budget.waiting():
        answer = ask(asked)
    if not deps.attended and isinstance(answer, Defer) and deps.hooks.wants("Notification", kind):
        yield from hook_points.fire(turn, hook_events.notification(kind, message))
    return answer


_KEEP_GOING = "Continue"


def ask_to_continue(turn: Turn, cap: Cap) -> Generator[Event, None, Cap | None]:
    """Ask whether to continue at a limit that is reached when the work is stuck; return the limit, or None to continue.

    No call waits for the answer, so the question is not recorded. Raises CancelledError.
    """
    question = {
        "question": f"{_STUCK[cap].format(limits=turn.options.limits)} Continue?",
        "header": "Stuck",
        "options": [
            {"label": _KEEP_GOING, "description": "let it try again; a comment goes to the model"},
            {"label": "Stop", "description": "end here with a summary"},
        ],
        "multiSelect": False,
    }
    asked = QuestionAsked("limit", "questions", {"questions": [question]})
    message = "The agent is stuck and asks whether to continue"
    reply = yield from get_answer(turn, asked, turn.deps.asker, "elicitation_dialog", message)
    if isinstance(reply, Defer):
        # The user left without an answer: interrupt the turn; it can be resumed.
        raise CancelledError
    words = reply.text.removeprefix(f"{question['question']} -> ")
    if words in ("Stop", "(no answer)") or reply.verdict != "answer":
        return cap
    turn.budget.renew(cap)
    turn.repeats.renew()
    if words != _KEEP_GOING:
        yield from turn.add(UserMessage(words))
    return None


_STUCK: dict[Cap, str] = {
    "failures": "Nothing succeeded in {limits.failures} rounds in a row.",
    "denials": "The same call was refused {limits.denials} times.",
    "repetition": "The model repeats the same calls with the same results.",
}


def ask_during(turn: Turn, call_id: str, step: AskUser) -> Generator[Event, None, str | None]:
    """Ask the user a running tool's question; return None if nobody is there to answer."""
    options = [{"label": label, "description": ""} for label in step.options]
    question = {"question": step.question, "header": "", "options": options, "multiSelect": False}
    asked = QuestionAsked(call_id, "questions", {"questions": [question]})
    yield asked
    reply = yield from get_answer(turn, asked, turn.deps.asker, "elicitation_dialog", "A tool has a question")
    if isinstance(reply, Defer) or reply.by != "person" or reply.verdict != "answer":
        yield QuestionAnswered(call_id, "cancel", by="default")
        return None
    yield QuestionAnswered(call_id, "answer", reply.text, reply.by)
    return reply.text.removeprefix(f"{step.question} -> ")


def _suspend(turn: Turn, item: PreparedCall) -> Suspend | ToolResult:
    """Return the question of the call: the tool's own, or a first plan to approve. Return a result if there is none."""
    if item.tool.asks_user:
        try:
            result = item.tool.run(item.args, turn.deps.context)
            if not isinstance(result, ToolResult):
                raise ToolError(f"The tool {item.tool.name} is faulty: it asks the user, and yet runs in steps.")
            return result if result.suspend is None else validated_question(turn, item.tool.name, result.suspend)
        except ToolError as error:
            return ToolResult(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001 - a faulty tool must cost its call, not the turn; the model reads it
            return ToolResult(f"The tool {item.tool.name} failed: {type(error).__name__}: {error}", is_error=True)
    return Suspend("plan", {"plan": "", "steps": [to_json(t) for t in getattr(item.args, item.tool.plan_argument)]})


def _plan_result(turn: Turn, reply: QuestionReply, suspend: Suspend, *, adopt: bool) -> ToolResult:
    """Return the result of a plan's approval or rejection; approval may change the mode and set the todo list."""
    words = f" They said: {reply.text}\n" if reply.text else " "
    if reply.verdict == "revise":
        turn.skip_rest = "Not run: the plan was sent back."
        return ToolResult(f"The user wants the plan changed.{words}Change it and propose it again.", is_error=True)
    turn.plan_approved = True
    if reply.mode is not None:
        turn.deps.policy.mode = reply.mode
    elif turn.deps.policy.mode == "plan":
        turn.deps.policy.mode = "default"
    if adopt:
        turn.deps.context.plan = tuple(TodoItem(step) for step in (reply.plan or suspend.data).get("steps", ()))
    if reply.plan:
        words += f"They edited it; it is now:\n{plan_text(reply.plan)}\n"
    return ToolResult(f"The user approved the plan.{words}Keep it as your todo list, and carry it out now.")


class ApprovalRound:
    """The approvals of one round.

    preapproved: for calls that the user edited, the effects that they saw, and who they are, by call id.
    """

    def __init__(self, turn: Turn, *, together: bool) -> None:
        self.turn = turn
        self.together = together
        self.preapproved: dict[str, tuple[tuple[Effect, ...], str]] = {}
        self._hooks: RoundHooks | None = None
        # Calls that could not be checked, with the error for the model.
        self._failed: dict[str, tuple[ToolCall, CallError]] = {}

    def check(self, call: ToolCall) -> Generator[Event, None, CheckedCall]:
        """Return the call made ready, with the decision of its hooks. Raises CancelledError."""
        if (failed := self._failed.get(call.id)) and failed[0] == call:
            return failed[1]
        try:
            # For any tool: only a prepared call shows which one it really calls.
            if not self.turn.deps.hooks.wants("PreToolUse"):
                return prepare_call(self.turn, call, together=self.together)
            return (yield from self._round_hooks().pre_tool_use(call))
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it must cost this call, not the turn
            failure = yield from report_failure(self.turn.deps, f"checking {call.name}", error)
            self._failed[call.id] = (call, CallError(f"{failure} The call was not run."))
            return self._failed[call.id][1]

    def is_preapproved(self, call_id: str, effects: Iterable[Effect]) -> bool:
        """Return True if the user has approved these arguments, and the call does nothing that they have not seen."""
        return call_id in self.preapproved and set(effects) <= set(self.preapproved[call_id][0])

    def answer(self, request: ApprovalRequested, item: PreparedCall) -> Generator[Event, None, Answer]:
        """Return the hooks' answer to an approval question, else the user's. Raises CancelledError."""
        try:
            return (yield from self._answer(request, item))
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - without an approval the call is rejected; the turn continues
            failure = yield from report_failure(self.turn.deps, f"asking about {request.tool}", error)
            return Reject(f"could not be put to the user. {failure}".rstrip("."), by="default")

    def _answer(self, request: ApprovalRequested, item: PreparedCall) -> Generator[Event, None, Answer]:
        deps = self.turn.deps
        if request.deferred and not deps.recorded(request):
            return Defer()
        if deps.hooks.wants("PermissionRequest", request.tool):
            answer = yield from self._round_hooks().permission(item, request)
            if answer is not None:
                return answer
        deps.context.cancel.check()
        if self.is_preapproved(request.call_id, request.effects):
            return Approve(user=self.preapproved[request.call_id][1])
        self.preapproved.pop(request.call_id, None)
        message = f"The agent needs your permission to use {request.tool}"
        return (yield from get_answer(self.turn, request, deps.approver, "permission_prompt", message))

    def note(self, call: ToolCall) -> str:
        """Return the hooks' notes for the model, to append to the result of a call."""
        return self._hooks.note(call) if self._hooks is not None else ""

    def _round_hooks(self) -> RoundHooks:
        if self._hooks is None:
            self._hooks = hook_points.RoundHooks(self.turn, together=self.together)
        return self._hooks


# How often the user is asked again about content that keeps changing (a log).
_MAX_REPEATED_QUESTIONS = 2
_MAX_NAMED_PATHS = 5


class ShownCalls:
    """The content that the questions of a round have shown, by call id."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._shown: dict[str, tuple[str, dict[str, str]]] = {}
        self._again: dict[str, int] = {}
        # The paths that calls run since then may have changed, and the summaries of these calls.
        self._written: set[str] = set()
        self._ran: list[str] = []

    def record_question(self, item: PreparedCall, request: ApprovalRequested) -> ApprovalRequested:
        """Record a question about to be asked; if it is asked again, add what changed since."""
        call, stakes = item.call.id, self._stakes(item)
        before, fingerprint = self._shown.get(call), call_fingerprint(self._turn, item)
        self._shown[call] = (fingerprint, stakes)
        if before is None:
            return self._explain_delay(item, request)
        changed = _changed(before[1], stakes)
        if not changed and fingerprint != before[0]:
            # Nothing would be destroyed, but what was shown is different now.
            changed = sorted({e.target for e in item.effects if e.kind in ("read", "write")})
        if not changed:
            return request
        self._again[call] = self._again.get(call, 0) + 1
        more = f" and {len(changed) - _MAX_NAMED_PATHS} more" if len(changed) > _MAX_NAMED_PATHS else ""
        ran = f", while this ran: {'; '.join(self._ran[-3:])}" if self._ran else ""
        names = ", ".join(changed[:_MAX_NAMED_PATHS])
        text = f"changed since you were asked: {names}{more}{ran}"
        return request.replace(facts=(*request.facts, text), warnings=(text, *request.warnings))

    def _explain_delay(self, item: PreparedCall, request: ApprovalRequested) -> ApprovalRequested:
        """Say why a call is asked about only now, if it had to wait for one before it."""
        if not (same := sorted({effect.target for effect in item.effects} & self._written)):
            return request
        ran = f"asked only now, as this changed {', '.join(same[:_MAX_NAMED_PATHS])} first: {'; '.join(self._ran[-3:])}"
        return request.replace(facts=(*request.facts, ran))

    def is_still_approved(self, item: PreparedCall, request: ApprovalRequested) -> bool:
        """Return True if an approval of the request still holds for the call."""
        if approval_fingerprint(self._turn, item) == request.binding:
            return True
        shown, before = self._shown.get(item.call.id, ("", {}))
        if call_fingerprint(self._turn, item) != shown:
            return False
        changed = _changed(before, self._stakes(item))
        return self._again.get(item.call.id, 0) >= _MAX_REPEATED_QUESTIONS or all(
            self._by_calls(path) for path in changed
        )

    def record_run(self, item: PreparedCall) -> None:
        """Record a call that is about to run."""
        if not self._shown:
            return
        destroyed = self._stakes(item).keys() if any(stakes for _, stakes in self._shown.values()) else ()
        self._written |= item.writes | set(destroyed)
        self._ran.append(item.summary)

    def _stakes(self, item: PreparedCall) -> dict[str, str]:
        return self._turn.deps.policy.at_stake(item.effects)

    def _by_calls(self, path: str) -> bool:
        return any(path == written or path.startswith(f"{written}/") for written in self._written)


def _changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
