"""The keys of the application: what they mean while it works, at a question, and on an empty line."""

from __future__ import annotations

import time
from functools import partial

import pytest
from prompt_toolkit.data_structures import Size

from agent_cli import ApprovalQuestion
from agent_cli.kernel.events import MessageAdded, TextDelta
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.output import SETTLE_SECONDS
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from tests.support.terminal_stage import REQUEST, Stage, asking, play


def test_enter_sends_and_while_it_works_it_queues() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.until(lambda: stage.session.sent == ["one"])
        stage.press("two\r")
        stage.press("three\r")
        stage.press("draft")
        stage.until(lambda: stage.live.queued == stage.session.inbox == ["two", "three"])
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
        for line in ("one\r", "two\r", "three\r"):
            stage.press(line)
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
        stage.press("one\r")
        stage.press("draft")
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
        stage.until(lambda: "again to exit" in stage.screen.drawn)
        assert stage.live.app.is_running
        stage.now += 2
        stage.press("\x03")
        stage.settle()
        assert stage.live.app.is_running
        stage.press("\x03")
        stage.until(lambda: not stage.live.app.is_running)

    play(story)


def test_a_second_ctrl_c_leaves_only_while_the_work_is_still_stopping() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.press("draft")
        stage.has("draft")
        stage.until(lambda: stage.session.sent)
        stage.press("\x03")
        stage.until(lambda: stage.session.token.cancelled and not stage.live.busy)
        stage.press("\x03")
        stage.has("")
        assert stage.live.app.is_running
        stage.press("\x03\x03")
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
        for keys in ("one", key, "two"):
            stage.press(keys)
        stage.has("one\ntwo")
        stage.press("\r")
        stage.until(lambda: stage.session.sent == ["one\ntwo"])

    play(story)


def test_long_pastes_are_folded_and_sent_whole() -> None:
    text = "".join(f"line {n}\n" for n in range(200))

    def story(stage: Stage) -> None:
        stage.press(f"see \x1b[200~{text}\x1b[201~ end")
        stage.has("see [Pasted #1 200 lines] end")
        stage.press("\r")
        stage.until(lambda: stage.session.sent == [f"see {text} end"])
        stage.press("\x1b[200~short\x1b[201~")
        stage.has("short")

    play(story)


def test_commands_run_at_once_or_wait_for_the_end_of_the_turn() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.until(lambda: stage.session.sent == ["one"])
        stage.press("/todos add x\r")
        stage.press("/mode plan\r")
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
        stage.press("\x15/\x1b[B\t")
        stage.has("/mode ")
        stage.press("\x15/m\r")
        stage.until(lambda: stage.session.sent == ["/mode"])
        stage.session.finish()
        stage.until(lambda: not stage.live.busy)
        stage.press("@a\t")
        stage.has("@a.txt ")
        stage.press("\x15/h")
        stage.until(lambda: stage.live.line.menu)
        stage.press("\x1b")
        stage.until(lambda: not stage.live.line.menu)
        stage.press("\r")
        stage.until(lambda: stage.session.sent[1:] == ["/h"])

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


def test_nothing_is_drawn_while_the_window_changes_and_nothing_is_lost() -> None:
    changed, drawn = list[float](), list[float]()

    def story(stage: Stage) -> None:
        emit, put = stage.live.bridge.emit, stage.screen.put

        def timed(data: bytes) -> None:
            drawn.append(time.monotonic())
            put(data)

        def resize(columns: int) -> None:
            stage.screen.size = Size(rows=24, columns=columns)
            changed.append(time.monotonic())
            drawn.clear()
            emit(TextDelta(f"at {columns}  \n"))
            stage.live.draw_soon()

        stage.session.job = lambda text: emit(TextDelta("begun  \n\n"))
        stage.press("go\r")
        stage.until(lambda: "begun" in stage.screen.drawn)
        stage.screen.put = timed  # type: ignore[method-assign]
        for columns in (70, 60, 50):
            stage.live.soon(partial(resize, columns))
        stage.until(lambda: len(changed) == 3)
        emit(TextDelta("\nthe end\n\n"))
        stage.until(lambda: "the end" in stage.screen.drawn)
        for columns in (70, 60, 50):
            assert f"at {columns}" in stage.screen.drawn

    play(story)
    assert drawn[0] - changed[-1] >= SETTLE_SECONDS


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
        asking(stage, approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {}))))
        stage.live.bridge.emit(TextDelta("wide 宽字符 " * 200))
        stage.press("a draft of many words " * 20)
        stage.settle()
        stage.live.bridge.emit(TextDelta("more"))
        stage.until(lambda: "touch a" in stage.screen.drawn)
        screen = stage.live.app.renderer.last_rendered_screen
        assert screen is not None and screen.height <= rows
        for y in range(screen.height):
            assert max((x for x, cell in screen.data_buffer[y].items() if cell.char.strip()), default=0) < columns

    play(story, columns=columns, rows=rows)


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
