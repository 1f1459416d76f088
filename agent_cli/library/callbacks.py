"""The parts of the Python API besides sessions: the caller's functions as approver, asker, hooks and tools; results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from agent_cli.hooks import PythonHook
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.decisions import (
    Answer,
    Approve,
    Approver,
    Asker,
    Defer,
    EditedCall,
    QuestionReply,
    Reject,
    answer_unattended,
    defer,
    deny,
)
from agent_cli.kernel.events import ApprovalRequested, QuestionAsked
from agent_cli.kernel.results import Complete, Denial, Diagnostics, Failed, LimitReached, Suspended, TurnResult, Usage
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_cli.knowledge.tool_packages import tool_problem
from agent_tools.base import Tool
from agent_tools.cancel import CancelledError
from agent_tools.function_tool import FunctionTool
from agent_tools.record import Value

ApproveFunction = Callable[[ApprovalRequested], Answer | bool]
AnswerFunction = Callable[[QuestionAsked], QuestionReply | Defer | str]
HookFunction = Callable[[dict[str, Any]], Mapping[str, Any] | None]
HookFunctions = Mapping[str, HookFunction | Sequence[HookFunction]]
AnyTool = Tool[Any] | type[Tool[Any]] | Callable[..., Any]


class Callbacks:
    """The caller's functions as approver and asker.

    error: an exception that one of them raised, which ends the turn; None if none did.
    """

    def __init__(self, approve: ApproveFunction | Literal["deny", "suspend"], answer: AnswerFunction | None) -> None:
        self._approve = approve
        self._answer = answer
        self.error: Exception | None = None
        self._changed: dict[str, dict[str, Any]] = {}

    def copy(self) -> Callbacks:
        """Return callbacks with the same functions, for another session."""
        return Callbacks(self._approve, self._answer)

    @property
    def attended(self) -> bool:
        """True if a function decides about calls."""
        return callable(self._approve)

    def pair(self, on_ask: str = "") -> tuple[Approver, Asker]:
        """Return the approver and the asker, whatever the session was saved with."""
        return self.approve, self.ask

    def approve(self, request: ApprovalRequested) -> Answer:
        if self._approve == "suspend":
            return Defer()
        if not callable(self._approve):
            return deny(request)
        changed = self._changed.pop(request.call_id, None)
        approved = UserDecision(request.call_id, "", "approve").answer_to(request)
        if changed is not None and request.arguments == changed:
            return approved
        answer = self._call(self._approve, request)
        if isinstance(answer, bool):
            return approved if answer else UserDecision(request.call_id, "", "reject").answer_to(request)
        if isinstance(answer, EditedCall):
            # An edited call is decided again, and may be asked about again: the function has already chosen it.
            self._changed[request.call_id] = answer.arguments
            return approved if answer.arguments in (changed, request.arguments) else answer
        if isinstance(answer, Approve | Reject | Defer):
            return answer
        raise self._faulty("approve", answer, "True, False, Approve, Reject, EditedCall and Defer")

    def ask(self, asked: QuestionAsked) -> QuestionReply | Defer:
        if self._answer is None:
            return defer(asked) if self._approve == "suspend" else answer_unattended(asked)
        answer = self._call(self._answer, asked)
        if isinstance(answer, str) and asked.kind == "questions":
            decision = UserDecision(asked.call_id, "", "answer", answer)
            answer = self._call(lambda question: decision.answer_to(question), asked)
        if isinstance(answer, QuestionReply | Defer):
            return answer
        raise self._faulty("answer", answer, "text for questions, QuestionReply and Defer")

    def _call(self, function: Callable[[Any], Any], given: Any) -> Any:
        try:
            return function(given)
        except Exception as error:  # noqa: BLE001 - it ends the turn, and is then raised to the caller
            self.error = error
            raise CancelledError from None

    def _faulty(self, name: str, answer: object, known: str) -> CancelledError:
        """Return the error that ends the turn after a function returned an invalid answer."""
        self.error = TypeError(f"{name} returned {answer!r}; the answers are: {known}.")
        return CancelledError()


def read_tools(given: Iterable[AnyTool]) -> tuple[Tool[Any], ...]:
    """Return the tools given as objects, classes or functions. Raises UsageError."""
    return tuple(map(_as_tool, given))


def _as_tool(given: AnyTool) -> Tool[Any]:
    """Return one tool given as an object, a class or a function. Raises UsageError."""
    try:
        if isinstance(given, type):
            found: Any = given()
        else:
            found = given if isinstance(given, Tool) or not callable(given) else FunctionTool(given)
    except TypeError as error:
        raise UsageError(f"tools: {error}") from None
    if problem := tool_problem(found):
        raise UsageError(f"tools: expected tools and functions, and not {problem}.")
    return found  # type: ignore[no-any-return]


def read_hooks(hooks: HookFunctions) -> tuple[PythonHook, ...]:
    """Return the hooks, keyed by event, or by event and matcher as in "PreToolUse:Bash|Edit". Raises UsageError."""
    found = []
    for name, functions in hooks.items():
        event, colon, matcher = name.partition(":")
        row = HOOK_EVENTS.get(event)
        if row is None:
            raise UsageError(f"hooks: unknown event {event!r}; known events: {', '.join(HOOK_EVENTS)}.")
        if colon and not row.matched:
            raise UsageError(f"hooks: {event} takes no matcher.")
        every = [functions] if callable(functions) else functions
        # A hook that fails blocks: a broken guard must not let everything through.
        found += [PythonHook(row.name, function, matcher, strict=True) for function in every]
    return tuple(found)


def parameter_json(data: Mapping[str, Any], name: str) -> str:
    """Return a parameter as JSON. Raises UsageError."""
    try:
        return json.dumps(dict(data), default=os.fspath)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: cannot be encoded as JSON: {error}.") from None


Pending = ApprovalRequested | QuestionAsked
Ending = Literal["complete", "suspended", "error", "limit", "interrupted"]
NO_OUTPUT = "The model gave no answer that matches the schema."


class Result(Value):
    """The result of a turn."""

    # The model's last text, or the program's own recap if there is none.
    text: str
    # complete: the model answered. suspended: calls are pending, see `pending`. error: see `error`. limit: a limit of
    # the settings was reached. interrupted: `interrupt` was called, or the stream was abandoned.
    outcome: Ending
    session_id: str
    # Tokens of the whole turn; `usage.reliable` is False if the price of a model is unknown.
    usage: Usage
    # Dollars, sub-agents included.
    cost: float
    # Rounds, calls, times and the exact reason why the turn ended.
    diagnostics: Diagnostics
    # Pending decisions, if the turn is suspended.
    pending: tuple[Pending, ...] = ()
    # The answer that fits the schema, if one was given.
    output: Any = None
    # The error in a sentence; "" for none.
    error: str = ""
    # True if the same may work later.
    retryable: bool = False
    # The calls that were refused.
    denials: tuple[Denial, ...] = ()


def result_of(ended: TurnResult, session_id: str, pending: tuple[Pending, ...], *, structured: bool) -> Result:
    """Return the result of a turn. pending: open decisions. structured: a schema was given for the answer."""
    failure = getattr(ended, "failure", None)
    error = failure.message if failure is not None else ""
    outcome: Ending
    match ended:
        case Suspended():
            outcome = "suspended"
        case LimitReached():
            outcome = "limit"
        case Failed(failure=None):
            outcome = "interrupted"
        case Complete(degraded=False, return_value=None) if structured:
            outcome, error = "error", NO_OUTPUT
        case Complete(degraded=False):
            outcome = "complete"
        case _:
            outcome = "error"
    return Result(
        text=getattr(ended, "text", ""),
        outcome=outcome,
        session_id=session_id,
        usage=ended.end.usage,
        cost=ended.end.cost,
        diagnostics=ended.end.diagnostics,
        pending=pending,
        output=getattr(ended, "return_value", None),
        error=error,
        retryable=failure is not None and failure.retryable,
        denials=ended.end.denials,
    )
