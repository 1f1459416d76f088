"""Small things that a user would trip over: drafts in the editor, commands beside a turn, notes in narrow windows."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from prompt_toolkit.key_binding.vi_state import InputMode
from rich.console import Console

from agent_cli.kernel.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    FirstChunk,
    PlanChanged,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    UsageAdded,
    Warned,
)
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.kernel.runtime.completion import CommandEntry, complete
from agent_cli.shells.terminal.app.layout import above, status_line
from agent_cli.shells.terminal.app.worker import Printed
from agent_cli.shells.terminal.dialogs.questions import pick_dialog, plan_dialog, question_dialog
from agent_cli.shells.terminal.render.ansi import cells
from agent_cli.shells.terminal.render.call_output import fit_rules
from agent_cli.shells.terminal.render.events import ChangedLines
from agent_cli.shells.terminal.render.live_writer import LiveWriter
from agent_cli.shells.terminal.render.transcript import MAX_ECHO_LINES, Transcript, user_bar
from agent_tools.results import CommandOutput, Diff, Note, TodoItem, TodoView
from tests.support.terminal_stage import REQUEST, Stage, asked_plan, asking, later, play


@pytest.mark.parametrize(
    ("script", "draft"), [("sed -i s/one/ONE/", "ONE two"), ("false", "one two"), ("vi 'x", "one two")]
)
def test_the_editor_changes_the_draft_and_never_loses_it(
    script: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", script)

    def story(stage: Stage) -> None:
        stage.press("one two\x18\x05")
        stage.until(lambda: stage.live.hint if draft == "one two" else stage.live.line.buffer.text == draft)
        assert stage.live.line.buffer.text == draft and not stage.session.sent

    play(story)


def test_a_command_beside_the_turn_does_not_tear_a_paragraph() -> None:
    def story(stage: Stage) -> None:
        stage.press("go\r")
        stage.until(lambda: stage.session.sent)
        stage.live.bridge.emit(TextDelta("one half and "))
        stage.press("/todos\r")
        stage.until(lambda: stage.session.asides)
        stage.live.bridge.emit(Printed("There is no plan.\n"))
        stage.live.bridge.emit(TextDelta("the other\n\n"))
        stage.until(lambda: "one half and the other" in stage.screen.drawn)
        order = [stage.screen.drawn.rindex(words) for words in ("/todos", "no plan", "and the other")]
        assert order == sorted(order)

    play(story)


def test_vi_begins_with_typing_also_after_a_search() -> None:
    def story(stage: Stage) -> None:
        stage.press("find me\r")
        stage.until(lambda: stage.session.sent)
        stage.press("\x12find\r")
        stage.has("find me")
        stage.live.change_appearance(vim=True)
        stage.until(lambda: stage.live.app.vi_state.input_mode == InputMode.INSERT)
        stage.press("\x03")

    play(story)


def test_the_bar_of_a_reply_tells_the_keys_that_hold_and_escape_goes_back() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, question_dialog({"question": "What name?"}))
        later(stage)
        stage.answer("r")
        stage.until(lambda: stage.live.line.replying)
        ask = stage.live.questions.ask
        assert ask is not None and "Enter send · Esc back" in ask.view.keys(79, replying=True, away=False).plain
        stage.press("\x1b")
        stage.until(lambda: not stage.live.line.replying)
        later(stage)
        stage.answer("n")
        stage.until(lambda: found == ["(no answer)"])

    play(story)


@pytest.mark.parametrize("count", [1, 2])
def test_a_message_queued_at_a_question_that_fills_the_window_stays_on_the_screen(count: int) -> None:
    def story(stage: Stage) -> None:
        asking(stage, plan_dialog(asked_plan({"plan": "\n".join(f"- step {n}" for n in range(40))})))
        later(stage)
        for number in range(count):
            stage.press("another thing")
            stage.has("another thing")
            later(stage)
            stage.press("\r")
            stage.until(lambda number=number: len(stage.live.queued) == number + 1)
        rows = ["".join(text for _, text in row) for row in above(stage.live)]
        assert "".join(rows).count("queued: another thing") == count

    play(story, rows=18)


def test_a_very_long_message_is_shown_in_part() -> None:
    kept = io.StringIO()
    writer = LiveWriter(Console(file=kept, soft_wrap=True), kept, whole_thoughts=False)
    rows = "\n".join(user_bar("\n".join(f"line {n}." for n in range(500)), writer))
    assert f"... {500 - MAX_ECHO_LINES} more lines ..." in rows
    assert f"line {MAX_ECHO_LINES - 6}." in rows and f"line {MAX_ECHO_LINES - 5}." not in rows
    # The words at its end.
    assert "line 494." not in rows and "line 495." in rows and "line 499." in rows


def test_what_was_pasted_stays_folded_when_it_is_sent_and_in_the_history() -> None:
    text = "\n".join(f"line {n}." for n in range(300))

    def story(stage: Stage) -> None:
        stage.press(f"Look: \x1b[200~{text}\x1b[201~\r")
        stage.until(lambda: stage.session.sent == [f"Look: {text}"])
        stage.until(lambda: "> Look: [Pasted #1 300 lines]" in stage.screen.drawn)
        stage.press("\x1b[A")
        stage.until(lambda: stage.live.line.buffer.text == "Look: [Pasted #1 300 lines]")
        assert stage.live.line.text == f"Look: {text}" and "line 17." not in stage.screen.drawn

    play(story)


@pytest.mark.parametrize("width", [20, 30, 39, 60, 79, 200])
def test_what_is_done_comes_before_the_numbers(width: int) -> None:
    line = status_line("waiting for you", 75, 12_345, 678, width)
    text = "".join(fragment[1] for fragment in line)
    assert cells(text) <= width
    assert ("waiting for you" in text) == (width > 20)
    assert ("↑ 12k ↓ 678" in text) == (width >= 60) and "esc" in text


def test_why_it_tries_again_comes_before_the_numbers() -> None:
    what = "trying again in 3 s (2 of 5): Anthropic is overloaded: Overloaded"
    for width, rest in (
        (76, "* %s (esc)"),
        (79, "* %s (25s · esc)"),
        (120, "* %s (25s · ↑ 9.8k ↓ 51 · esc to interrupt)"),
    ):
        line = status_line(what, 25, 9_800, 51, width)
        assert "".join(fragment[1] for fragment in line) == rest % what


def test_after_an_answer_broke_off_it_waits_for_the_model() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, width=80), kept)
    for event in (RoundStarted(1), FirstChunk(5), TextDelta("half an ans"), AnswerRestarted()):
        transcript(event)
    assert transcript.status() == "waiting for the model"


def test_commands_stand_in_the_menu_as_in_help() -> None:
    names = [CommandEntry(name) for name in ("mode", "exit", "model", "doctor")]
    assert [c.text.strip() for c in complete("/", names, tuple)] == ["/mode", "/exit", "/model", "/doctor"]
    assert [c.text.strip() for c in complete("/do", names, tuple)] == ["/doctor"]
    assert [c.text.strip() for c in complete("/od", names, tuple)] == ["/mode", "/model"]


def shown(events: list[Any], width: int = 40, plan: tuple[TodoItem, ...] = ()) -> list[str]:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, width=width, soft_wrap=True, no_color=True), kept, lambda: plan)
    for event in events:
        transcript(event)
    transcript.writer.settle()
    return transcript.writer.take()


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (100, ["✓ 3s · changed 1 file (+1 -1) · verified: python3 -m unittest -q"]),
        (60, ["✓ 3s · changed 1 file (+1 -1) · verified: python3 -m unitt…"]),
        (50, ["✓ 3s · changed 1 file (+1 -1)", "  verified: python3 -m unittest -q"]),
    ],
)
def test_the_end_of_a_turn_is_one_row_where_the_command_of_the_check_is_still_known(
    width: int, rows: list[str]
) -> None:
    kept = io.StringIO()
    writer = Transcript(Console(file=kept, width=width, soft_wrap=True, no_color=True), kept).writer
    facts = ("3s", "changed 1 file (+1 -1)", "verified: `python3 -m unittest -q`")
    writer.close("done", [(fact, "dim") for fact in facts])
    assert writer.take() == rows


def test_a_long_command_of_a_check_is_not_shortened_to_the_name_of_its_program() -> None:
    kept = io.StringIO()
    writer = Transcript(Console(file=kept, width=80, soft_wrap=True, no_color=True), kept).writer
    check = "verified: `.venv/bin/python -m pytest tests/test_slug.py -q -k runs`"
    writer.close("done", [(fact, "dim") for fact in ("1m 13s", "53k in, 775 out", "changed 2 files (+2 -1)", check)])
    assert writer.take() == ["✓ 1m 13s · 53k in, 775 out · changed 2 files (+2 -1)", f"  {check.replace('`', '')}"]


def test_notes_are_wrapped_by_words() -> None:
    kept = io.StringIO()
    writer = Transcript(Console(file=kept, width=30, soft_wrap=True, no_color=True), kept).writer
    writer.say("  not verified: `python3 -m unittest -q` failed, but files were changed", "dim")
    writer.say("")
    assert writer.take() == ["  not verified: `python3 -m", "  unittest -q` failed, but", "  files were changed"]


def test_a_call_that_the_person_changed_keeps_its_words() -> None:
    again = REQUEST.replace(summary="Run: touch b")
    assert isinstance(again, ApprovalRequested)
    events = [
        REQUEST,
        ApprovalResolved("c1", "reject", "person", "changed the arguments", "", "h"),
        again,
        ApprovalResolved("c1", "approve", "person", "", "", "h"),
        ToolStarted("c1", "Bash"),
        ToolFinished("c1", "Bash", False, 1, None),
    ]
    assert shown(events) == ["● Run: touch b"]
    # A resumed session has no requests.
    resumed = [ToolRequested("c1", "Bash", {}, "Run: touch a"), *(e for e in events if type(e) is not type(again))]
    assert shown(resumed) == ["● Run: touch a"]


def test_a_call_that_was_asked_about_when_the_turn_was_interrupted_is_said_not_to_have_run() -> None:
    end = TurnFinished("Failed", Diagnostics(1, 1, 0, 0, "", "interrupted"), Usage())
    ran = [ToolRequested("c0", "Bash", {}, "Run: ls"), ToolStarted("c0", "Bash")]
    ran += [ToolFinished("c0", "Bash", False, 1, None)]
    rows = shown([*ran, ToolRequested("c1", "Bash", {}, "Run: touch a"), REQUEST, end])
    assert rows[:2] == ["● Run: ls", "⊘ Run: touch a · not run"]


def test_what_came_too_fast_to_count_is_not_counted() -> None:
    flood = "\n".join(map(str, range(50))) + "\n"
    for text, message in ((flood, "… 48 more lines (Ctrl-O)"), (f"[… 900 bytes not shown …]\n{flood}", "over 49 more")):
        events = [ToolStarted("c1", "Bash"), ToolProgress("c1", text), ToolFinished("c1", "Bash", False, 1, None)]
        assert message in "\n".join(shown(events))


def test_a_failed_command_shows_both_ends_of_its_output_where_the_error_may_be() -> None:
    flood = "\n".join(map(str, range(50))) + "\n"
    failed = CommandOutput("x", flood, 1, 0.1, "exit code 1, 100 ms")
    hidden = failed.replace(exit_code=0, note="exit code 0, 100 ms; pytest in the pipe: exit code 1", check_failed=True)
    for display in (failed, hidden):
        events = [ToolStarted("c1", "Bash"), ToolProgress("c1", flood), ToolFinished("c1", "Bash", False, 1, display)]
        assert [row.strip(" └") for row in shown(events)[-7:]] == [
            "0", "1", "… 44 more lines (Ctrl-O)", "46", "47", "48", "49",
        ]  # fmt: skip


def test_the_rules_of_a_test_report_take_one_row_each_and_blank_lines_none() -> None:
    report = (
        f"\n{' ERRORS ':=^80}\n{' ERROR collecting tests/test_a.py ':_^80}\nE   boom\n{' 1 failed ':!^80}\n{'-' * 80}\n"
    )
    report += "".join(f"line {n}\n" for n in range(20))
    display = CommandOutput("x", report, 2, 0.1, "exit code 2, 100 ms")
    ran = [ToolStarted("c1", "Bash"), ToolProgress("c1", report), ToolFinished("c1", "Bash", False, 1, display)]
    rows = shown(ran, width=60)
    assert [row[4:] for row in rows[1:3]] == [
        f"{'=' * 24} ERRORS {'=' * 24}",
        f"{'_' * 11} ERROR collecting tests/test_a.py {'_' * 11}",
    ]
    assert all(row.startswith("    ") for row in rows[2:]) and len(rows) == 8
    assert fit_rules(f"{'.' * 17:<73}[100%]", 40) == f"{'.' * 17:<34}[100%]"
    assert fit_rules(f"{'':20}deep {'x' * 30}", 40) == f"{'':20}deep {'x' * 30}"
    assert fit_rules("=" * 30 + " a name that is longer than the window " + "=" * 30, 20).count("=") == 6


def test_blank_lines_take_no_room_from_the_end_of_a_failed_command() -> None:
    report = "\n\n".join(f"line {n}" for n in range(30)) + "\n\n\n"
    failed = CommandOutput("x", report, 1, 0.1, "exit code 1, 100 ms")
    rows = shown([ToolStarted("c1", "Bash"), ToolProgress("c1", report), ToolFinished("c1", "Bash", False, 1, failed)])
    assert [row.strip(" └") for row in rows[1:]] == [
        "line 0", "line 1", "… 24 more lines (Ctrl-O)", *(f"line {n}" for n in range(26, 30))
    ]  # fmt: skip


def test_a_note_of_several_lines_continues_the_block_of_the_output() -> None:
    note = Note("running in background as b1 (/jobs)\nPort 8123: closed to your browser")
    events = [ToolStarted("c1", "Bash"), ToolProgress("c1", "Serving\n"), ToolFinished("c1", "Bash", False, 1, note)]
    assert shown(events)[-3:] == [
        "  └ Serving", "    running in background as b1 (/jobs)", "    Port 8123: closed to your browser",
    ]  # fmt: skip


def test_a_plan_stands_once_and_each_step_when_it_is_done() -> None:
    tests, docs = TodoItem("tests", "in_progress", "testing"), TodoItem("docs")
    first, then = (tests, docs), (tests.replace(status="completed"), docs.replace(status="in_progress"))
    events = [
        ToolRequested("c1", "TodoWrite", {}, "Plan: 0 of 2 done"),
        ToolStarted("c1", "TodoWrite"),
        ToolFinished("c1", "TodoWrite", False, 1, TodoView(first)),
        PlanChanged(first),
        PlanChanged(first),
        PlanChanged(then),
        TurnFinished("Complete", Diagnostics(1, 1, 0, 0, "stop", "completed"), Usage()),
    ]
    assert shown(events, plan=then) == [
        "≡ Plan of 2 steps", "    ▸ testing", "    ☐ docs", "", "☑ tests · 1 of 2", "", "✓ 0s",
    ]  # fmt: skip
    paused = [PlanChanged(then, paused=True)] * 2
    assert " ".join(shown(paused, plan=then)).split() == (
        "an earlier plan is paused, 1 of 2 done (/todos shows it)".split()
    )


def test_the_tokens_and_the_plan_of_a_turn_are_not_those_of_the_command_after_it() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, soft_wrap=True), kept)
    transcript(PlanChanged((TodoItem("tests", "completed"),)))
    assert transcript.plan_touched
    transcript(TextDelta("some words"))
    transcript(UsageAdded("m", Usage(1_000, 5)))
    assert (transcript.view.turn_usage.input, transcript.received) == (1_000, 5)
    transcript(TurnFinished("Complete", Diagnostics(1, 1, 0, 0, "stop", "completed"), Usage(1_000, 5)))
    assert (transcript.view.turn_usage.input, transcript.received) == (0, 0)
    assert not transcript.plan_touched


def test_a_retry_is_one_line_of_the_status_and_no_warning_each_time() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, soft_wrap=True), kept)
    for number in range(1, 4):
        transcript(Warned(f"Could not connect to api.x: refused; trying again in 0.9 s ({number} of 5)", 30.0))
    status = r"trying again in \d+ s, at \d\d:\d\d:\d\d \(3 of 5\): Could not connect to api.x: refused"
    assert re.fullmatch(status, transcript.status())
    assert "Could not connect" not in kept.getvalue()
    transcript(Warned("The disk is full."))
    assert "The disk is full." in kept.getvalue()


def test_waiting_for_the_first_token_is_not_called_thinking() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, soft_wrap=True), kept)
    seen = []
    for event in (RoundStarted(1), FirstChunk(900), ThinkingDelta("Well."), TextDelta("Done.")):
        transcript(event)
        seen.append(transcript.status())
    assert seen == ["waiting for the model", "reading the answer", "thinking", "writing"]


def test_messages_that_follow_each_other_do_not_count_the_seconds_together() -> None:
    def story(stage: Stage) -> None:
        stage.press("one\r")
        stage.press("two\r")
        stage.until(lambda: stage.session.sent == ["one"] and stage.live.queued == ["two"])
        first = stage.live.marker._timer
        stage.session.finish()
        stage.until(lambda: stage.session.sent == ["one", "two"])
        stage.settle()
        assert first is not None and first.cancelled()

    play(story)


def test_up_in_a_reply_leaves_the_queue_alone() -> None:
    def story(stage: Stage) -> None:
        asking(stage, question_dialog({"question": "Why?", "options": [{"label": "so"}]}))
        stage.press("for later\r")
        stage.until(lambda: stage.live.queued == ["for later"])
        later(stage)
        stage.answer("r")
        stage.until(lambda: stage.live.line.replying)
        stage.press("\x1b[A")
        stage.settle()
        assert stage.live.queued == ["for later"] == stage.session.inbox

    play(story)


def test_a_choice_says_where_nothing_fits_what_was_typed() -> None:
    def story(stage: Stage) -> None:
        found = asking(stage, pick_dialog("Which one?", [("first", ""), ("second", "")]))
        stage.press("xyz")
        stage.until(lambda: "no match" in stage.screen.drawn)
        stage.press("\r\x15sec\r")
        stage.until(lambda: found == [1])

    play(story)


def test_a_choice_in_a_tiny_window_still_tells_its_keys() -> None:
    def story(stage: Stage) -> None:
        asking(stage, pick_dialog("Which one?", [("first", "")]))
        stage.until(lambda: "Which one?" in stage.screen.drawn and "Enter · Esc" in stage.screen.drawn)

    play(story, columns=25, rows=5)


def test_a_paste_leaves_out_what_no_path_can_have() -> None:
    def story(stage: Stage) -> None:
        stage.press("\x1b[200~a\0b\x1b[201~")
        stage.has("ab")

    play(story)


def patched(*lines: str) -> Diff:
    come, gone = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return Diff("a.py", "".join(f"{line}\n" for line in ("@@ -1 +1 @@", *lines)), come, gone)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ([patched("-a", "+b")], (1, 1)),
        ([patched("+one", "+two"), patched("-two", "+2", " x")], (2, 0)),
        ([patched("-a"), patched("+a")], (0, 0)),
        ([patched("-a", "+a")], (1, 1)),
        ([patched("-a"), patched("-a"), patched("+a", "+b")], (1, 1)),
        ([Diff("a.py", "cut", 5, 3), patched("+x")], (6, 3)),
    ],
)
def test_lines_that_came_and_went_are_not_counted(changes: list[Diff], counts: tuple[int, int]) -> None:
    lines = ChangedLines()
    for change in changes:
        lines.add(change)
    assert lines.counts == counts


def test_enter_in_the_empty_line_ends_the_wait_for_an_overloaded_provider_and_no_key_is_lost() -> None:
    def story(stage: Stage) -> None:
        def call_model(text: str) -> None:
            stage.live.bridge.emit(Warned("Busy; trying again in 600 s (3)", 600.0))
            stage.session.token.pause(600.0)
            stage.session.finish()

        stage.session.job = call_model
        stage.press("go\r")
        stage.until(lambda: "enter to try now, esc to interrupt" in stage.screen.drawn)
        stage.press("and")
        stage.has("and")
        stage.press(" more\r")
        stage.until(lambda: stage.live.queued == ["and more"])
        assert stage.live.busy and stage.session.sent == ["go"]
        stage.session.job = lambda text: None
        stage.press("\r")
        stage.until(lambda: stage.session.sent == ["go", "and more"])

    play(story, columns=120)


@pytest.mark.parametrize("width", [39, 60, 120])
def test_the_keys_for_a_retry_are_named_in_every_width(width: int) -> None:
    line = status_line("trying again in 3 s: Acme is overloaded", 25, 9_800, 51, width, waits=True)
    text = "".join(fragment[1] for fragment in line)
    assert "enter" in text and "esc" in text and cells(text) <= width
