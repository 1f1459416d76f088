"""With `plan_review = "always"`: every plan is put to the user, and nothing is changed before one is approved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_cli.kernel.decisions import Defer, QuestionReply
from agent_cli.kernel.events import QuestionAsked, TurnPaused
from agent_cli.kernel.results import Complete, Suspended
from tests.support.plans import DONE, HALF, OPEN, WRITE, answers, plan
from tests.support.scripts import call
from tests.support.turns import World

APPROVE = QuestionReply("approve")


def always(root: Path, replies: list[dict[str, Any]], *replied: QuestionReply | Defer) -> World:
    return World(root, [*replies, {"text": "Done."}], mode="bypassPermissions", asker=answers(*replied))


def asked(world: World) -> list[list[str]]:
    return [[step["content"] for step in e.data["steps"]] for e in world.of(QuestionAsked)]


def test_nothing_is_changed_before_a_plan_is_approved(tmp_path: Path) -> None:
    run = call("Bash", command="touch made")
    look = call("Bash", command="ls")
    replies = [{"calls": [WRITE, run, look]}, {"calls": [plan("pending")]}, {"calls": [WRITE, run]}]
    world = always(tmp_path, replies, APPROVE)
    assert isinstance(world.turn(plan_review="always"), Complete)
    written, ran, looked, *after = world.results
    assert written.is_error and ran.is_error and not looked.is_error
    assert written.text.startswith("Not run: the user approves a plan before anything is changed")
    assert "Write the plan as a todo list" in written.text
    assert not any(result.is_error for result in after)
    assert (tmp_path / "b.txt").exists() and (tmp_path / "made").exists()


def test_every_plan_is_asked_about_and_its_progress_is_not(tmp_path: Path) -> None:
    other = plan("in_progress", word="other")
    progress = call("PlanProgress", step_id="1")
    replies = [{"calls": [p]} for p in (plan("pending"), OPEN, HALF, progress, DONE, other)]
    world = always(tmp_path, replies, APPROVE, APPROVE, APPROVE)
    world.turn(plan_review="always")
    assert asked(world) == [["step 1"], ["step 1", "step 2"], ["other 1"]]


def test_a_later_turn_needs_a_plan_of_its_own(tmp_path: Path) -> None:
    replies = [{"calls": [OPEN]}, {"calls": [DONE]}, {"text": "Done."}, {"calls": [WRITE]}, {"calls": [OPEN]}]
    world = always(tmp_path, replies, APPROVE, APPROVE)
    world.turn(plan_review="always")
    world.turn("and now this", plan_review="always", plan_nudges=0)
    assert len(asked(world)) == 2
    assert not (tmp_path / "b.txt").exists()


def test_an_approval_holds_when_a_suspended_turn_is_resumed(tmp_path: Path) -> None:
    question = call("AskUserQuestion", questions=[{"question": "Which?"}])
    replies = [{"calls": [OPEN]}, {"calls": [question]}, {"calls": [WRITE]}, {"calls": [DONE]}]
    world = always(tmp_path, replies, APPROVE, Defer(), QuestionReply("answer", "this"))
    assert isinstance(world.turn(plan_review="always"), Suspended)
    assert isinstance(world.turn(None, plan_review="always", suspended_state=world.of(TurnPaused)[0].kept), Complete)
    assert (tmp_path / "b.txt").exists()


def test_a_sub_agent_changes_nothing_before_the_plan_is_approved(tmp_path: Path) -> None:
    task = call("Task", description="write", prompt="write it", subagent_type="general-purpose")
    replies = [{"calls": [task]}, {"calls": [WRITE]}, {"text": "It was refused.", "expect": "before the user has"}]
    world = always(tmp_path, replies)
    world.turn(plan_review="always")
    assert not (tmp_path / "b.txt").exists()


def test_the_edited_steps_are_what_the_plan_becomes(tmp_path: Path) -> None:
    edited = {"plan": "Mind the docs.", "steps": ["step 2", "step 9"], "tests": ["make test"]}
    world = always(tmp_path, [{"calls": [OPEN]}], QuestionReply("approve", plan=edited))
    world.turn(plan_review="always", plan_nudges=0)
    assert [(t.content, t.status) for t in world.deps.context.plan] == [("step 2", "pending"), ("step 9", "pending")]
    assert "Mind the docs.\n\n## Steps\n1. step 2\n2. step 9\n\n## Tests\n- make test" in world.results[0].text
