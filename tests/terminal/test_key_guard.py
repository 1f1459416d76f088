"""Which keys answer a question of the application, and which are typed."""

from __future__ import annotations

import time

import pytest

from agent_cli import ApprovalQuestion
from agent_cli.kernel.runtime.edit_call import EditableCall, Hunk
from agent_cli.shells.terminal.app.key_guard import GRAVE_SECONDS, QUIET_SECONDS
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.approval import approval_dialog, hunk_dialog
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.questions import (
    confirm_dialog,
    decide_dialog,
    plan_dialog,
    question_dialog,
    review_dialog,
)
from tests.support.terminal_stage import REQUEST, Stage, asked_plan, asked_review, asking, decision, later, play

HUNK = Hunk("a.py", 0, ("a\n",), ("b\n",), "@@ -1 +1 @@\n-a\n+b")
CHANGE = EditableCall("Bash", {"command": "touch a"})
APPROVAL = approval_dialog(ApprovalQuestion(REQUEST, CHANGE))
GRAVE = approval_dialog(ApprovalQuestion(REQUEST.replace(warnings=("deletes 2 files",)), CHANGE))
OPTIONS = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("y", decision("approve")),
        ("n", decision("reject")),
        ("a", decision("approve", rule="Bash(touch a)")),
        ("A", decision("approve", rule="Bash(touch a)", scope="project")),
        ("1", decision("approve")),
        ("2", decision("approve", rule="Bash(touch a)")),
        ("3", decision("reject")),
        ("\r", decision("approve")),
    ],
)
def test_a_key_answers_at_once(key: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        later(stage, QUIET_SECONDS + 0.01)
        stage.press(key)
        # The clock of the program stands still: nothing waits for it.
        stage.until(lambda: found == [answer])
        stage.has("")
        assert not stage.live.queued and not stage.session.inbox

    play(story)


@pytest.mark.parametrize("key", ["y", "\r"])
def test_the_effect_of_a_key_is_on_the_screen_within_fifty_milliseconds(key: str) -> None:
    took: list[float] = []

    def story(stage: Stage) -> None:
        for _ in range(12):
            asking(stage, APPROVAL)
            later(stage, 5)
            frames = len(stage.screen.frames)
            began = time.perf_counter()
            stage.press(key)
            stage.until(lambda frames=frames: len(stage.screen.frames) > frames)  # type: ignore[misc]
            took.append(time.perf_counter() - began)
            stage.session.finish()
            stage.until(lambda: not stage.live.busy)

    play(story)
    # The machine may be busy; nothing in the program waits longer.
    assert min(took) < 0.05, took


@pytest.mark.parametrize(
    ("dialog", "yes", "no"),
    [
        (plan_dialog(asked_plan({"plan": "1. Touch it"})), decision("approve"), decision("reject")),
        (review_dialog(asked_review({"title": "step one", "files": []})), decision("approve"), decision("reject")),
        (question_dialog({"question": "Which?", "options": OPTIONS}), "Red", "(no answer)"),
        (confirm_dialog("Undo it?", grave=True), True, False),
    ],
)
def test_y_and_n_answer_every_question(dialog: Dialog, yes: object, no: object) -> None:
    def story(stage: Stage) -> None:
        for key, answer in (("y", yes), ("n", no)):
            found = asking(stage, dialog)
            later(stage)
            stage.answer(key)
            stage.until(lambda found=found, answer=answer: found == [answer])  # type: ignore[misc]
            stage.session.finish()
            stage.until(lambda: not stage.live.busy)

    play(story)


def too_soon(stage: Stage, key: str) -> None:
    """A key right after another one."""
    later(stage, QUIET_SECONDS - 0.1)
    stage.press(key)
    stage.has(key)
    assert f"press {key} again" in stage.live.hint


@pytest.mark.parametrize("key", ["y", "2"])
def test_a_key_soon_after_another_is_typed_and_answers_when_it_is_pressed_again(key: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        too_soon(stage, key)
        stage.press("\r")
        stage.until(lambda: "could be an answer" in stage.live.hint)
        stage.has("")
        assert not found and not stage.live.queued
        stage.now += 0.1
        stage.press(key)
        stage.has(key)
        stage.now += 1
        stage.press(key)
        stage.until(lambda: found)
        stage.has("")

    play(story)


@pytest.mark.parametrize("key", ["y", "2"])
@pytest.mark.parametrize("pause", [0.1, 0.6])
@pytest.mark.parametrize("paste", [False, True])
def test_a_key_that_came_too_soon_is_no_part_of_the_command_behind_it(key: str, pause: float, paste: bool) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        too_soon(stage, key)
        stage.now += pause
        for part in ["/todos"] if paste else "/todos":
            stage.press(part)
            stage.rest()
        stage.has("/todos")
        stage.answer("\r")
        stage.until(lambda: stage.session.asides == ["/todos"])
        assert not found and stage.live.questions.ask is not None
        stage.live.soon(stage.live.questions.cancel)

    play(story)


def test_a_key_that_came_too_soon_goes_by_itself_and_enter_does_not_take_another_answer_then() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, GRAVE)
        too_soon(stage, "n")
        stage.now += QUIET_SECONDS + 0.01
        # A timer of the program.
        stage.has("")
        stage.now += 5
        stage.press("\r")
        stage.until(lambda: "Nothing is answered" in stage.live.hint)
        stage.rest()
        assert not found
        stage.answer("\r")
        stage.until(lambda: found == [decision("approve")])

    play(story)


def test_a_sentence_that_begins_soon_after_another_key_keeps_its_first_letters() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        later(stage, 0.1)
        for letter in "yes, and add tests":
            stage.press(letter)
            stage.rest()
            stage.now += 0.1
        stage.has("yes, and add tests")
        assert not found
        stage.live.soon(stage.live.questions.cancel)

    play(story)


UNDO = [("y", "Yes", "revert 2 files"), ("s", "Some", "file by file"), ("n", "No", "")]


@pytest.mark.parametrize(
    ("dialog", "key", "answer"),
    [
        (confirm_dialog("Undo it anyway?", grave=True), "y", True),
        (confirm_dialog("Undo it anyway?", grave=True), "n", False),
        (decide_dialog("Undo?", UNDO, grave=True), "s", "s"),
        (decide_dialog("Undo?", UNDO, grave=True), "1", "y"),
        (hunk_dialog(HUNK.diff, 1, 2, grave=True), "y", True),
    ],
)
def test_a_letter_counts_after_a_second_where_a_command_or_a_hunk_destroys_something(
    dialog: Dialog, key: str, answer: object
) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, dialog)
        later(stage, GRAVE_SECONDS - 0.1)
        stage.press(key)
        stage.has(key)
        assert not found
        stage.now += QUIET_SECONDS + 0.01
        stage.has("")
        stage.press(key)
        stage.until(lambda: found == [answer])

    play(story)


