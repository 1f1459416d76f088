"""Answer keys pressed several times, and between two questions."""

from __future__ import annotations

import pytest

from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from tests.support.terminal_stage import REQUEST, Stage, asking, decision, later, play

CHANGE = EditableCall("Bash", {"command": "touch a"})


@pytest.mark.parametrize("key", ["y", "1"])
def test_an_answer_pressed_again_in_impatience_answers_once_and_stays_out_of_the_line(key: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        for count in (1, 2, 3):
            stage.press(key)
            stage.has(key * count)
            stage.until(lambda: stage.live.questions.guard.held is not None)
            assert not found
            stage.now += 0.2
        stage.now += 1.0
        stage.until(lambda: found == [decision("approve")])
        stage.has("")
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        # The next question is answered by its own key.
        again = asking(stage, approval_dialog(REQUEST, CHANGE))
        stage.now += 5
        stage.settle()
        assert not again
        stage.answer(key)
        stage.until(lambda: again == [decision("approve")])
        stage.has("")
        assert not stage.live.queued and not stage.session.inbox

    play(story)


def between_two_questions(stage: Stage, keys: str) -> OpenDialog:
    """Answer a question, type keys before the next one has appeared, and return that one."""
    asking(stage, approval_dialog(REQUEST, CHANGE))
    later(stage)
    stage.answer("y")
    stage.until(lambda: stage.live.questions.ask is None)
    stage.press(keys)
    stage.has(keys)
    ask = OpenDialog(approval_dialog(REQUEST, CHANGE))
    stage.live.bridge.emit(ask)
    stage.until(lambda: stage.live.questions.ask is ask)
    return ask


def test_an_answer_pressed_between_two_questions_is_dropped_and_answers_when_pressed_again() -> None:
    def story(stage: Stage) -> None:
        ask = between_two_questions(stage, "y")
        stage.now += 5
        stage.has("")
        assert stage.live.questions.ask is ask
        stage.press("y")
        stage.has("y")
        stage.now += 1
        stage.until(lambda: stage.live.questions.ask is None)
        stage.has("")
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        ask = between_two_questions(stage, "yy")
        stage.press("y")
        stage.has("yyy")
        stage.now += 1
        stage.until(lambda: stage.live.questions.ask is None)
        stage.has("")
        assert not stage.live.queued

    play(story)


def test_a_sentence_begun_between_two_questions_stays_a_sentence() -> None:
    def story(stage: Stage) -> None:
        ask = between_two_questions(stage, "y")
        stage.press("es, and")
        stage.has("yes, and")
        later(stage, 5)
        stage.settle()
        stage.has("yes, and")
        assert stage.live.questions.ask is ask
        stage.live.soon(stage.live.questions.cancel)

    play(story)


def test_a_repeated_answer_gives_way_to_what_is_typed_after_it() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(REQUEST, CHANGE))
        later(stage)
        stage.press("1")
        stage.has("1")
        stage.now += 0.1
        stage.press("1")
        stage.has("11")
        stage.now += 0.1
        stage.press(" tests")
        stage.has("11 tests")
        stage.now += 5
        stage.settle()
        assert not found and stage.live.questions.guard.held is None
        stage.press("\x7f" * 8)
        stage.has("")
        later(stage)
        stage.answer("y")
        stage.until(lambda: found == [decision("approve")])

    play(story)
