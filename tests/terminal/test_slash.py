"""Changes of the plan by the user."""

from __future__ import annotations

import pytest

from agent_cli.shells.terminal.commands.context import changed_plan, plan_as_text, plan_from_text
from agent_cli.shells.terminal.dialogs.model import TextInput
from agent_cli.shells.terminal.dialogs.questions import question_dialog, read_plan_verdict
from agent_tools.results import TodoItem
from tests.support.terminal_stage import asked_plan, decision

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
        ("y", "approve", "", ""),
        ("yes acceptEdits", "approve", "acceptEdits", ""),
        ("y acceptEdits skip the tests", "approve", "acceptEdits", "skip the tests"),
        ("y skip the tests", "approve", "", "skip the tests"),
        ("OK", "approve", "", ""),
        ("looks good!", "approve", "", ""),
        ("ok, but smaller", "answer", "", "ok, but smaller"),
        ("n", "reject", "", ""),
        ("", "reject", "", ""),
        ("no tests please", "answer", "", "no tests please"),
        ("yesterday's plan", "answer", "", "yesterday's plan"),
    ],
)
def test_verdicts_on_a_plan(words: str, verdict: str, mode: str, text: str) -> None:
    assert read_plan_verdict(asked_plan({}), words) == decision(verdict, text, mode=mode)


def test_numbers_stand_for_options_and_words_for_themselves() -> None:
    one = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
    several = {**one, "multiSelect": True}
    numbers = {"question": "How many?", "options": [{"label": "4"}, {"label": "2"}], "multiSelect": True}
    for question, words, answer in [
        (one, "2", "B"), (one, "b", "B"), (one, "neither", "neither"), (one, "", "(no answer)"), (one, "500", "500"),
        (several, "1, 2", "A, B"), (several, "2,1", "B, A"), (numbers, "4, 2", "4, 2"), (numbers, "1", "4"),
        (numbers, "3", "3"),
    ]:  # fmt: skip
        dialog = question_dialog(question)
        assert isinstance(dialog.words, TextInput) and dialog.words.read(words) == answer
        assert dialog.words.read(answer) == answer
    for question, words, why in [
        (one, "3", "There is no option 3"),
        (one, "1 2", "only one"),
        (several, "12", "no option"),
    ]:
        dialog = question_dialog(question)
        with pytest.raises(ValueError, match=why):
            dialog.words.read(words)  # type: ignore[union-attr]