def test_of_a_review_only_what_undoes_waits() -> None:
    dialog = review_dialog(asked_review({"title": "step one", "files": []}))

    def story(stage: Stage) -> None:
        found = asking(stage, dialog)
        later(stage, 0.5)
        stage.press("u")
        stage.has("u")
        stage.now += QUIET_SECONDS + 0.01
        stage.has("")
        stage.press("y")
        stage.until(lambda: found == [decision("approve")])

    play(story)


def test_an_answer_pressed_twice_in_impatience_neither_answers_the_next_question_nor_stays_in_the_line() -> None:
    def story(stage: Stage) -> None:
        asking(stage, APPROVAL)
        later(stage)
        stage.press("y")
        stage.until(lambda: stage.live.questions.ask is None)
        ask = OpenDialog(APPROVAL)
        stage.live.bridge.emit(ask)
        stage.until(lambda: stage.live.questions.ask is ask)
        stage.now += 0.1
        stage.press("y")
        stage.rest()
        assert stage.live.questions.ask is ask and not stage.live.line.buffer.text
        stage.now += 0.1
        stage.press("n")
        stage.has("n")
        stage.live.soon(stage.live.questions.cancel)

    play(story)


@pytest.mark.parametrize("key", ["y", "n", "a", "1"])
def test_where_something_is_destroyed_a_letter_counts_once_the_question_was_seen(key: str) -> None:
    def story(stage: Stage) -> None:
        stage.now += 10
        found = asking(stage, GRAVE)
        later(stage, GRAVE_SECONDS - 0.1)
        stage.press(key)
        stage.has(key)
        assert not found
        stage.now += 0.5
        stage.press(key)
        stage.until(lambda: found)
        stage.has("")

    play(story)


