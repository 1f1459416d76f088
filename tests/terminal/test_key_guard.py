"""Which keys answer a question of the application, and which are typed."""

from __future__ import annotations

import pytest

from agent_cli.core.decisions import Approve, Reject
from agent_cli.runtime.edit_call import Changeable
from agent_cli.terminal.app.question_panel import OpenDialog
from agent_cli.terminal.dialogs.approval import approval_dialog
from tests.support.terminal_stage import REQUEST, Stage, asking, later, play

CHANGE = Changeable("Bash", {"command": "touch a"})


def test_a_key_answers_only_after_the_guard() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        stage.press("yes, a")
        stage.has("yes, a")
        stage.press("\r")
        stage.until(lambda: stage.live.queued == ["yes, a"])
        # Enter once more, as part of the same movement.
        stage.press("\r")
        stage.settle()
        later(stage)
        stage.settle()
        assert not found
        later(stage)
        stage.answer("y")
        stage.until(lambda: found == [Approve()])
        stage.has("")

    play(story)


@pytest.mark.parametrize("keys", ["y", "y\r", "1", "1\r"])
def test_an_answer_typed_too_early_is_held_and_never_becomes_a_message(keys: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        stage.press(keys)
        stage.has(keys[0])
        stage.until(lambda: stage.live.questions.guard.held is not None)
        assert not found and not stage.live.queued
        stage.now += 0.3
        stage.has(keys[0])
        assert not found
        stage.now += 0.4
        stage.until(lambda: found == [Approve()])
        stage.has("")
        assert not stage.live.queued and not stage.session.inbox

    play(story)


def test_a_held_answer_gives_way_to_what_is_typed_after_it() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        stage.press("y")
        stage.has("y")
        stage.press("es, but")
        stage.has("yes, but")
        later(stage, 5)
        stage.settle()
        # What is left of a sentence is no answer either.
        stage.press("\x7f" * 7)
        stage.has("y")
        later(stage, 5)
        stage.settle()
        assert not found and stage.live.questions.guard.held is None
        stage.press("\x7f")
        stage.has("")
        later(stage)
        stage.answer("y")
        stage.until(lambda: found == [Approve()])

    play(story)


def test_a_letter_from_before_the_question_neither_answers_nor_is_sent() -> None:
    def story(stage: Stage) -> None:
        stage.press("go\r")
        stage.until(lambda: stage.session.sent)
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        ask = OpenDialog(approval_dialog(REQUEST, CHANGE))
        stage.press("y")
        stage.has("y")
        stage.live.bridge.emit(ask)
        stage.until(lambda: stage.live.questions.ask is ask)
        stage.now += 5
        stage.press("\r")
        stage.has("")
        assert stage.session.sent == ["go"] and not stage.live.queued and stage.live.questions.ask is ask
        assert "Press y again" in stage.live.hint
        stage.live.soon(stage.live.questions.cancel)

    play(story)


@pytest.mark.parametrize("draft", ["", "draft"])
@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("y", Approve()),
        ("n", Reject()),
        ("a", Approve(rule="Bash(touch a)")),
        ("A", Approve(rule="Bash(touch a)", scope="project")),
        ("1", Approve()),
        ("3", Approve(rule="Bash(touch a)", scope="project")),
        ("4", Reject()),
    ],
)
def test_a_letter_or_digit_answers_and_a_draft_from_before_stays(key: str, answer: object, draft: str) -> None:
    def story(stage: Stage) -> None:
        stage.press("go\r")
        stage.until(lambda: stage.session.sent)
        stage.press(draft)
        stage.has(draft)
        ask = OpenDialog(approval_dialog(REQUEST, CHANGE))
        stage.live.bridge.emit(ask)
        stage.until(lambda: stage.live.questions.ask is ask)
        later(stage)
        stage.answer(key)
        assert ask.waiting.wait() == answer
        stage.has(draft)

    play(story)


@pytest.mark.parametrize("words", ["yes but use tabs", "and also the docs", "1. first", "no, tabs", "very good, and"])
def test_a_sentence_that_begins_with_an_answer_is_a_sentence(words: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(words)
        stage.has(words)
        later(stage, 5)
        # It goes on after a pause for thought.
        stage.press(" a")
        stage.has(f"{words} a")
        later(stage, 5)
        stage.press("\r")
        stage.until(lambda: stage.live.queued == [f"{words} a"])
        later(stage, 5)
        stage.settle()
        assert not found and stage.live.questions.ask is not None

    play(story)


@pytest.mark.parametrize("words", ["y", "1", "yes, please"])
def test_what_is_pasted_is_no_answer(words: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(f"\x1b[200~{words}\x1b[201~")
        stage.has(words)
        later(stage, 5)
        stage.settle()
        assert not found and stage.live.questions.guard.held is None

    play(story)


def test_enter_after_a_letter_answers_at_once_and_escape_refuses() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press("a\r")
        stage.until(lambda: found == [Approve(rule="Bash(touch a)")])
        stage.has("")
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press("y")
        stage.has("y")
        stage.press("\x1b")
        stage.until(lambda: found == [Reject()])
        stage.has("")

    play(story)


@pytest.mark.parametrize(
    ("word", "answer"), [("yes", Approve()), ("No", Reject()), ("always", Approve(rule="Bash(touch a)"))]
)
def test_a_whole_word_answers_with_enter(word: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(f"{word}\r")
        stage.until(lambda: found == [answer])
        stage.has("")
        assert not stage.live.queued

    play(story)
