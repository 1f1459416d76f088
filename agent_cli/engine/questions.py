"""When a call asks the user: a question of the model's, or a plan that wants approval."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from agent_cli.core.answers import Defer, QuestionReply
from agent_cli.core.events import ApprovalRequested, Event, QuestionAnswered, QuestionAsked
from agent_cli.core.limits import Cap
from agent_cli.core.messages import UserMessage
from agent_cli.engine.checking import Prepared
from agent_cli.engine.checkpoints import checkpoint
from agent_cli.engine.turn import Turn
from agent_tools.base import AskPerson, Suspend, Tool, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.display import TodoItem
from agent_tools.plan import ExitPlanMode, plan_text
from agent_tools.values import to_plain

Q = TypeVar("Q", ApprovalRequested, QuestionAsked)
A = TypeVar("A")
CANCELLED = ToolResult("The user cancelled the work. Nothing more is to be done.", is_error=True)


def ask_person(turn: Turn, item: Prepared) -> Generator[Event, None, tuple[ToolResult | None, Prepared]]:
    """The result that the user's reply makes, and the call, with the plan as they edited it.

    The result is CANCELLED where they cancel the work, None where nobody has replied yet.
    """
    suspend = _suspend(turn, item)
    if isinstance(suspend, ToolResult):
        return suspend, item
    result, edited = yield from _answer(turn, item.call.id, suspend, adopt=item.tool.asks_person)
    if edited and not item.tool.asks_person:
        name = item.tool.plan_argument
        known = {todo.content.strip(): todo for todo in getattr(item.args, name)}
        steps = tuple(known.get(step, TodoItem(step)) for step in edited["steps"])
        item = item.but(args=item.args.but(**{name: steps}))
    return result, item


def settle(turn: Turn, call_id: str, result: ToolResult) -> Generator[Event, None, tuple[ToolResult, bool] | None]:
    """The result of a tool that ran and suspended, with the user's reply below its text; and whether they end the work.

    None where nobody replied yet: the call stays open, and what its tool gave is held until the turn goes on. Raises
    Cancelled.
    """
    assert result.suspend is not None
    turn.kit.held[call_id] = result
    said, _ = yield from _answer(turn, call_id, result.suspend, adopt=True, ran=result)
    if said is None:
        return None
    turn.kit.held.pop(call_id, None)
    text = "\n\n".join(filter(None, [result.text, said.text]))
    return result.but(text=text, is_error=said.is_error, suspend=None), said is CANCELLED


def validated_question(turn: Turn, name: str, suspend: Suspend) -> Suspend:
    """What a tool of any origin asks, in the form that every front end can show. Raises ToolError where it has none."""
    # Only for tools that are not shipped.
    from agent_tools.ask_user import AskUserQuestion

    if suspend.kind == "plan" and turn.kit.depth:
        raise ToolError(f"The tool {name} cannot be used by a sub-agent: it puts a plan to the user.")
    tools: dict[str, Tool[Any]] = {"questions": AskUserQuestion(), "plan": ExitPlanMode()}
    try:
        if suspend.kind not in tools or not isinstance(suspend.data, dict):
            raise ToolError(f"its kind is {suspend.kind!r}, and not {' or '.join(map(repr, tools))}.")
        tool = tools[suspend.kind]
        made = tool.run(tool.read(suspend.data), turn.kit.context)
    except ToolError as error:
        raise ToolError(f"The tool {name} is faulty: its question cannot be asked. {error}") from None
    assert isinstance(made, ToolResult)
    assert made.suspend is not None
    return made.suspend


def _answer(
    turn: Turn, call_id: str, suspend: Suspend, *, adopt: bool, ran: ToolResult | None = None
) -> Generator[Event, None, tuple[ToolResult | None, dict[str, Any]]]:
    """What the reply says to the model, and the plan as the user edited it ({} where they did not).

    adopt: the steps of an approved plan become the todo list.
    """
    asked = QuestionAsked(call_id, suspend.kind, suspend.data)
    reply = yield from put_question(turn, asked.but(ran=ran) if ran else asked)
    if isinstance(reply, Defer):
        return None, {}
    if reply.verdict == "cancel":
        return CANCELLED, {}
    if suspend.kind == "plan":
        return _plan_result(turn, reply, suspend, adopt=adopt), reply.plan
    return ToolResult(f"The user answered: {reply.text}" if reply.by == "person" else reply.text), {}


_WAITS = {"plan": "A plan waits for your approval", "review": "Work waits for you to look at it"}


def put_question(turn: Turn, asked: QuestionAsked) -> Generator[Event, None, QuestionReply | Defer]:
    """Ask, and record what was said. Raises CancelledError."""
    yield asked
    yield from checkpoint(turn)
    message = _WAITS.get(asked.kind, "The agent has a question")
    reply = yield from answer_of(turn, asked, turn.kit.asker, "elicitation_dialog", message)
    if isinstance(reply, Defer):
        yield QuestionAnswered(asked.call_id, "defer", by="default")
    else:
        yield QuestionAnswered(asked.call_id, reply.verdict, reply.text, reply.by, reply.mode or "")
    return reply


def answer_of(turn: Turn, asked: Q, ask: Callable[[Q], A], kind: str, message: str) -> Generator[Event, None, A]:
    """What `ask` answers. Raises CancelledError.

    The Notification hooks run beside the question where the user is asked now, and are waited for where the turn is
    suspended until they answer. They do not run where an answer was recorded before, or is given without the user.
    """
    kit = turn.kit
    kit.context.cancel.check()
    if kit.attended and not kit.recorded(asked) and kit.hooks.wants("Notification", kind):
        from agent_cli.engine.hooked import notify

        notify(turn, kind, message)
    with turn.budget.waiting():
        answer = ask(asked)
    if not kit.attended and isinstance(answer, Defer) and kit.hooks.wants("Notification", kind):
        from agent_cli.engine.hooked import notified

        yield from notified(turn, kind, message)
    return answer


_KEEP_GOING = "Continue"


def ask_to_continue(turn: Turn, cap: Cap) -> Generator[Event, None, Cap | None]:
    """Ask whether to continue at a limit that says the work is stuck: None where it continues, else the limit.

    No call waits for the answer, so nothing of the question is recorded. Raises CancelledError.
    """
    question = {
        "question": f"{_STUCK[cap].format(limits=turn.options.limits)} Continue?",
        "header": "Stuck",
        "options": [
            {"label": _KEEP_GOING, "description": "let it try again; your own words go to the model"},
            {"label": "Stop", "description": "end here with a summary"},
        ],
        "multiSelect": False,
    }
    asked = QuestionAsked("limit", "questions", {"questions": [question]})
    message = "The agent is stuck and asks whether to continue"
    reply = yield from answer_of(turn, asked, turn.kit.asker, "elicitation_dialog", message)
    if isinstance(reply, Defer):
        # The user has left without an answer: the turn is interrupted, and can be resumed.
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


def ask_during(turn: Turn, call_id: str, step: AskPerson) -> Generator[Event, None, str | None]:
    """What the user says to a question of a running tool; None where nobody is there to answer."""
    options = [{"label": label, "description": ""} for label in step.options]
    question = {"question": step.question, "header": "", "options": options, "multiSelect": False}
    asked = QuestionAsked(call_id, "questions", {"questions": [question]})
    yield asked
    reply = yield from answer_of(turn, asked, turn.kit.asker, "elicitation_dialog", "A tool has a question")
    if isinstance(reply, Defer) or reply.by != "person" or reply.verdict != "answer":
        yield QuestionAnswered(call_id, "cancel", by="default")
        return None
    yield QuestionAnswered(call_id, "answer", reply.text, reply.by)
    return reply.text.removeprefix(f"{step.question} -> ")


def _suspend(turn: Turn, item: Prepared) -> Suspend | ToolResult:
    """What is asked: the tool says so, or it is a first plan that has to be reviewed. A result where nothing is."""
    if item.tool.asks_person:
        try:
            result = item.tool.run(item.args, turn.kit.context)
            if not isinstance(result, ToolResult):
                raise ToolError(f"The tool {item.tool.name} is faulty: it asks the user, and yet runs in steps.")
            return result if result.suspend is None else validated_question(turn, item.tool.name, result.suspend)
        except ToolError as error:
            return ToolResult(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001 - a faulty tool must cost its call, not the turn; the model reads it
            return ToolResult(f"The tool {item.tool.name} failed: {type(error).__name__}: {error}", is_error=True)
    return Suspend("plan", {"plan": "", "steps": [to_plain(t) for t in getattr(item.args, item.tool.plan_argument)]})


def _plan_result(turn: Turn, reply: QuestionReply, suspend: Suspend, *, adopt: bool) -> ToolResult:
    """The plan's fate in words; approval may change the mode, and its steps become the todo list."""
    words = f" They said: {reply.text}" if reply.text else ""
    if reply.verdict == "revise":
        turn.skip_rest = "Not run: the plan was sent back."
        return ToolResult(f"The user wants the plan changed.{words} Change it and propose it again.", is_error=True)
    turn.plan_approved = True
    if reply.mode is not None:
        turn.kit.policy.mode = reply.mode
    elif turn.kit.policy.mode == "plan":
        turn.kit.policy.mode = "default"
    if adopt:
        turn.kit.context.plan = tuple(TodoItem(step) for step in (reply.plan or suspend.data).get("steps", ()))
    if reply.plan:
        words += f" They edited it; it is now:\n{plan_text(reply.plan)}\n"
    return ToolResult(f"The user approved the plan.{words} Keep it as your todo list, and carry it out now.")
