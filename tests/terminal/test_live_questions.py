"""The keys of the application at a question."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import pyte
import pytest
from rich.console import Console

import agent_cli.shells.terminal.commands  # noqa: F401 - the commands that exist separate a held key from text
from agent_cli import ApprovalQuestion
from agent_cli.kernel.events import ToolRequested, ToolStarted, Warned
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.layout import above
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_cli.shells.terminal.dialogs import lines
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from agent_cli.shells.terminal.dialogs.model import Choice, Dialog, GiveAnswer, Prose
from agent_cli.shells.terminal.dialogs.questions import (
    confirm_dialog,
    pick_dialog,
    plan_dialog,
    question_dialog,
    review_dialog,
)
from agent_cli.shells.terminal.render.ansi import cells
from agent_tools.base import Effect
from agent_tools.cancel import CancelledError
from tests.support.terminal_stage import REQUEST, Stage, asked_plan, asked_review, asking, decision, later, play

CHANGE = EditableCall("Bash", {"command": "touch a"})


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["\r"], decision("approve")),
        (["\x1b[B", "\r"], decision("approve", rule="Bash(touch a)")),
        (["\x1b[A", "\r"], decision("reject")),
        (["\x0e", "\x0e", "\x10", "\r"], decision("approve", rule="Bash(touch a)")),
        (["\x1b"], decision("reject")),
        (["\x1b[B", "\t", "\r"], decision("approve", rule="Bash(touch a)")),
        (["?", "3"], decision("approve", rule="Bash(touch a)", scope="project")),
    ],
)
def test_the_list_of_an_approval(keys: list[str], answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        stage.answer(*keys)
        stage.until(lambda: found == [answer])
        stage.has("")

    play(story)


@pytest.mark.parametrize(
    ("keys", "words", "answer"),
    [
        ("\t", "and be quick", decision("approve", "and be quick")),
        ("\x1b[A\t", "that is wrong", decision("reject", "that is wrong")),
    ],
)
def test_tab_adds_words_to_an_answer(keys: str, words: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        stage.press(keys)
        stage.until(lambda: stage.live.line.replying)
        stage.press(f"{words}\r")
        stage.until(lambda: found == [answer])
        stage.has("")

    play(story)


def test_shift_tab_at_an_edit_accepts_all_edits_and_elsewhere_changes_the_mode() -> None:
    edit = REQUEST.replace(
        tool="Edit", summary="Edit a.txt", effects=(Effect("write", "/w/a.txt"),), edits=True, always=""
    )

    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(edit, EditableCall("", {}))))
        stage.now += 1
        stage.press("\x1b[Z")
        stage.until(lambda: found == [decision("approve", mode="acceptEdits")])
        assert stage.session.modes == 0
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        assert stage.session.modes > 0 and stage.live.questions.ask is not None

    play(story)


def test_enter_sends_a_draft_and_does_not_answer() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        stage.press("please wait")
        stage.has("please wait")
        later(stage)
        stage.press("\r")
        stage.until(lambda: stage.live.queued == ["please wait"])
        assert not found and stage.live.questions.ask is not None

    play(story)


def test_escape_closes_the_explanation_first_and_ctrl_c_interrupts() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST.replace(facts=("a fact of it",)), CHANGE)))
        later(stage)
        stage.press("?")
        stage.until(lambda: "a fact of it" in stage.screen.drawn)
        ask = stage.live.questions.ask
        assert ask is not None and ask.view.explained
        stage.press("\x1b")
        stage.until(lambda: not ask.view.explained)
        assert not found
        stage.press("\t")
        stage.until(lambda: stage.live.line.replying)
        stage.press("words")
        stage.has("words")
        later(stage, 5)
        stage.press("\x03")
        stage.until(lambda: found == ["cancelled"])
        stage.has("words")

    play(story)


def test_several_are_marked_with_space_and_taken_with_enter() -> None:
    options = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]

    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Which?", "options": options, "multiSelect": True}))
        later(stage)
        stage.answer(" ", "\x1b[B", "\x1b[B", " ", "\r")
        stage.until(lambda: found == ["Red, Green"])

    play(story)


@pytest.mark.parametrize(("keys", "answer"), [("13\r", "Red, Green"), ("313\r", "Red"), ("2\r", "Blue")])
def test_numbers_mark_several_choices_and_nothing_reaches_the_model(keys: str, answer: str) -> None:
    options = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]

    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Which?", "options": options, "multiSelect": True}))
        later(stage, 5)
        for key in keys[:-1]:
            stage.press(key)
            stage.settle()
            stage.now += 1.0
        stage.press(keys[-1])
        stage.until(lambda: found == [answer])
        assert stage.session.sent == ["go"] and not stage.session.inbox

    play(story)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("1,3\r", "Red, Green"), ("1 3\r", "Red, Green"), ("3,1\r", "Red, Green"), ("1 3 2\r", "Red, Blue, Green"),
     ("1  2\r", "Blue")],
)  # fmt: skip
def test_a_separator_between_numbers_does_not_drop_the_first(keys: str, answer: str) -> None:
    options = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]

    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Which?", "options": options, "multiSelect": True}))
        later(stage, 5)
        for key in keys:
            stage.settle()
            stage.now += 1.0
            stage.press(key)
        stage.until(lambda: found == [answer])
        assert stage.session.sent == ["go"] and not stage.session.inbox

    play(story)


LINE = "a line of a text that was copied elsewhere"


@pytest.mark.parametrize(
    "lines", [f"{LINE}\r{LINE}\r{LINE}", f"{LINE}\r{LINE}\rend\r", f"{LINE}\r\r{LINE}\r", f"a\n{LINE}\n{LINE}\n"]
)
def test_a_paste_without_brackets_sends_nothing(lines: str) -> None:
    def story(stage: Stage) -> None:
        stage.press(lines)
        text = lines.replace("\r", "\n")
        stage.until(lambda: stage.live.line.buffer.text.strip("\n") == text.strip("\n"))
        stage.settle()
        assert not stage.session.sent
        stage.now += 5
        stage.press("\r")
        stage.until(lambda: [sent.strip() for sent in stage.session.sent] == [text.strip()])
        stage.session.finish()

    play(story)


def test_one_line_and_its_enter_in_one_read_are_sent() -> None:
    def story(stage: Stage) -> None:
        stage.press("hello there\r")
        stage.until(lambda: stage.session.sent == ["hello there"])
        stage.session.finish()

    play(story)


def test_own_words_are_the_last_entry_of_a_question() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Which?", "options": [{"label": "Red"}]}))
        later(stage)
        stage.answer("\x1b[A", "\r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("a dark blue\r")
        stage.until(lambda: found == ["a dark blue"])

    play(story)


@pytest.mark.parametrize(
    ("key", "words", "answer"),
    [
        ("r", "not now", decision("reject", "not now")),
        ("r", "y", decision("reject", "y")),
        ("e", "b", decision("edit", arguments={"command": "touch ab"})),
    ],
)
def test_the_keys_of_an_approval(key: str, words: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {"command": "touch a"}))))
        later(stage)
        stage.answer(key)
        stage.until(lambda: stage.live.line.replying)
        stage.press(f"{words}\r")
        stage.until(lambda: found == [answer])
        stage.has("")

    play(story)


def test_escape_goes_back_to_the_question_and_an_interrupt_approves_nothing() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {"command": "touch a"}))))
        later(stage)
        stage.answer("r")
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
        stage.press("4")
        stage.has("4")
        stage.press("\x7f")
        later(stage)
        stage.answer("2")
        stage.until(lambda: found == ["Blue"])

    play(story)


def test_the_work_since_the_last_look_can_be_undone_at_a_review() -> None:
    def story(stage: Stage) -> None:
        found = asking(
            stage, review_dialog(asked_review({"title": "step one", "steps": ["tests written"], "files": []}))
        )
        later(stage)
        stage.answer("u")
        stage.until(lambda: stage.live.line.replying)
        stage.press("too much\r")
        stage.until(lambda: found)
        assert found == [decision("undo", "too much")]

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
        one, two = OpenDialog(confirm_dialog("one?", grave=False)), OpenDialog(confirm_dialog("two?", grave=False))

        def job(text: str) -> None:
            stage.live.bridge.emit(one)
            stage.live.bridge.emit(two)

        stage.session.job = job
        stage.press("go\r")
        stage.until(lambda: stage.live.questions.ask is one)
        later(stage)
        stage.answer("y")
        stage.until(lambda: stage.live.questions.ask is two)
        assert one.waiting.wait() is True
        later(stage)
        stage.answer("n")
        assert two.waiting.wait() is False

    play(story)


def test_a_command_at_a_question_neither_answers_it_nor_loses_what_was_typed() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {"command": "touch a"}))))
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
        stage.answer("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides == ["/todos a", "/todos"])
        stage.press("because\x1b")
        stage.until(lambda: not stage.live.line.replying)
        stage.has("")
        later(stage)
        stage.answer("r")
        stage.has("because")
        stage.press(" of it\r")
        stage.until(lambda: found == [decision("reject", "because of it")])

    play(story)


def test_a_command_where_an_answer_in_words_is_asked_for() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "Why?", "options": []}))
        later(stage)
        stage.answer("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides == ["/todos"])
        stage.press("because\r")
        stage.until(lambda: found == ["because"])

    play(story)


def test_words_that_cannot_be_are_reported_and_stay_in_the_line() -> None:
    def refuse(mode: str) -> None:
        if mode == "bypassPermissions":
            raise UsageError("That mode is refused here.")

    def story(stage: Stage) -> None:
        found = asking(stage, plan_dialog(asked_plan({"plan": "1. Touch it"}), check_mode=refuse))
        later(stage)
        stage.answer("w")
        stage.until(lambda: stage.live.line.replying)
        stage.press("bypassPermissions\r")
        stage.until(lambda: "That mode is refused here." in stage.screen.drawn)
        stage.has("bypassPermissions")
        assert not found
        stage.press("\x15be quick\r")
        stage.until(lambda: found == [decision("approve", "be quick")])

    play(story)


def test_one_blank_row_is_between_running_calls_and_a_question() -> None:
    def story(stage: Stage) -> None:
        emit = stage.live.bridge.emit
        emit(Warned("One line above."))
        for call in ("a", "b"):
            emit(ToolRequested(call, "Task", {}, f"Sub-agent explore: {call}"))
            emit(ToolStarted(call, "Task"))
        ask = OpenDialog(approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        emit(ask)
        stage.until(lambda: stage.live.questions.ask is ask)
        rows = ["".join(text for _, text in row).strip() for row in above(stage.live)]
        assert rows[-1] == "" and "Sub-agent explore: b" in rows[-2]
        stage.live.soon(stage.live.questions.cancel)

    play(story)


def test_a_pasted_draft_draws_the_question_once_per_frame_and_not_per_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame is two drawings at most: rows above, and the question."""
    drawn = [0]
    rows = QuestionView.rows

    def counting(self: QuestionView, *args: Any, **more: Any) -> tuple[list[str], int]:
        drawn[0] += 1
        return rows(self, *args, **more)

    monkeypatch.setattr(QuestionView, "rows", counting)
    text = "a draft of many words " * 40

    def story(stage: Stage) -> None:
        asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        before, frames = drawn[0], stage.live.app.frame_number
        stage.press(text)
        stage.has(text)
        assert drawn[0] - before <= 2 * (stage.live.app.frame_number - frames + 1)

    play(story)


