"""No text that this program did not write steers the terminal or hides what it is, wherever it is shown."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from agent_cli.kernel.decisions import Reject
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    MessageAdded,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    Warned,
)
from agent_cli.kernel.messages import ToolMessage
from agent_cli.shells.terminal.dialogs.approval import ask_approval
from agent_cli.shells.terminal.dialogs.lines import LineDialogs, dialog_lines
from agent_cli.shells.terminal.dialogs.questions import plan_dialog
from agent_cli.shells.terminal.render.ansi import to_ansi
from agent_cli.shells.terminal.render.code import display_lines
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_cli.shells.terminal.render.markdown import MarkdownStream
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.results import CommandOutput, Diff, Diffs, Display, FileView, Listing, Note, TodoItem, TodoView
from agent_tools.text import UNSAFE, escape_controls, one_line
from tests.support.hostile.text import HOSTILE
from tests.support.hypothesis_examples import examples
from tests.support.terminal_stage import asked_plan

# What this program writes: bold, dim, italic, underlined, struck out, and sixteen colours.
OURS = re.compile(
    r"\x1b\[(?:0|[12349]|3[0-79]|9[0-7]|4[12]|10[0-2])(?:;(?:[12349]|3[0-79]|9[0-7]|4[12]|10[0-2]))*m|\x1b\[K"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31m", r"a\x1b[31m"),
        ("\x9b\x7f", r"\x9b\x7f"),
        ("\u202e\u034f", r"\u202e\u034f"),
        ("\U000e0041\U0001d173\U0001bca0", r"\U000e0041\U0001d173\U0001bca0"),
    ],
)
def test_what_is_not_shown_is_spelled_out(text: str, shown: str) -> None:
    assert escape_controls(text) == one_line(text) == shown


def assert_harmless(shown: str) -> None:
    found = re.search(UNSAFE, OURS.sub("", shown))
    assert found is None, ascii(shown)


def console() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=60, force_terminal=True, color_system="standard", soft_wrap=True), file


@settings(max_examples=examples(100), deadline=None)
@given(HOSTILE, st.integers(1, 7), st.booleans())
def test_answers_and_what_is_unfinished_of_them(text: str, size: int, color: bool) -> None:
    stream = MarkdownStream(40, color=color)
    for start in range(0, len(text), size):
        lines = [*stream.feed(text[start : start + size]), *stream.tail()]
        assert_harmless("\n".join(lines))
        assert not any("\n" in line for line in lines)
    assert_harmless("\n".join(stream.finish()))


@settings(max_examples=examples(100), deadline=None)
@given(HOSTILE)
def test_a_line_of_any_text(text: str) -> None:
    assert_harmless(to_ansi(Text(text, "bold red link http://x/")))
    assert "\n" not in to_ansi(Text(text))


def displays(text: str) -> list[Display]:
    diff = Diff(text, f"@@ -1,2 +1,2 @@\n-{text}\n+{text}x\n {text}", 1, 1)
    return [
        diff, diff.replace(path=f"{text}.py", patch=text), Diffs((diff, diff)), Listing(text, (text,), 3),
        FileView(text, 1, 2, 3), CommandOutput(text, text, 1, 0.5, text), Note(text), Note(text * 30),
        TodoView((TodoItem(text), TodoItem("x", "in_progress", text))),
    ]  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(HOSTILE)
def test_every_view(text: str) -> None:
    for display in displays(text):
        target, file = console()
        for line in [*display_lines(display, whole=True), *display_lines(display), *display_lines(display, words=True)]:
            target.print(line)
            assert_harmless(to_ansi(line))
        assert_harmless(file.getvalue())


@settings(max_examples=examples(100), deadline=None)
@given(HOSTILE, st.booleans())
def test_a_whole_turn(text: str, terminal: bool) -> None:
    target, file = console()
    if not terminal:
        target = Console(file=file, width=60, force_terminal=False, soft_wrap=True)
    for verbose in (False, True):
        show = EventRenderer(target, verbose=verbose)
        request = ApprovalRequested("c", text, text, text, (), text, Note(text), text, "hash", (text,), text)
        events: list[Event] = [
            ThinkingDelta(text), TextDelta(text), TextDelta(text), ToolRequested("c", text, {}, text),
            ToolStarted("c", text), ToolProgress("c", text), MessageAdded(ToolMessage("c", text, text, is_error=True)),
            ToolFinished("c", text, True, 1, None), Warned(text), SubagentEvent(text, "c", Warned(text)), request,
            ApprovalResolved("c", "reject", "rule", text),
        ]  # fmt: skip
        for display in displays(text):
            events += [
                ToolRequested("d", text, {}, text),
                ToolStarted("d", text),
                ToolFinished("d", "T", False, 1, display),
            ]
        for event in events:
            show(event)
    assert_harmless(file.getvalue())


@settings(max_examples=examples(100), deadline=None)
@given(HOSTILE)
def test_the_question_before_a_call(text: str) -> None:
    target, file = console()
    effects = tuple(Effect(kind, text) for kind in ("run", "write", "read", "fetch", "call"))  # type: ignore[arg-type]
    for display in displays(text):
        request = ApprovalRequested("c", text, text, text, effects, text, display, text, "hash", (text,), text, True)
        assert isinstance(
            ask_approval(request, LineDialogs(target, lambda prompt: "n").put, Workspace(Path("/"))), Reject
        )
    for line in dialog_lines(plan_dialog(asked_plan({"plan": text, "commands": [text]})), target):
        target.print(line)
    assert_harmless(file.getvalue())
