"""The keys of the application: what they mean while it works, at a question, and on an empty line."""

from __future__ import annotations

from typing import Any

import pytest
from rich.text import Text

from agent_cli.core.answers import Approve, Edit, Reject, Reply
from agent_cli.core.events import ApprovalRequested, MessageAdded, TextDelta
from agent_cli.core.messages import UserMessage
from agent_cli.terminal.changeable import Changeable
from agent_cli.terminal.decisions import Ask, approval, confirmation, pick, question, review
from agent_tools.base import Effect
from agent_tools.cancel import Cancelled
from tests.terminal.stage import Stage, play

REQUEST = ApprovalRequested(
    "c1", "Bash", "Run: touch a", "runs a command", (Effect("run", "touch a"),), "/w", None, "Bash(touch a)", "h",
    grants="this command", keeps=True,
)  # fmt: skip


def asking(stage: Stage, ask: Ask) -> list[Any]:
    """Begin with a message whose work asks; the list gets the answer."""
    found: list[Any] = []

    def job(text: str) -> None:
        stage.live.bridge.emit(ask)
        try:
            found.append(ask.waiting.wait())
        except Cancelled:
            found.append("cancelled")

    stage.session.job = job
    stage.press("go\r")
    stage.until(lambda: stage.live.questions.ask is ask)
    return found


def later(stage: Stage, seconds: float = 1.0) -> None:
    stage.settle()
    stage.now += seconds


def test_enter_sends_and_while_it_works_it_queues() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.until(lambda: stage.session.sent == ["one"])
        stage.press("two\rthree\rdraft")
        stage.until(lambda: stage.live.queued == ["two", "three"])
        assert stage.session.inbox == ["two", "three"]
        stage.has("draft")
        # The turn takes the first at its next step.
        stage.session.inbox.remove("two")
        stage.live.bridge.emit(MessageAdded(UserMessage("two")))
        stage.until(lambda: stage.live.queued == ["three"])
        # What it did not take begins the next turn.
        stage.session.finish()
        stage.until(lambda: stage.session.sent == ["one", "three"])
        stage.has("draft")
        stage.until(lambda: "> three" in stage.screen.drawn)

    drawn = play(story).screen.drawn
    assert drawn.index("> one") < drawn.index("> two") < drawn.index("> three")


def test_up_takes_the_last_queued_message_back_unless_the_turn_has_it() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\rtwo\rthree\r")
        stage.until(lambda: stage.live.queued == ["two", "three"])
        stage.press("\x1b[A")
        stage.has("three")
        assert stage.live.queued == ["two"] and stage.session.inbox == ["two"]
        stage.press("\x15")
        stage.has("")
        stage.session.inbox.clear()
        stage.press("\x1b[A")
        stage.settle()
        assert stage.live.queued == ["two"]

    play(story)


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_escape_and_ctrl_c_interrupt_and_keep_the_draft(key: str) -> None:
    def story(stage: Stage) -> None:
        stage.press("one\rdraft")
        stage.has("draft")
        stage.until(lambda: stage.session.sent)
        stage.press(key)
        stage.until(lambda: stage.session.token.cancelled)
        stage.until(lambda: not stage.live.busy)
        stage.has("draft")

    play(story)


def test_ctrl_c_clears_the_draft_then_hints_then_leaves() -> None:
    def story(stage: Stage) -> None:
        stage.press("draft")
        stage.has("draft")
        stage.press("\x03")
        stage.has("")
        stage.press("\x03")
        stage.until(lambda: "again leaves" in stage.screen.drawn)
        assert stage.live.app.is_running
        stage.now += 2
        stage.press("\x03")
        stage.settle()
        assert stage.live.app.is_running
        stage.press("\x03")
        stage.until(lambda: not stage.live.app.is_running)

    play(story)


def test_ctrl_d_leaves_only_on_an_empty_line() -> None:
    def story(stage: Stage) -> None:
        stage.press("ab\x01\x04")
        stage.has("b")
        stage.press("\x04\x04")
        stage.until(lambda: not stage.live.app.is_running)

    play(story)


@pytest.mark.parametrize("key", ["\x1b\r", "\x1b[13;2u", "\x1b[27;2;13~", "\n", "\\\r"])
def test_many_keys_make_a_line_end(key: str) -> None:
    def story(stage: Stage) -> None:
        stage.press(f"one{key}two")
        stage.has("one\ntwo")
        stage.press("\r")
        stage.until(lambda: stage.session.sent == ["one\ntwo"])

    play(story)


def test_long_pastes_are_folded_and_sent_whole() -> None:
    text = "".join(f"line {n}\n" for n in range(200))

    def story(stage: Stage) -> None:
        stage.press(f"see \x1b[200~{text}\x1b[201~ end")
        stage.has("see [Pasted #1 201 lines] end")
        stage.press("\r")
        stage.until(lambda: stage.session.sent == [f"see {text} end"])
        stage.press("\x1b[200~short\x1b[201~")
        stage.has("short")

    play(story)


def test_a_key_answers_only_after_the_guard() -> None:
    def story(stage: Stage) -> None:
        ask = approval(REQUEST, Changeable("Bash", {"command": "touch a"}))
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
        ("eb\r", Edit({"command": "touch ab"})),
    ],
)
def test_the_keys_of_an_approval(keys: str, answer: object) -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval(REQUEST, Changeable("Bash", {"command": "touch a"})))
        stage.press("draft")
        stage.has("draft")
        later(stage)
        stage.press(keys)
        stage.until(lambda: found == [answer])
        stage.has("draft")

    play(story)