def test_a_choice_is_shortened_and_wrapped_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may have many kilobytes: each of its characters is measured a fixed number of times."""
    measured = [0]

    def counting(text: str) -> int:
        measured[0] += len(text)
        return cells(text)

    monkeypatch.setattr(lines, "cells", counting)
    label = "rm -f " + " ".join(f"file-{number:04}" for number in range(2_000))
    dialog = Dialog(Prose("Run this command?"), choices=(Choice("a", f"always {label}", GiveAnswer(None)),))
    view = QuestionView(dialog)
    shown, _ = view.rows(Console(file=io.StringIO(), width=80), 80, 12)
    assert "file-1999" in shown[-1]
    assert measured[0] <= 3 * len(label)


@pytest.mark.parametrize("columns", [30, 40, 60, 80])
def test_explanations_of_a_list_to_choose_from_are_shown_whole(columns: int) -> None:
    options = (
        ("In the sandbox, without asking", "tests and builds just run; the network and deleting files still ask"),
        ("Ask before every command", "commands that are allowed also run in the sandbox"),
    )

    def story(stage: Stage) -> None:
        def ask(text: str) -> None:
            with suppress(CancelledError):
                question = OpenDialog(pick_dialog("How should commands run?", options, "decide later"))
                stage.live.bridge.emit(question)
                question.waiting.wait()

        stage.session.job = ask
        stage.press("go\r")
        stage.until(lambda: "Enter · Esc" in stage.screen.drawn)
        screen = pyte.Screen(columns, 24)
        pyte.Stream(screen).feed(stage.screen.drawn)
        shown = " ".join(" ".join(screen.display).split())
        for text, explanation in options:
            words = [*text.split(), *explanation.split()]
            assert all(word in shown for word in words) and "…" not in shown
        stage.press("\x1b")
        stage.session.finish()

    play(story, columns=columns)
