"""Typed and pasted text in the application: every character goes to one place, and only an Enter of the user sends."""

from __future__ import annotations

import pytest

from agent_cli import ApprovalQuestion
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from tests.support.terminal_stage import REQUEST, Stage, asking, decision, later, play

CHANGE = EditableCall("Bash", {"command": "touch a"})
LONG = "a line that is longer than one read of the terminal " * 60


@pytest.mark.parametrize(
    "text",
    ["a\rb", "ls\rcd\r", "a\rb\rc\r", "x\r\ry", "fix\rit", "one\r\ntwo\r\n", "a\tb\rc", "?\rwhy", "/help\rme",
     "1\n2\r3", f"{LONG}\r{LONG}", f"{LONG}\rshort", f"{LONG[:1024]}\rshort", f"short\r{LONG}\rshort\r",
     f"{LONG[:1023]}\r\r{LONG}"],
)  # fmt: skip
def test_no_line_of_a_paste_without_brackets_is_sent(text: str) -> None:
    def story(stage: Stage) -> None:
        stage.press(text)
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        stage.until(lambda: stage.live.line.text.strip("\n") == lines.strip("\n"))
        stage.settle()
        assert not stage.session.sent
        stage.press("\r")
        stage.until(lambda: stage.session.sent)
        assert [sent.strip() for sent in stage.session.sent] == [lines.strip()]
        stage.session.finish()

    play(story)


@pytest.mark.parametrize("behind", ["and then run all of the tests again", "x", "1", "a word or two, and more"])
def test_an_enter_of_the_user_sends_whatever_is_typed_ahead_of_a_slow_line(behind: str) -> None:
    def story(stage: Stage) -> None:
        for letter in "fix it":
            stage.press(letter)
            stage.until(lambda letter=letter: stage.live.line.buffer.text.endswith(letter))
        stage.press(f"\r{behind}")
        stage.until(lambda: stage.session.sent == ["fix it"])
        stage.has(behind)
        stage.session.finish()

    play(story)


@pytest.mark.parametrize(
    "enter", ["\x1b[13;1u", "\x1b[13u", "\x1b[13;129u", "\x1b[13;1:1u", "\x1b[27;1;13~", "\x1b[57414u"]
)
def test_enter_in_a_newer_encoding_is_enter(enter: str) -> None:
    def story(stage: Stage) -> None:
        stage.press("hello")
        stage.has("hello")
        stage.press(enter)
        stage.until(lambda: stage.session.sent == ["hello"])
        stage.session.finish()

    play(story)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("ab\x1b[127u", "a"), ("ab\x1b[127;1:2u", "a"), ("ab\x1b[27;1;127~", "a"), ("ab\x1b[97;5u.", ".ab"),
        ("ab\x1b[27;5;97~.", ".ab"), ("ab\x1b[97;5:3u.", "ab."), ("a\x1b[13;2ub", "a\nb"), ("a\x1b[27;2;13~b", "a\nb"),
        ("a\x1b[13;3ub", "a\nb"), ("a\x1b[106;5ub", "a\nb"), ("/he\x1b[9u", "/help "),
        ("/mo\x1b[9;1:1u\x1b[9;1:3u", "/mode "),
        ("a\x1b[32;1ub", "a b"), ("\x1b[97u\x1b[97;2u\x1b[97:65;2u", "aAA"), ("\x1b[228;1;228u", "ä"),
        ("ab\x1b[1;129D.", "a.b"), ("ab\x1b[1;1:1D.", "a.b"), ("ab\x1b[1;1:3D.", "ab."), ("ab\x1b[57419;5:3u", "ab"),
        ("ab\x1b[57358u", "ab"), ("a b\x1b[27;5;119~", "a "), ("one two\x1b[119;5uc", "one c"),
        ("ab cd\x1b[127;3u", "ab "),
        ("\x1b[27u2a", "2a"), ("a\x1b[27;1:1u\x1b[98u", "ab"),
    ],
)  # fmt: skip
def test_keys_in_newer_encodings(keys: str, line: str) -> None:
    def story(stage: Stage) -> None:
        stage.press(keys)
        stage.has(line)

    play(story)


@pytest.mark.parametrize("escape", ["\x1b[27u", "\x1b[27;1u", "\x1b[27;1;27~", "\x1b[27;129:1u"])
def test_escape_in_a_newer_encoding_refuses(escape: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage)
        stage.press(escape)
        stage.until(lambda: found == [decision("reject")])

    play(story)


@pytest.mark.parametrize("end", ["\x03", "y"])
def test_a_reply_that_was_not_sent_is_in_the_draft_when_the_question_is_gone(end: str) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage, 5)
        stage.answer("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("use tabs")
        stage.has("use tabs")
        if end == "y":
            stage.press("\x1b")
            stage.has("")
        stage.answer(end)
        stage.until(lambda: found)
        stage.has("use tabs")
        assert stage.session.sent == ["go"] and not stage.live.queued

    play(story)


def test_a_command_that_was_changed_and_left_is_no_draft() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval_dialog(ApprovalQuestion(REQUEST, CHANGE)))
        later(stage, 5)
        stage.answer("e")
        stage.has("touch a")
        stage.press("bc\x1b")
        stage.has("")
        later(stage, 5)
        stage.answer("y")
        stage.until(lambda: found)
        stage.has("")

    play(story)


def test_a_folded_paste_is_moved_over_and_deleted_as_one_character() -> None:
    pasted = "\n".join(f"line {n}" for n in range(9))

    def story(stage: Stage) -> None:
        stage.press(f"a\x1b[200~{pasted}\x1b[201~b\x1b[D\x1b[D")
        stage.until(lambda: stage.live.line.buffer.document.text_before_cursor == "a")
        stage.press("\x1b[C")
        stage.until(lambda: stage.live.line.buffer.document.text_before_cursor.endswith("lines]"))
        stage.press("\x1b[D\x1b[3~")
        stage.until(lambda: stage.live.line.buffer.text == "ab")

    play(story)
