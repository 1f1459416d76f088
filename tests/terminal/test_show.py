"""What a turn looks like in the line front end: on a terminal, without colours, and where there is only text."""

from __future__ import annotations

import io
import re
from typing import Literal

import pytest
from rich.console import Console

from agent_cli.kernel.events import (
    Compacted,
    Event,
    HookFinished,
    HookStarted,
    MessageAdded,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
)
from agent_cli.kernel.messages import CONTINUE_CUT, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Failure, Usage
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_tools.results import CommandOutput, Diff, Display, FileView, Listing, Note, TodoItem, TodoView

Mode = Literal["color", "mono", "plain"]


class Screen:
    """A Show on a console that keeps what is written."""

    def __init__(self, mode: Mode = "color", *, verbose: bool = False) -> None:
        self.file = io.StringIO()
        console = Console(
            file=self.file, width=80, force_terminal=mode != "plain", no_color=mode != "color", soft_wrap=True,
            color_system=None if mode == "plain" else "standard", highlight=False,
        )  # fmt: skip
        self.show = EventRenderer(console, verbose=verbose)

    def see(self, *events: Event) -> list[str]:
        """The lines on the screen after these events too, without colours; the last one may be open."""
        for event in events:
            self.show(event)
        return re.sub(r"\x1b\[[0-9;]*m", "", self.file.getvalue()).splitlines()


def called(display: Display | None, *, call: str = "c", error: str = "") -> list[Event]:
    found: list[Event] = [ToolRequested(call, "T", {}, f"Do {call}"), ToolStarted(call, "T")]
    if error:
        found.append(MessageAdded(ToolMessage(call, "T", error, is_error=True)))
    return [*found, ToolFinished(call, "T", bool(error), 3, display)]


@pytest.mark.parametrize(
    ("mode", "line"),
    [("color", "● Do c · 3 of 9 lines"), ("mono", "● Do c · 3 of 9 lines"), ("plain", "tool: Do c: 3 of 9 lines")],
)
def test_a_call_is_one_line_with_its_result(mode: Mode, line: str) -> None:
    assert Screen(mode).see(*called(FileView("a", 1, 3, 9))) == [line]


@pytest.mark.parametrize(
    ("mode", "line"), [("color", "● Do c · no such file"), ("plain", "tool: Do c: failed: no such file")]
)
def test_a_failure_is_reported_in_words_where_there_are_no_colours(mode: Mode, line: str) -> None:
    assert Screen(mode).see(*called(None, error="no such file\nmore")) == [line]


@pytest.mark.parametrize(
    ("error", "brief"),
    [
        (
            "Not found. The most similar place is line 2. Differences:\n  line 2",
            "Not found. The most similar place is line 2.",
        ),
        ("These are missing:\n  a", "These are missing"),
        ("3 times in v1.2. Lines are:\n  1", "3 times in v1.2."),
    ],
)
def test_the_line_of_a_failure_does_not_announce_what_is_below_it(error: str, brief: str) -> None:
    assert Screen().see(*called(None, error=error)) == [f"● Do c · {brief}"]


def test_a_call_that_could_not_begin_is_named() -> None:
    asked, _, *failed = called(None, error="c was not read")
    assert Screen().see(asked, *failed) == ["● Do c · c was not read"]
    assert Screen().see(asked, called(Note("for /review"))[-1]) == ["● Do c · for /review"]


def test_the_words_about_a_plan_are_not_shown_a_second_time() -> None:
    asked, _, *failed = called(None, error="The user wants the plan changed. They said: shorter")
    answered = QuestionAnswered("c", "revise", "shorter")
    assert Screen().see(asked, QuestionAsked("c", "plan", {}), answered, *failed) == []


def test_results_of_calls_side_by_side_find_their_lines() -> None:
    first, second = called(Listing("x", ("a",), 1), call="a"), called(Note("well"), call="b")
    assert Screen().see(*first[:2], *second[:2], first[2], second[2]) == ["● Do a", "● Do b", "  2 found", "  well"]


def test_output_stands_below_the_call_and_its_ending_below_that() -> None:
    start, begun, end = called(CommandOutput("x", "", 1, 0.25))
    lines = Screen().see(start, begun, ToolProgress("c", "one\ntw"), ToolProgress("c", "o\nthree"), end)
    assert lines == ["● Do c", "  one", "  two", "  three", "  exit code 1, 0.2s"]
    assert Screen().see(*called(CommandOutput("x", "", 0, 0.25))) == ["● Do c · 0.2s"]


def test_an_answer_is_written_block_by_block_on_a_terminal() -> None:
    screen = Screen()
    assert screen.see(TextDelta("# He")) == []
    assert screen.see(TextDelta("ad\nSome **wor")) == ["Head"]
    assert screen.see(TextDelta("ds**\n\nMore")) == ["Head", "", "Some words"]
    assert screen.see(*called(None))[3:] == ["", "More", "● Do c"]


def test_an_answer_is_written_as_it_comes_where_there_is_only_text() -> None:
    screen = Screen("plain")
    assert screen.see(TextDelta("# He")) == ["# He"]
    assert screen.see(TextDelta("ad\r"), TextDelta("\nSome **wor")) == ["# Head", "Some **wor"]
    assert screen.see(*called(None)) == ["# Head", "Some **wor", "tool: Do c"]


