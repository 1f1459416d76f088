"""Tools that suspend after they ran: asked once, run once, whoever answers and whenever; and calls after the last."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer, QuestionReply
from agent_cli.kernel.events import QuestionAsked, ToolFinished, ToolRequested, ToolStarted
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Complete, Failed, Suspended
from agent_tools.base import Effect, Finish, Progress, Suspend, Tool, ToolContext, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from tests.support.scripts import call, task
from tests.support.subagent_turns import story
from tests.support.turns import World

WHICH = Suspend("questions", {"questions": [{"question": "Which?", "options": [{"label": "red"}]}]})
PLAN = Suspend("plan", {"plan": "1. Look\n2. Paint"})


class PaintArgs(Value):
    """Paint takes none."""


class Paint(Tool[PaintArgs]):
    """Writes a line into a file, then asks."""

    name = "Paint"
    Args = PaintArgs

    def __init__(self, suspend: Any, *, steps: bool = False, text: str = "Primed.", **more: Any) -> None:
        self.suspend, self.steps, self.text, self.more = suspend, steps, text, more

    def effects(self, args: PaintArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("write", str(ctx.workspace.root / "wall")),)

    def summary(self, args: PaintArgs, ctx: ToolContext) -> str:
        return "Paint the wall"

    def run(self, args: PaintArgs, ctx: ToolContext) -> Any:
        with (ctx.workspace.root / "wall").open("a") as wall:
            wall.write("primer\n")
        result = ToolResult(self.text, suspend=self.suspend, **self.more)
        return self._slowly(result) if self.steps else result

    def _slowly(self, result: ToolResult) -> Generator[Progress, None, ToolResult]:
        yield Progress("mixing")
        return result


class Last(Paint):
    """Completes the turn."""

    name = "Last"

    def run(self, args: PaintArgs, ctx: ToolContext) -> ToolResult:
        return ToolResult("Taken.", finish=Finish("the end"))


def world(root: Path, tool: Tool[Any], *replies: Any, calls: tuple[str, ...] = ("Paint",), **deps: Any) -> World:
    lines = [{"calls": [call(name) for name in calls]}, {"text": "Done."}]
    return World(root, [*lines, *replies], mode="bypassPermissions", tools=(*BUILTIN, tool), **deps)


def results(there: World) -> list[str]:
    return [m.text for m in there.history if isinstance(m, ToolMessage)]


@pytest.mark.parametrize("steps", [False, True])
def test_an_answer_stands_below_what_the_tool_gave(tmp_path: Path, steps: bool) -> None:
    there = world(tmp_path, Paint(WHICH, steps=steps), asker=lambda asked: QuestionReply("answer", "Which? -> red"))
    assert isinstance(there.turn("paint"), Complete)
    assert results(there) == ["Primed.\n\nThe user answered: Which? -> red"]
    assert (tmp_path / "wall").read_text() == "primer\n"


def test_it_waits_without_having_to_run_again(tmp_path: Path) -> None:
    asked: list[QuestionAsked] = []
    there = world(tmp_path, Paint(WHICH), asker=lambda a: asked.append(a) or Defer(), calls=("Paint", "TodoRead"))
    result = there.turn("paint")
    assert isinstance(result, Suspended) and len(result.pending) == 2
    assert result.end.diagnostics.terminal_reason == "await_user_input"
    assert asked[0].ran is not None and asked[0].ran.text == "Primed."
    (tmp_path / "wall").write_text("changed meanwhile\n")
    there.deps = there.deps.replace(asker=lambda a: QuestionReply("answer", "red"))
    assert isinstance(there.turn(None), Complete)
    assert results(there) == ["Primed.\n\nThe user answered: red", "There is no plan yet."]
    assert (tmp_path / "wall").read_text() == "changed meanwhile\n"
    assert len([e for e in there.events if isinstance(e, ToolStarted) and e.tool == "Paint"]) == 1
    assert not there.deps.state.held


def test_a_plan_that_a_tool_proposes_is_approved_like_any_other(tmp_path: Path) -> None:
    there = world(tmp_path, Paint(PLAN, text=""), asker=lambda asked: QuestionReply("approve"))
    there.turn("paint")
    assert results(there)[0].startswith("The user approved the plan.")
    assert [t.content for t in there.deps.context.plan] == ["Look", "Paint"]
    back = world(tmp_path, Paint(PLAN), asker=lambda asked: QuestionReply("revise", "in blue"))
    back.turn("paint")
    wanted = "The user wants the plan changed. They said: in blue\nChange it and propose it again."
    assert results(back)[0].startswith(f"Primed.\n\n{wanted}")
    noted = world(tmp_path, Paint(PLAN, text=""), asker=lambda asked: QuestionReply("approve", "and be quick"))
    noted.turn("paint")
    assert "approved the plan. They said: and be quick\nKeep it as your todo list" in results(noted)[0]
    assert back.deps.context.plan == ()


def test_a_user_who_ends_the_work_or_interrupts_leaves_what_the_tool_gave(tmp_path: Path) -> None:
    there = world(tmp_path, Paint(PLAN), asker=lambda asked: QuestionReply("cancel"), calls=("Paint", "TodoRead"))
    result = there.turn("paint")
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "cancelled"
    assert [t.split("\n\n")[0] for t in results(there)] == ["Primed.", "Not run: the user cancelled the work."]

    def interrupt(asked: QuestionAsked) -> QuestionReply:
        raise CancelledError

    there = world(tmp_path, Paint(WHICH), asker=interrupt)
    result = there.turn("paint")
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "interrupted"
    assert results(there) == ["Primed.\n\nInterrupted by the user before they answered."]


@pytest.mark.parametrize(
    ("suspend", "text"),
    [
        (Suspend("questions", {}), "questions: Field required."),
        (Suspend("questions", {"questions": []}), "Ask one to 4 questions"),
        (Suspend("questions", {"questions": [{"ask": "Which?"}]}), "Unknown argument 'questions.0.ask'"),
        (Suspend("plan", {}), "plan"),
        (Suspend("approval", {}), "its kind is 'approval', and not 'questions' or 'plan'."),  # type: ignore[arg-type]
        (Suspend("plan", "words"), "its kind is 'plan'"),  # type: ignore[arg-type]
        ("a text", "'str' object has no attribute 'kind'"),
    ],
)
@pytest.mark.parametrize("asks", [False, True])
def test_a_question_that_cannot_be_asked_is_an_error_of_its_call(
    tmp_path: Path, suspend: Any, text: str, asks: bool
) -> None:
    class Asking(Paint):
        asks_user = asks

    there = world(tmp_path, Asking(suspend), asker=lambda asked: pytest.fail("asked"))
    assert isinstance(there.turn("paint"), Complete)
    assert "The tool Paint" in results(there)[0] and text in results(there)[0]


def test_a_tool_that_only_asks_and_has_nothing_to_ask_or_fails_costs_its_call(tmp_path: Path) -> None:
    class Asking(Paint):
        asks_user = True

    there = world(tmp_path, Asking(None))
    assert isinstance(there.turn("paint"), Complete)
    assert results(there) == ["Primed."]
    steps = world(tmp_path, Asking(None, steps=True))
    assert isinstance(steps.turn("paint"), Complete)
    assert "runs in steps" in results(steps)[0]
    faulty = world(tmp_path, Asking(None, nothing=1))
    assert isinstance(faulty.turn("paint"), Complete)
    assert "The tool Paint failed: TypeError" in results(faulty)[0]


def test_a_sub_agents_tool_waits_too_and_puts_no_plan_to_the_user(tmp_path: Path) -> None:
    parent = [{"calls": [task()]}, {"text": "Done.", "expect": "Painted."}]
    more = {"mode": "bypassPermissions", "tools": (*BUILTIN, Paint(WHICH)), "asker": lambda asked: Defer()}
    there, _ = story(tmp_path, parent, [{"calls": [call("Paint")]}, {"text": "Painted."}], **more)
    assert isinstance(there.turn("go"), Suspended)
    there.deps = there.deps.replace(asker=lambda asked: QuestionReply("answer", "red"))
    assert isinstance(there.turn(None), Complete)
    assert (tmp_path / "wall").read_text() == "primer\n"
    more |= {"tools": (*BUILTIN, Paint(PLAN)), "asker": lambda asked: pytest.fail("asked")}
    replies = [{"calls": [call("Paint")]}, {"text": "Painted.", "expect": "cannot be used by a sub-agent"}]
    planned, _ = story(tmp_path, parent, replies, **more)
    assert isinstance(planned.turn("go"), Complete)


def test_an_approved_call_that_waits_is_not_asked_about_again(tmp_path: Path) -> None:
    there = World(
        tmp_path, [{"calls": [call("Paint")]}, {"text": "Done."}], [Approve()],
        tools=(*BUILTIN, Paint(WHICH)), asker=lambda asked: Defer(),
    )  # fmt: skip
    assert isinstance(there.turn("paint"), Suspended)
    there.deps = there.deps.replace(asker=lambda asked: QuestionReply("answer", "red"))
    assert isinstance(there.turn(None), Complete)
    assert len(there.asked) == 1


def test_calls_after_the_one_that_completes_the_turn_do_not_run(tmp_path: Path) -> None:
    there = world(tmp_path, Last(None), calls=("TodoRead", "Last", "TodoRead", "Nothing"))
    result = there.turn("go")
    assert isinstance(result, Complete) and result.return_value == "the end"
    over = "Not run: a call before this one in the same answer was the last of the turn."
    assert results(there) == ["There is no plan yet.", "Taken.", over, over]
    requested = [e.call_id for e in there.events if isinstance(e, ToolRequested)]
    assert requested == [e.call_id for e in there.events if isinstance(e, ToolFinished)]
    assert [e.tool for e in there.events if isinstance(e, ToolStarted)] == ["TodoRead", "Last"]
