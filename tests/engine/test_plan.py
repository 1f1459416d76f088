"""The plan is kept: nudges, reminders, reviews, plan mode, and the check before "done"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.prompts import prompt
from agent_cli.kernel.decisions import Approve, Defer, QuestionReply
from agent_cli.kernel.engine.progress import goal_of
from agent_cli.kernel.events import (
    Noted,
    PlanChanged,
    PlanContinued,
    QuestionAnswered,
    QuestionAsked,
    ToolStarted,
    TurnPaused,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Complete, Failed, Suspended
from agent_tools.results import TodoItem
from tests.support.plans import DONE, HALF, OPEN, WRITE, answers, plan
from tests.support.scripts import call
from tests.support.turns import World


def nudges(world: World) -> list[str]:
    return [m.text for m in world.history if isinstance(m, UserMessage) and m.text.startswith("<plan_continue>")]


def test_a_turn_does_not_end_with_open_steps(root: Path) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": "That was step one."}, {"calls": [DONE]}, {"text": "All done."}])
    result = world.turn("build it")
    assert isinstance(result, Complete)
    assert (result.text, result.plan_unfinished) == ("All done.", False)
    assert len(nudges(world)) == 1
    assert "Goal: build it" in nudges(world)[0]
    assert "Next step: step 1" in nudges(world)[0]
    assert world.of(PlanContinued) == [PlanContinued(2, 1, 18)]


def test_what_the_program_adds_to_a_message_is_no_part_of_the_goal(root: Path) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": "That was one."}, {"calls": [DONE]}, {"text": "Done."}])
    world.turn(f"build it\n\n{prompt('plan_mode')}")
    assert "Goal: build it\nPlan:" in nudges(world)[0]


def test_a_message_during_the_work_is_added_to_the_goal_and_an_earlier_turn_is_not() -> None:
    done = AssistantMessage((Text("Done."),))
    working = AssistantMessage((ToolCall("1", "Read", {}),))
    earlier = [UserMessage("say hi"), done]
    turn = [UserMessage("build it"), working, ToolMessage("1", "Read", "x"), UserMessage("0 counts as off")]
    nudged = [done, UserMessage("<plan_continue>\nx"), working, ToolMessage("1", "Read", "x")]
    assert goal_of([*earlier, *turn]) == "build it\nThe user added: 0 counts as off"
    assert goal_of([*earlier, *turn, *nudged]) == "build it\nThe user added: 0 counts as off"
    assert goal_of([*earlier, *turn, done, UserMessage("now push")]) == "now push"
    assert goal_of(earlier) == "say hi"
    assert goal_of([]) == ""
    long = goal_of([UserMessage("a" * 900), working, UserMessage("b" * 900)])
    assert len(long) < 800 and "a" * 400 in long and "b" * 200 in long


def test_nudges_are_bounded_and_then_the_text_is_final(root: Path) -> None:
    world = World(root, [{"calls": [OPEN]}, *[{"text": "Enough."}] * 3])
    result = world.turn(plan_nudges=2)
    assert isinstance(result, Complete)
    assert result.plan_unfinished
    assert [e.attempt for e in world.of(PlanContinued)] == [1, 2]


@pytest.mark.parametrize("attended", [True, False])
def test_an_approved_plan_is_continued_up_to_the_setting(root: Path, attended: bool) -> None:
    replies = [{"calls": [PLAN]}, *[{"text": "ok"}] * 9]
    world = World(root, replies, mode="plan", attended=attended, asker=answers(QuestionReply("approve")))
    result = world.turn("plan it")
    assert isinstance(result, Complete)
    assert result.plan_unfinished
    assert len(nudges(world)) == 5
    world.turn("something else: two words")
    assert len(nudges(world)) == 5


def test_only_progress_renews_the_nudges(root: Path) -> None:
    look = {"calls": [call("Glob", pattern="*")]}
    replies = [{"calls": [OPEN]}, {"text": "a"}, look, {"text": "b"}, {"calls": [HALF]}, {"text": "c"}, {"text": "d"}]
    world = World(root, [*replies, {"text": "e"}], attended=True)
    world.turn(plan_nudges=2)
    assert [e.attempt for e in world.of(PlanContinued)] == [1, 2, 1, 2]


@pytest.mark.parametrize("attended", [True, False])
@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("The rest is blocked by the missing database.", True),
        ("I'm stuck: the server does not start.", True),
        ("I cannot continue without the API key.", True),
        ("The migration can't be run here: there is no network.", True),
        ("I stopped after step one, as the tests are red.", True),
        ("Step two needs your approval.", True),
        ("I will wait for your decision.", True),
        ("I left step two open: it would delete data.", True),
        ("Only step one, as you asked.", True),
        ("That was step one.", False),
        ("Fixed the deadlock in `block_on`; continuing.", False),
        ("The cache no longer stops the writer.", False),
        ("The parser cannot read old files. Next I add a test.", False),
        ("All done.", False),
    ],
)
def test_an_answer_that_names_what_blocks_or_why_it_stops_is_final(
    root: Path, text: str, final: bool, attended: bool
) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": text}, {"text": "I stopped here."}], attended=attended)
    assert isinstance(world.turn(), Complete)
    assert len(nudges(world)) == (not final)


def test_a_pause_does_not_give_new_nudges(root: Path) -> None:
    run = {"calls": [call("Bash", command="touch made")]}
    world = World(root, [{"calls": [OPEN]}, {"text": "a"}, run, {"text": "b"}, {"text": "c"}], [Defer()])
    paused = world.turn(plan_nudges=2)
    assert isinstance(paused, Suspended)
    spent = world.of(TurnPaused)[0].spent
    world.answers = [Approve()]
    result = world.turn(None, plan_nudges=2, spent=spent)
    assert isinstance(result, Complete)
    assert [e.attempt for e in world.of(PlanContinued)] == [1, 2]


def test_new_contents_and_finished_steps_reset_the_count(root: Path) -> None:
    again = plan("in_progress", "pending", word="other")
    replies = [
        {"calls": [OPEN]},
        {"text": "a"},
        {"text": "b"},
        {"calls": [HALF]},
        {"text": "c"},
        {"calls": [again]},
        {"text": "d"},
        {"text": "e"},
        {"text": "f"},
    ]
    world = World(root, replies)
    world.turn(plan_nudges=2)
    assert [e.attempt for e in world.of(PlanContinued)] == [1, 2, 1, 1, 2]


def test_a_plan_of_nine_steps_is_carried_out_by_a_model_that_stops_after_each(root: Path) -> None:
    def marks(done: int) -> dict[str, Any]:
        return plan(*["completed"] * done, *["pending"] * (9 - done))

    replies: list[dict[str, Any]] = [{"calls": [marks(0)]}]
    for done in range(1, 10):
        replies += [{"text": "One step is done."}, {"calls": [marks(done)]}]
    world = World(root, [*replies, {"text": "All done."}])
    result = world.turn()
    assert isinstance(result, Complete)
    assert (result.text, result.plan_unfinished) == ("All done.", False)
    assert len(world.of(PlanContinued)) == 9


def test_a_plan_of_an_earlier_request_is_paused_and_not_guarded(root: Path) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": "a"}, {"text": "4"}])
    world.turn(plan_nudges=0)
    world.events.clear()
    result = world.turn("stop that, what is 2+2?")
    assert isinstance(result, Complete)
    assert (result.text, result.plan_unfinished) == ("4", False)
    assert not world.of(PlanContinued)
    assert [e.paused for e in world.of(PlanChanged)] == [True]


def test_a_paused_plan_is_guarded_again_once_it_is_touched(root: Path) -> None:
    replies = [{"calls": [OPEN]}, {"text": "a"}, {"calls": [HALF]}, {"text": "b"}, {"calls": [DONE]}, {"text": "c"}]
    world = World(root, replies)
    world.turn(plan_nudges=0)
    world.events.clear()
    world.turn("continue the plan")
    assert len(world.of(PlanContinued)) == 1


def test_one_step_and_no_plan_are_never_nudged(root: Path) -> None:
    world = World(root, [{"calls": [plan("pending")]}, {"text": "Ok."}])
    assert isinstance(world.turn(), Complete)
    assert not nudges(world)
    assert isinstance(World(root, [{"text": "Hi."}]).turn(), Complete)


@pytest.mark.parametrize("attended", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "I can do A or B. Which one do you want?",
        "**Which one?** Let me know.",
        "Which do you prefer?\n\n1. Keep it\n2. Drop it",
        "\u00bfCu\u00e1l prefieres?",
        "\u3069\u3061\u3089\u306b\u3057\u307e\u3059\u304b\uff1f",
    ],
)
def test_an_answer_that_asks_the_user_is_final(root: Path, text: str, attended: bool) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": text}], attended=attended)
    assert isinstance(world.turn(), Complete)
    assert not nudges(world)


@pytest.mark.parametrize("text", ["See https://x.example/?a=b now.", "`x ? y : z` is used.", "Why? It is so.\n\nDone."])
def test_a_question_mark_is_not_always_a_question(root: Path, text: str) -> None:
    world = World(root, [{"calls": [OPEN]}, {"text": text}, {"text": "Which?"}])
    world.turn()
    assert len(nudges(world)) == 1


def test_the_reminder_rides_on_the_last_result_of_a_round(root: Path) -> None:
    reads = [{"calls": [call("Glob", pattern=f"{n}*"), call("Grep", pattern=f"x{n}")]} for n in range(4)]
    world = World(root, [{"calls": [OPEN]}, *reads, {"calls": [DONE]}, {"text": "Done."}])
    world.turn("build it", plan_reminder=2)
    reminded = [m.call_id for m in world.results if "<reminder>" in m.text]
    assert reminded == ["call-3-2", "call-5-2"]
    assert "Goal: build it" in next(m.text for m in world.results if m.call_id == "call-3-2")
    for before, after in zip(world.model.requests, world.model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


def test_done_over_a_failing_check_is_questioned_once(root: Path) -> None:
    (root / "Makefile").write_text("test:\n\t@exit 1\n")
    run = {"calls": [call("Bash", command="make test")]}
    world = World(root, [run, {"text": "Done."}, {"text": "It fails, and cannot be mended here."}], allow=("Bash",))
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text.startswith("It fails")
    assert result.verified == "`make test` failed (exit 2)"
    assert (
        sum("a check that you ran and that failed" in m.text for m in world.history if isinstance(m, UserMessage)) == 1
    )
    # Without it the two answers would stand on the screen as one.
    assert [e.text for e in world.of(Noted)] == [
        "The answer does not mention a failed check: `make test` (exit 2); asking the model about it."
    ]


def test_what_verified_the_work_is_reported(root: Path) -> None:
    (root / "Makefile").write_text("test:\n\t@true\n")
    run = {"calls": [call("Bash", command="cd . && make test 2>&1")]}
    write = {"calls": [call("Write", file_path="b.txt", content="x")]}
    world = World(root, [run, {"text": "Done."}], mode="bypassPermissions")
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.verified == "`cd . && make test 2>&1` passed"
    world = World(root, [run, write, {"text": "Done."}], mode="bypassPermissions")
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.verified.endswith("passed, but files were changed after it")
    changelog = {"calls": [call("Write", file_path="CHANGELOG.md", content="x")]}
    result = World(root, [run, changelog, {"text": "Done."}], mode="bypassPermissions").turn()
    assert isinstance(result, Complete)
    assert result.verified == "`cd . && make test 2>&1` passed"
    nothing = World(root, [{"text": "Done."}]).turn()
    assert isinstance(nothing, Complete)
    assert nothing.verified == ""


PLAN = call("ExitPlanMode", plan="# Plan\n1. Change a.txt\n2. Run the tests", files_to_modify=["a.txt"])


def test_plan_mode_is_read_only_until_the_plan_is_approved(root: Path) -> None:
    replies = [
        {"calls": [WRITE]},
        {"calls": [PLAN], "expect": "read-only"},
        {"calls": [WRITE], "expect": "skip the tests for now"},
        {"calls": [plan("completed", "completed")]},
        {"text": "Done."},
    ]
    approve = QuestionReply("approve", "skip the tests for now", mode="acceptEdits")
    world = World(root, replies, mode="plan", asker=answers(approve))
    result = world.turn()
    assert isinstance(result, Complete)
    assert (root / "b.txt").read_text() == "x"
    assert world.policy.mode == "acceptEdits"
    assert [i.content for i in world.of(PlanChanged)[0].items] == ["Change a.txt", "Run the tests"]
    assert world.of(QuestionAsked)[0].data["files_to_modify"] == ["a.txt"]


def test_a_plan_can_be_sent_back_with_words(root: Path) -> None:
    replies = [{"calls": [PLAN]}, {"calls": [PLAN], "expect": "smaller steps"}, {"text": "Waiting."}]
    world = World(
        root, replies, mode="plan", asker=answers(QuestionReply("revise", "smaller steps"), QuestionReply("cancel"))
    )
    result = world.turn()
    assert isinstance(result, Failed)
    assert result.end.diagnostics.terminal_reason == "cancelled"
    assert [e.verdict for e in world.of(QuestionAnswered)] == ["revise", "cancel"]
    assert not world.of(ToolStarted)


def test_always_reviews_the_first_plan_before_any_effect(root: Path) -> None:
    replies = [{"calls": [call("Read", file_path="a.txt"), OPEN, WRITE]}, {"calls": [DONE]}, {"text": "Done."}]
    world = World(root, replies, mode="bypassPermissions", asker=answers(Defer()))
    paused = world.turn(plan_review="always")
    assert isinstance(paused, Suspended)
    assert paused.end.diagnostics.terminal_reason == "await_user_input"
    assert [e.tool for e in world.of(ToolStarted)] == ["Read"]
    assert not (root / "b.txt").exists()
    world.deps = world.deps.replace(asker=answers(QuestionReply("approve")))
    result = world.turn(None, plan_review="always")
    assert isinstance(result, Complete)
    assert (root / "b.txt").exists()
    assert [e.tool for e in world.of(ToolStarted)] == ["Read", "TodoWrite", "Write", "TodoWrite"]


def test_a_question_of_the_model_waits_for_its_answer(root: Path) -> None:
    ask = call("AskUserQuestion", questions=[{"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]}])
    world = World(
        root,
        [{"calls": [call("Read", file_path="a.txt"), ask]}, {"text": "B then.", "expect": "B, please"}],
        asker=answers(Defer()),
    )
    paused = world.turn()
    assert isinstance(paused, Suspended)
    assert paused.pending == ("call-1-2",)
    world.deps = world.deps.replace(asker=answers(QuestionReply("answer", "B, please")))
    assert isinstance(world.turn(None), Complete)
    assert len(world.of(ToolStarted)) == 1


def test_progress_marks_a_step_with_few_tokens(root: Path) -> None:
    replies = [
        {"calls": [OPEN]},
        {"calls": [call("PlanProgress", step_id="1", step_summary="wrote it", next_step="2")]},
        {"calls": [call("PlanProgress", plan_status="completed"), call("Read", file_path="a.txt")]},
        {"calls": [call("PlanProgress", plan_status="completed")], "expect": "hello"},
        {"text": "Done."},
    ]
    world = World(root, replies)
    result = world.turn()
    assert isinstance(result, Complete)
    assert [i.status for i in world.of(PlanChanged)[1].items] == ["completed", "in_progress"]
    assert [i.status for i in world.deps.context.plan] == ["completed", "completed"]
    refused = next(m for m in world.results if m.call_id == "call-3-1")
    assert refused.is_error
    assert "alone" in refused.text


def test_the_person_changes_the_plan_while_it_runs(root: Path) -> None:
    inbox: list[list[str]] = [[], [], []]
    world = World(
        root,
        [{"calls": [OPEN]}, {"calls": [DONE], "expect": "the user changed the plan"}, {"text": "Done."}],
        inbox=lambda: inbox.pop(0) if inbox else [],
    )
    edited = [False]

    def take() -> list[str]:
        if world.deps.context.plan and not edited[0]:
            edited[0] = True
            world.deps.context.plan = (*world.deps.context.plan, TodoItem("step 3"))
            return ["<plan_change>the user changed the plan</plan_change>"]
        return []

    world.deps = world.deps.replace(inbox=take)
    assert isinstance(world.turn(), Complete)