def test_thoughts_are_one_dim_line_or_all_of_them() -> None:
    thoughts = (ThinkingDelta("First this.\nThen "), ThinkingDelta("that.\n"), TextDelta("Done.\n\n"))
    assert Screen().see(*thoughts) == ["  thinking: Then that.", "Done."]
    long = Screen().see(*[ThinkingDelta("considering everything again ")] * 200, TextDelta("Done."))
    assert re.match(r"  thinking: …(considering|everything|again) ", long[0])
    assert Screen(verbose=True).see(*thoughts) == ["  First this.", "  Then that.", "Done."]


@pytest.mark.parametrize(("mode", "done", "now"), [("color", "☑", "▸"), ("plain", "done:", "now:")])
def test_the_plan_is_a_checklist(mode: Mode, done: str, now: str) -> None:
    plan = TodoView((TodoItem("a", "completed"), TodoItem("b", "in_progress", "doing b")))
    assert Screen(mode).see(*called(plan))[1:] == [f"  {done} a", f"  {now} doing b"]


def test_a_hook_is_reported_where_its_answer_is_not_reported_otherwise() -> None:
    started = HookStarted("h", "Stop", "Stop", "./check")
    ran = HookFinished("Stop", "./check", 0, 1200, "h", "Stop")
    refused = ran.replace(event="PreToolUse", name="PreToolUse:Bash", outcome="blocked", note="no")
    more = ran.replace(outcome="blocked", exit_code=2, note="write tests\x1b[31m")
    failed = ran.replace(outcome="error", exit_code=1, note="exited with 1: oh")
    assert Screen().see(started, ran, refused) == []
    assert Screen().see(more, failed) == [
        "  hook Stop `./check`: refused, 1.2s: write tests\\x1b[31m",
        "  hook Stop `./check`: failed, 1.2s: exited with 1: oh",
    ]
    after = more.replace(event="PostToolUse", name="PostToolUse:Edit", note="reformatted")
    assert Screen().see(after) == ["  hook PostToolUse:Edit `./check`: told the model, 1.2s: reformatted"]
    assert Screen(verbose=True).see(ran) == ["  hook Stop `./check`: ok, 1.2s"]
    assert Screen().see(SubagentEvent("explore", "c", failed)) == [
        "  [explore] hook Stop `./check`: failed, 1.2s: exited with 1: oh"
    ]


def test_what_a_hook_says_about_a_call_is_below_it() -> None:
    said = HookFinished("PostToolUse", "./fmt", 2, 100, "h", "PostToolUse:Edit", outcome="blocked", note="reformatted")
    *begun, done = called(Diff("a.py", "@@ -1 +1 @@\n-x\n+y", 1, 1))
    rows = Screen().see(*begun, said, done)
    assert rows[-1] == "  hook PostToolUse:Edit `./fmt`: told the model, 0.1s: reformatted"
    assert sum("hook" in row for row in rows) == 1 and len(rows) > 1
    assert Screen().see(*begun, said, said.replace(event="Stop", name="Stop"))[-1].startswith("  hook Stop")


def test_problems_that_a_change_brought_are_shown_with_it_and_late_ones_when_the_model_reads_them() -> None:
    screen = Screen()
    begun, done = (
        called(Diff("a.py", "@@ -1 +1 @@\n-x\n+y", 1, 1))[:2],
        called(Diff("a.py", "@@ -1 +1 @@\n-x\n+y", 1, 1))[2:],
    )
    lines = screen.see(*begun, ToolProgress("c", "a.py:1: y is not defined (ruff F821)\n"), *done)
    assert "  a.py:1: y is not defined (ruff F821)" in lines and any("+y" in line for line in lines)
    late = "[diagnostics: 1 new problem in b.py since your last edit:]\nb.py:2: z is unused (ruff F401)"
    lines = screen.see(MessageAdded(UserMessage(late)))
    assert lines[-2:] == [f"  {line}" for line in late.split("\n")]


def test_what_to_do_about_a_compaction_is_said_once() -> None:
    screen = Screen()
    for _ in range(2):
        lines = screen.see(Compacted("auto", 2, 1, tokens_before=1_000, tokens_after=100))
    assert sum("/uncompact undoes it" in line for line in lines) == 1


def test_a_model_that_fails_after_calls_is_one_line_with_what_to_do() -> None:
    failure = Failure("overloaded", "Acme is overloaded.")
    text = "The model failed: Acme is overloaded.\n\nBefore that:\n- Edit a.py (done)"
    ended = TurnFinished(
        "Complete", Diagnostics(1, 1, 0, 0, "stop", "inference_error"), Usage(), text, degraded=True, failure=failure
    )
    lines = Screen().see(*called(None), ended)
    at = lines.index("The model failed: Acme is overloaded.")
    assert "Wait a moment" in lines[at + 1] and not any("Before that" in line for line in lines)
    assert "write continue" in " ".join(lines[at + 1 :])


@pytest.mark.parametrize("mode", ["plain", "color"])
def test_answers_to_reminders_are_apart(mode: Mode) -> None:
    answers = [TextDelta("done"), MessageAdded(UserMessage("<reminder>\nNot yet.\n</reminder>")), TextDelta("END")]
    seen = Screen(mode).see(*answers, MessageAdded(UserMessage("<reminder>\nStill.\n</reminder>")), TextDelta("END"))
    # The last one may be open.
    assert [line.strip(" ●") for line in seen if line.strip()][:2] == ["done", "END"]


def test_the_rest_of_an_answer_that_was_cut_belongs_to_it() -> None:
    seen = Screen("plain").see(TextDelta("half a wo"), MessageAdded(UserMessage(CONTINUE_CUT)), TextDelta("rd"))
    assert "".join(seen).endswith("half a word")