def test_escape_goes_back_to_the_question_and_an_interrupt_approves_nothing() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval(REQUEST, Changeable("Bash", {"command": "touch a"})))
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
        found = asking(stage, question({"question": "Which?", "options": options}))
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
        found = asking(stage, review({"title": "step one", "steps": ["tests written"], "files": []}))
        later(stage)
        stage.press("u")
        stage.until(lambda: stage.live.line.replying)
        stage.press("too much\r")
        stage.until(lambda: found)
        assert found == [Reply("undo", "too much")]

    play(story)


def test_commands_run_at_once_or_wait_for_the_end_of_the_turn() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.until(lambda: stage.session.sent == ["one"])
        stage.press("/todos add x\r/mode plan\r")
        stage.until(lambda: stage.session.asides == ["/todos add x"] and stage.live.queued == ["/mode plan"])
        assert not stage.session.inbox
        stage.session.finish()
        stage.until(lambda: stage.session.sent == ["one", "/mode plan"])
        stage.until(lambda: not stage.session.finished)
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        stage.press("/exit\r")
        stage.until(lambda: not stage.live.app.is_running)

    play(story)


def test_the_menu_completes_and_enter_sends_what_stands_there() -> None:
    def story(stage: Stage) -> None:
        stage.press("/h")
        stage.until(lambda: [c.text for c in stage.live.line.menu] == ["/help "])
        stage.press("\t")
        stage.has("/help ")
        stage.press("\x15/\x1b[B\x1b[B\r")
        stage.has("/mode ")
        stage.press("\x15@a\t")
        stage.has("@a.txt ")
        stage.press("\x15/h")
        stage.until(lambda: stage.live.line.menu)
        stage.press("\x1b")
        stage.until(lambda: not stage.live.line.menu)
        stage.press("\r")
        stage.until(lambda: stage.session.sent == ["/h"])

    play(story)


def test_every_frame_is_one_write_and_marked_as_one() -> None:
    def story(stage: Stage) -> None:
        stage.session.job = lambda text: [stage.live.bridge.emit(TextDelta(f"word{n} ")) for n in range(500)] and None
        stage.press("go\r")
        stage.until(lambda: "word499" in stage.screen.drawn)

    stage = play(story)
    assert all(f.startswith("\x1b[?2026h") and f.endswith("\x1b[?2026l") for f in stage.screen.frames)
    assert all(f.count("\x1b[?2026h") == 1 for f in stage.screen.frames)
    assert stage.screen.writes == len(stage.screen.frames)
    assert "\x1b[?2004l" not in "".join(stage.screen.frames[:-2])


def test_a_failure_of_the_work_ends_the_application_and_is_raised() -> None:
    def story(stage: Stage) -> None:
        def job(text: str) -> None:
            raise LookupError("broken")

        stage.session.job = job
        stage.press("go\r")
        stage.until(lambda: not stage.live.app.is_running)

    with pytest.raises(LookupError, match="broken"):
        play(story)


@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (20, 24), (300, 60), (45, 12)])
def test_the_live_part_fits_every_window(columns: int, rows: int) -> None:
    def story(stage: Stage) -> None:
        ask = Ask(approval(REQUEST, Changeable("Bash", {})).bar, {}, lambda console: iter([Text("body")]))
        asking(stage, ask)
        stage.live.bridge.emit(TextDelta("wide 宽字符 " * 200))
        stage.press("a draft of many words " * 20)
        stage.settle()
        stage.live.bridge.emit(TextDelta("more"))
        stage.until(lambda: "body" in stage.screen.drawn)
        screen = stage.live.app.renderer.last_rendered_screen
        assert screen is not None and screen.height <= rows
        for y in range(screen.height):
            assert max((x for x, cell in screen.data_buffer[y].items() if cell.char.strip()), default=0) < columns

    play(story, columns=columns, rows=rows)


def test_a_choice_is_narrowed_and_taken_and_the_draft_comes_back() -> None:
    options = [("alpha", "the first"), ("beta", "the second"), ("gamma", "the third")]

    def story(stage: Stage) -> None:
        for keys, wanted in (("beta\r", 1), ("the\x1b[B\x1b[B\r", 2), ("nothing fits\r\x1b", None), ("\r", 0)):
            ask = pick("Which?", options)
            found: list[Any] = []

            def job(text: str, ask: Ask = ask, found: list[Any] = found) -> None:
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
        one, two = confirmation("one?"), confirmation("two?")

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


def test_escape_twice_on_an_empty_line_goes_back_in_time() -> None:
    def story(stage: Stage) -> None:
        stage.press("x\x1b")
        stage.settle()
        stage.press("\x08\x1b")
        stage.settle()
        stage.now += 2
        stage.press("\x1b")
        stage.settle()
        assert not stage.session.sent
        stage.press("\x1b")
        stage.until(lambda: stage.session.sent == ["/rewind"])

    play(story)


def test_a_command_at_a_question_neither_answers_it_nor_loses_what_was_typed() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, approval(REQUEST, Changeable("Bash", {"command": "touch a"})))
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
        found = asking(stage, question({"question": "Why?", "options": []}))
        later(stage)
        stage.press("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides == ["/todos"])
        stage.press("because\r")
        stage.until(lambda: found == ["because"])

    play(story)
