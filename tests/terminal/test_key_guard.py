"""Which keys answer a question of the application, and which are typed."""

from __future__ import annotations

import threading

import pytest

from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from tests.support.terminal_stage import PATIENCE, REQUEST, Stage, asking, decision, later, play

CHANGE = EditableCall("Bash", {"command": "touch a"})


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
        stage.until(lambda: found == [decision("approve")])
        stage.has("")

    play(story)


@pytest.mark.parametrize("keys", ["y", "y\r", "1", "1\r"])
def test_an_answer_typed_too_early_is_held_and_never_becomes_a_message(keys: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        stage.press(keys)
        stage.has(keys.replace("\r", "\n"))
        stage.until(lambda: stage.live.questions.guard.held is not None)
        assert not found and not stage.live.queued
        stage.now += 0.3
        stage.has(keys.replace("\r", "\n"))
        assert not found
        stage.now += 0.4
        stage.until(lambda: found == [decision("approve")])
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
        stage.until(lambda: found == [decision("approve")])

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
        ("y", decision("approve")),
        ("n", decision("reject")),
        ("a", decision("approve", rule="Bash(touch a)")),
        ("A", decision("approve", rule="Bash(touch a)", scope="project")),
        ("1", decision("approve")),
        ("3", decision("approve", rule="Bash(touch a)", scope="project")),
        ("4", decision("reject")),
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
        stage.press("a")
        stage.has("a")
        stage.now += 0.1
        stage.press("\r")
        stage.until(lambda: found == [decision("approve", rule="Bash(touch a)")])
        stage.has("")
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press("y")
        stage.has("y")
        stage.press("\x1b")
        stage.until(lambda: found == [decision("reject")])
        stage.has("")

    play(story)


def test_a_stray_space_is_no_text_before_an_answer() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(" ")
        stage.has(" ")
        later(stage)
        stage.press("y")
        stage.has(" y")
        stage.now += 0.1
        stage.press("\r")
        stage.until(lambda: found == [decision("approve")])

    play(story)


@pytest.mark.parametrize(
    ("word", "answer"),
    [("yes", decision("approve")), ("No", decision("reject")), ("always", decision("approve", rule="Bash(touch a)"))],
)
def test_a_whole_word_answers_with_enter(word: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(word)
        stage.has(word)
        stage.now += 0.1
        stage.press("\r")
        stage.until(lambda: found == [answer])
        stage.has("")
        assert not stage.live.queued

    play(story)


@pytest.mark.parametrize(
    "text",
    ["\rfix this", "\r\r", "\r\n\r\n- y", "y\rand more", "y\r\r", "yes\rplease", "1\r2\r", "no\r\ry\r", "fix it\ry\r",
     "explain why\ry", "run it twice\ry", "\ry", "\tif this:\r\t\ty\r"],
)  # fmt: skip
def test_a_paste_that_the_terminal_does_not_mark_is_no_answer(text: str) -> None:
    """It comes in one piece, as no user types; its lines stay together in the input line."""

    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(text)
        stage.settle()
        stage.now += 5
        stage.settle()
        assert not found and stage.live.questions.guard.held is None
        assert not stage.live.queued and not stage.live.line.replying
        kept = text.strip()
        assert stage.live.line.buffer.text.strip() == kept.replace("\r\n", "\n").replace("\r", "\n")
        stage.live.soon(stage.live.questions.cancel)

    play(story)


@pytest.mark.parametrize("more", ["", "and"])
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y\r", decision("approve")),
        ("no\r", decision("reject")),
        ("1\r", decision("approve")),
        ("always\r", decision("approve", rule="Bash(touch a)")),
    ],
)
def test_an_answer_and_enter_at_once_answer_unless_more_follows(keys: str, answer: object, more: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(keys)
        stage.has(keys.replace("\r", "\n"))
        assert not found
        if more:
            stage.now += 0.1
            stage.press(more)
            stage.has(keys.replace("\r", "\n") + more)
        stage.now += 2
        if more:
            looks(stage)
            assert not found and stage.live.questions.guard.held is None
            stage.live.soon(stage.live.questions.cancel)
        else:
            stage.until(lambda: found == [answer])
            stage.has("")
        assert not stage.live.queued

    play(story)


@pytest.mark.parametrize("words", ["explain why", "run it twice", "really?"])
def test_a_letter_that_opens_the_line_for_words_waits_too(words: str) -> None:
    """What is typed behind it is neither a reason to refuse nor put into the command."""

    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        for letter in words:
            stage.press(letter)
            stage.until(lambda letter=letter: stage.live.line.buffer.text.endswith(letter))
            stage.now += 0.2
        stage.has(words)
        stage.press("\r")
        stage.until(lambda: stage.live.queued == [words])
        assert not found
        stage.live.soon(stage.live.questions.cancel)

    play(story)


def test_a_slow_typist_has_more_time_to_type_on() -> None:
    def story(stage: Stage) -> None:
        for letter in "slow typing":
            stage.press(letter)
            stage.until(lambda letter=letter: stage.live.line.buffer.text.endswith(letter))
            stage.now += 0.5
        stage.live.soon(stage.live.line.clear)
        stage.has("")
        stage.now += 5
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press("y")
        stage.until(lambda: stage.live.questions.guard.held is not None)
        stage.now += 0.5
        looks(stage)
        assert not found
        stage.press("es, but")
        stage.has("yes, but")
        later(stage, 5)
        stage.settle()
        assert not found
        stage.live.soon(stage.live.line.clear)
        stage.has("")
        later(stage)
        stage.press("y")
        stage.until(lambda: stage.live.questions.guard.held is not None)
        stage.now += 1.1
        stage.until(lambda: found == [decision("approve")])

    play(story)


@pytest.mark.parametrize(
    ("key", "seconds"), [("y", 0.35), ("n", 0.35), ("1", 0.35), ("3", 0.35), ("a", 1.0), ("A", 1.0)]
)
def test_an_answer_for_later_calls_is_held_longer(key: str, seconds: float) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press(key)
        stage.until(lambda: stage.live.questions.guard.held is not None)
        stage.now += seconds - 0.05
        looks(stage)
        assert not found
        stage.now += 0.1
        stage.until(lambda: found)

    play(story)


def looks(stage: Stage) -> None:
    """Until it was looked twice whether the held key is due."""
    held = stage.live.questions.guard.held
    for _ in range(2):
        passed = threading.Event()
        stage.live.soon(lambda passed=passed: stage.live.app.loop.call_later(0.06, passed.set))
        passed.wait(PATIENCE)
    assert stage.live.questions.guard.held is held
