"""The keys of the application at a question."""

from __future__ import annotations

from typing import Any

import pytest

from agent_cli.core.decisions import Approve, EditedCall, QuestionReply, Reject
from agent_cli.core.place import UsageError
from agent_cli.terminal.app.question_panel import OpenDialog
from agent_cli.terminal.dialogs import questions
from agent_cli.terminal.dialogs.edit_call import Changeable
from agent_cli.terminal.dialogs.questions import (
    approval_dialog,
    confirm_dialog,
    pick_dialog,
    plan_dialog,
    question_dialog,
    review_dialog,
)
from tests.support.terminal_stage import REQUEST, Stage, asking, later, play


def test_a_key_answers_only_after_the_guard() -> None:
    def story(stage: Stage) -> None:
        ask = approval_dialog(REQUEST, Changeable("Bash", {"command": "touch a"}))
        found = asking(stage, ask)
        stage.press("yes, a")
        stage.has("yes, a")
        stage.press("\r")
        stage.until(lambda: stage.live.queued == ["yes, a"])
        later(stage)
        stage.press("\r")
        stage.settle()
        assert not found
        later(stage)
        stage.press("maybe")
        stage.has("maybe")
        later(stage)
        stage.press("y")
        stage.until(lambda: found == [Approve()])
        stage.has("maybe")

    play(story)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y", Approve()),
        ("n", Reject()),
        ("a", Approve(rule="Bash(touch a)")),
        ("A", Approve(rule="Bash(touch a)", scope="project")),
        ("rnot now\r", Reject("not now")),
        ("ry\r", Reject("y")),
        ("eb\r", EditedCall({"command": "touch ab"})),
    ],
)
def test_the_keys_of_an_approval(keys: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, Changeable("Bash", {"command": "touch a"})))
        stage.press("draft")
        stage.has("draft")
        later(stage)
        stage.press(keys)
        stage.until(lambda: found == [answer])
        stage.has("draft")

    play(story)


def test_escape_goes_back_to_the_question_and_an_interrupt_approves_nothing() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, Changeable("Bash", {"command": "touch a"})))
        later(stage)
        stage.press("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("words\x1b")
        stage.until(lambda: not stage.live.line.replying)
        assert stage.live.questions.ask is not None and not found
        stage.has("")
        later(stage, 5)
        stage.press("\x03")
        stage.until(lambda: found == ["cancelled"])

    play(story)


def test_a_question_takes_a_number_or_words() -> None:
    def story(stage: Stage) -> None:
        options = [{"label": "Red"}, {"label": "Blue"}]
        found = asking(stage, question_dialog({"question": "Which?", "options": options}))
        later(stage)
        stage.press("3")
        stage.has("3")
        stage.press("\x7f")
        later(stage)
        stage.press("2")
        stage.until(lambda: found == ["Blue"])

    play(story)


def test_the_work_since_the_last_look_can_be_undone_at_a_review() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, review_dialog({"title": "step one", "steps": ["tests written"], "files": []}))
        later(stage)
        stage.press("u")
        stage.until(lambda: stage.live.line.replying)
        stage.press("too much\r")
        stage.until(lambda: found)
        assert found == [QuestionReply("undo", "too much")]

    play(story)


def test_a_choice_is_narrowed_and_taken_and_the_draft_comes_back() -> None:
    options = [("alpha", "the first"), ("beta", "the second"), ("gamma", "the third")]

    def story(stage: Stage) -> None:
        for keys, wanted in (("beta\r", 1), ("the\x1b[B\x1b[B\r", 2), ("no match\r\x1b", None), ("\r", 0)):
            ask = OpenDialog(pick_dialog("Which?", options))
            found: list[Any] = []

            def job(text: str, ask: OpenDialog = ask, found: list[Any] = found) -> None:
                stage.live.bridge.emit(ask)
                found.append(ask.waiting.wait())
                stage.session.finish()

            stage.session.job = job
            stage.press("go\r")
            stage.until(lambda ask=ask: stage.live.questions.ask is ask)  # type: ignore[misc]
            stage.press(keys)
            stage.until(lambda found=found: found)  # type: ignore[misc]
            assert found == [wanted]
            stage.until(lambda: not stage.live.busy)
            stage.has("")

    play(story)


def test_a_second_question_waits_for_the_first() -> None:
    def story(stage: Stage) -> None:
        one, two = OpenDialog(confirm_dialog("one?")), OpenDialog(confirm_dialog("two?"))

        def job(text: str) -> None:
            stage.live.bridge.emit(one)
            stage.live.bridge.emit(two)

        stage.session.job = job
        stage.press("go\r")
        stage.until(lambda: stage.live.questions.ask is one)
        later(stage)
        stage.press("y")
        stage.until(lambda: stage.live.questions.ask is two)
        assert one.waiting.wait() is True
        later(stage)
        stage.press("n")
        assert two.waiting.wait() is False

    play(story)


def test_a_command_at_a_question_neither_answers_it_nor_loses_what_was_typed() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, Changeable("Bash", {"command": "touch a"})))
        later(stage)
        for character in "/todos a":
            stage.press(character)
            stage.settle()
            later(stage)
        stage.has("/todos a")
        stage.press("\r")
        stage.until(lambda: stage.session.asides == ["/todos a"])
        assert stage.live.questions.ask is not None and not found
        later(stage)
        stage.press("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides == ["/todos a", "/todos"])
        stage.press("because\x1b")
        stage.until(lambda: not stage.live.line.replying)
        stage.has("")
        later(stage)
        stage.press("r")
        stage.has("because")
        stage.press(" of it\r")
        stage.until(lambda: found == [Reject("because of it")])

    play(story)


def test_a_command_where_an_answer_in_words_is_asked_for() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Why?", "options": []}))
        later(stage)
        stage.press("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides == ["/todos"])
        stage.press("because\r")
        stage.until(lambda: found == ["because"])

    play(story)


def test_words_that_cannot_be_are_said_and_stay_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mode: str, env: Any) -> None:
        if mode == "bypassPermissions":
            raise UsageError("That mode is refused here.")

    monkeypatch.setattr(questions, "check_mode", refuse)

    def story(stage: Stage) -> None:
        found = asking(stage, plan_dialog({"plan": "1. Touch it"}))
        later(stage)
        stage.press("w")
        stage.until(lambda: stage.live.line.replying)
        stage.press("bypassPermissions\r")
        stage.until(lambda: "That mode is refused here." in stage.screen.drawn)
        stage.has("bypassPermissions")
        assert not found
        stage.press("\x15be quick\r")
        stage.until(lambda: found == [QuestionReply("approve", "be quick")])

    play(story)