def test_enter_takes_what_is_highlighted_where_something_is_destroyed() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, GRAVE)
        later(stage, 0.5)
        stage.press("\r")
        stage.until(lambda: found == [decision("approve")])

    play(story)


@pytest.mark.parametrize("draft", ["a draft", "y", "yes"])
@pytest.mark.parametrize("key", ["y", "n", "1", "a"])
def test_a_draft_from_before_takes_the_letters_and_never_answers(draft: str, key: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL, draft)
        stage.has(draft)
        later(stage, 5)
        stage.press(key)
        stage.has(draft + key)
        later(stage, 5)
        assert not found
        # Down goes to the question, Enter answers, and the draft is there again.
        stage.answer("\x1b[B", "\r")
        stage.until(lambda: found == [decision("approve")])
        stage.has(draft + key)

    play(story)


@pytest.mark.parametrize("back", ["\t", "\x1b[A"])
def test_tab_and_up_return_to_the_draft(back: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL, "a draft")
        stage.has("a draft")
        later(stage, 5)
        assert stage.live.questions.away
        stage.answer("\x1b[B")
        assert not stage.live.questions.away
        stage.answer(back)
        assert stage.live.questions.away
        stage.answer("\r")
        stage.until(lambda: stage.live.queued == ["a draft"])
        assert not found

    play(story)


def test_escape_in_a_draft_goes_to_the_question_and_then_refuses() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL, "a draft")
        stage.has("a draft")
        later(stage, 5)
        stage.press("\x1b")
        stage.until(lambda: not stage.live.questions.away)
        assert not found
        stage.press("\x1b")
        stage.until(lambda: found == [decision("reject")])
        stage.has("a draft")

    play(story)


@pytest.mark.parametrize("words", ["please wait", "fix it first", "/todos", "2 of them"])
def test_what_does_not_begin_with_an_answer_is_a_message(words: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        later(stage, 0.1 if words[0] == "2" else 5)
        for letter in words:
            stage.press(letter)
            stage.until(lambda letter=letter: stage.live.line.buffer.text.endswith(letter))  # type: ignore[misc]
            stage.now += 0.1 if words[0] == "2" else 0.5
        stage.has(words)
        stage.answer("\r")
        stage.until(lambda: [*stage.live.queued, *stage.session.asides] == [words])
        assert not found and stage.live.questions.ask is not None
        stage.live.soon(stage.live.questions.cancel)

    play(story)


@pytest.mark.parametrize(
    "text",
    ["yy", "y\r", "1\r", "yes, please", "\rfix this", "\r\r", "\r\n\r\n- y", "y\rand more", "yes\rplease", "1\r2\r",
     "fix it\ry\r", "\ry", "\tif this:\r\t\ty\r", "\x1b[B\r", "\x1b[200~y\x1b[201~", "\x1b[200~1\x1b[201~"],
)  # fmt: skip
def test_several_keys_at_once_are_a_paste_and_never_answer(text: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL)
        later(stage, 5)
        stage.press(text)
        stage.rest()
        stage.now += 5
        stage.settle()
        assert not found and not stage.session.inbox and not stage.live.line.replying
        stage.live.soon(stage.live.questions.cancel)

    play(story)


@pytest.mark.parametrize("word", ["yes", "No", "always", "y"])
def test_a_lone_answer_in_the_line_is_not_sent_as_a_message(word: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, APPROVAL, word)
        stage.has(word)
        later(stage, 5)
        stage.answer("\r")
        stage.has("")
        assert not found and not stage.live.queued and "could be an answer" in stage.live.hint
        stage.answer("y")
        stage.until(lambda: found == [decision("approve")])

    play(story)
