"""Changes of the plan by the user."""

from __future__ import annotations

import pytest

from agent_cli.terminal.commands.context import changed_plan, plan_as_text, plan_from_text
from agent_cli.terminal.dialogs.questions import parse_choice, read_plan_verdict
from agent_tools.results import TodoItem

PLAN = (TodoItem("a"), TodoItem("b", "in_progress"), TodoItem("c"))


@pytest.mark.parametrize(
    ("words", "contents"),
    [
        ("add d e", ["a", "b", "c", "d e"]),
        ("drop 2", ["a", "c"]),
        ("first 3", ["c", "a", "b"]),
        ("done 1", ["a", "b", "c"]),
    ],
)
def test_steps_are_added_dropped_moved_and_marked(words: str, contents: list[str]) -> None:
    assert [t.content for t in changed_plan(PLAN, words)] == contents


def test_the_plan_as_text_and_back() -> None:
    assert plan_from_text(plan_as_text(PLAN), PLAN) == PLAN
    edited = plan_from_text("[x] a\nnew step\n\n- [>] c\n", PLAN)
    assert edited == (TodoItem("a", "completed"), TodoItem("new step"), TodoItem("c", "in_progress"))


def test_done_marks_the_step() -> None:
    assert changed_plan(PLAN, "done 2")[1].status == "completed"


@pytest.mark.parametrize("words", ["", "add", "drop", "drop 9", "drop x", "swap 1"])
def test_anything_else_is_reported(words: str) -> None:
    with pytest.raises(ValueError, match=r"Say:|There is no step"):
        changed_plan(PLAN, words)


@pytest.mark.parametrize(
    ("words", "verdict", "mode", "text"),
    [
        ("y", "approve", None, ""),
        ("yes acceptEdits", "approve", "acceptEdits", ""),
        ("y acceptEdits skip the tests", "approve", "acceptEdits", "skip the tests"),
        ("y skip the tests", "approve", None, "skip the tests"),
        ("OK", "approve", None, ""),
        ("looks good!", "approve", None, ""),
        ("ok, but smaller", "revise", None, "ok, but smaller"),
        ("n", "cancel", None, ""),
        ("", "cancel", None, ""),
        ("no tests please", "revise", None, "no tests please"),
        ("yesterday's plan", "revise", None, "yesterday's plan"),
    ],
)
def test_verdicts_on_a_plan(words: str, verdict: str, mode: str | None, text: str) -> None:
    reply = read_plan_verdict(words)
    assert (reply.verdict, reply.mode, reply.text) == (verdict, mode, text)


def test_numbers_stand_for_options_and_words_for_themselves() -> None:
    options = [{"label": "A"}, {"label": "B"}]
    assert parse_choice("2", options) == "B"
    assert parse_choice("1, 2", options) == "A, B"
    assert parse_choice("3", options) == "3"
    assert parse_choice("neither", options) == "neither"
    assert parse_choice("", options) == "(no answer)"
