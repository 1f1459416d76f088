"""When a call asks the person: a question of the model's, or a plan that wants approval."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from agent_cli.core.answers import Defer, Reply
from agent_cli.core.events import ApprovalRequested, Event, QuestionAnswered, QuestionAsked
from agent_cli.core.limits import Cap
from agent_cli.core.messages import UserMessage
from agent_cli.engine.checking import Prepared
from agent_cli.engine.turn import Turn
from agent_tools.base import AskPerson, Suspend, ToolResult
from agent_tools.display import TodoItem
from agent_tools.plan import plan_text
from agent_tools.values import to_plain

Q = TypeVar("Q", ApprovalRequested, QuestionAsked)
A = TypeVar("A")
CANCELLED = ToolResult("The user cancelled the work. Nothing more is to be done.", is_error=True)


def ask_person(turn: Turn, item: Prepared) -> Generator[Event, None, tuple[ToolResult | None, Prepared]]:
    """The result that the user's reply makes, and the call, with the plan as they edited it.

    The result is CANCELLED where they cancel the work, None where nobody has replied yet.
    """
    suspend = _suspend(turn, item)
    reply = yield from put(turn, QuestionAsked(item.call.id, suspend.kind, suspend.data))
    if isinstance(reply, Defer):
        return None, item
    if reply.verdict == "cancel":
        return CANCELLED, item
    if suspend.kind == "plan":
        return _plan_result(turn, item, reply, suspend)
    return ToolResult(f"The user answered: {reply.text}" if reply.by == "person" else reply.text), item


_WAITS = {"plan": "A plan waits for your approval", "review": "Work waits for you to look at it"}


def put(turn: Turn, asked: QuestionAsked) -> Generator[Event, None, Reply | Defer]:
    """Ask, and record what was said. Raises Cancelled."""
    yield asked
    message = _WAITS.get(asked.kind, "The agent has a question")
    reply = yield from answer_of(turn, asked, turn.kit.asker, "elicitation_dialog", message)
    if isinstance(reply, Defer):
        yield QuestionAnswered(asked.call_id, "defer", by="default")
    else:
        yield QuestionAnswered(asked.call_id, reply.verdict, reply.text, reply.by, reply.mode or "")
    return reply


def answer_of(turn: Turn, asked: Q, ask: Callable[[Q], A], kind: str, message: str) -> Generator[Event, None, A]:
    """What `ask` answers. Raises Cancelled.

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

    No call waits for the answer, so nothing of the question is recorded. Raises Cancelled.
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
    words = reply.text.removeprefix(f"{question['question']} -> ") if isinstance(reply, Reply) else "Stop"
    if words in ("Stop", "(no answer)") or (isinstance(reply, Reply) and reply.verdict != "answer"):
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


def _suspend(turn: Turn, item: Prepared) -> Suspend:
    """What is asked: the tool says so, or it is a first plan that has to be reviewed."""
    if item.tool.asks_person:
        result = item.tool.run(item.args, turn.kit.context)
        assert isinstance(result, ToolResult)
        assert result.suspend is not None
        return result.suspend
    return Suspend("plan", {"plan": "", "steps": [to_plain(t) for t in item.args.todos]})


def _plan_result(turn: Turn, item: Prepared, reply: Reply, suspend: Suspend) -> tuple[ToolResult, Prepared]:
    """The plan's fate in words, and its call; approval may change the mode, and its steps become the todo list."""
    words = f" They said: {reply.text}" if reply.text else ""
    if reply.verdict == "revise":
        return ToolResult(
            f"The user wants the plan changed.{words} Change it and propose it again.", is_error=True
        ), item
    turn.plan_approved = True
    if reply.mode is not None:
        turn.kit.policy.mode = reply.mode
    elif turn.kit.policy.mode == "plan":
        turn.kit.policy.mode = "default"
    if item.tool.asks_person:
        turn.kit.context.plan = tuple(TodoItem(step) for step in (reply.plan or suspend.data).get("steps", ()))
    elif reply.plan:
        known = {todo.content.strip(): todo for todo in item.args.todos}
        steps = tuple(known.get(step, TodoItem(step)) for step in reply.plan["steps"])
        item = item.but(args=item.args.but(todos=steps))
    if reply.plan:
        words += f" They edited it; it is now:\n{plan_text(reply.plan)}\n"
    return ToolResult(f"The user approved the plan.{words} Keep it as your todo list, and carry it out now."), item
