"""The grammar of the transcript: what takes a row, where blank rows stand, and what is bold."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    MessageAdded,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
)
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_tools.results import CommandOutput, Diff, Display, FileView, Listing
from tests.support.pty_session import plain

PATCH = "@@ -1,2 +1,2 @@\n one\n-two\n+three"
DIFF = Diff("a.py", PATCH, 1, 1)
END = TurnFinished("Complete", Diagnostics(1, 1, 0, 0, "stop", "completed"), Usage())


class Turn:
    """Events of a turn, and the rows that they become."""

    def __init__(self, width: int = 80) -> None:
        self._kept = io.StringIO()
        console = Console(file=self._kept, width=width, soft_wrap=True, force_terminal=True, color_system="standard")
        self.transcript = Transcript(console, self._kept)
        self._count = 0

    def play(self, *events: Event | Iterator[Event]) -> list[str]:
        for event in events:
            for each in [event] if not isinstance(event, Iterator) else event:
                self.transcript(each)
        return [plain(row) for row in self.styled()]

    def styled(self) -> list[str]:
        return self.transcript.writer.take()

    def call(self, tool: str, summary: str, display: Display | None, error: str = "", **more: Any) -> Iterator[Event]:
        self._count += 1
        key = f"c{self._count}"
        yield ToolRequested(key, tool, {}, summary)
        if more.get("allowed"):
            yield ApprovalRequested(key, tool, summary, "changes a file", (), "/w", preview=DIFF)
            yield ApprovalResolved(key, "approve", "person", change=more.get("change", ""))
        yield ToolStarted(key, tool)
        if isinstance(display, CommandOutput):
            yield ToolProgress(key, display.output)
        if error:
            yield MessageAdded(ToolMessage(key, tool, error, is_error=True))
        yield ToolFinished(key, tool, bool(error), 1, display)

    def read(self, name: str = "a.py") -> Iterator[Event]:
        return self.call("Read", f"Read {name}", FileView(name, 1, 5, 5))

    def edit(self, **more: Any) -> Iterator[Event]:
        return self.call("Edit", "Edit a.py (+1 -1)", DIFF, allowed=True, **more)

    def command(self, output: str, code: int = 0) -> Iterator[Event]:
        return self.call("Bash", "Run: make", CommandOutput("make", output, code, 0.1, f"exit code {code}, 100 ms"))


def lines(count: int) -> str:
    return "".join(f"line {n}\n" for n in range(count))


@pytest.mark.parametrize("mixed", [False, True])
def test_a_turn_of_forty_reads_six_edits_and_three_commands_has_at_most_25_rows(mixed: bool) -> None:
    turn = Turn()
    rows = []
    for number in range(40):
        rows += turn.play(turn.read(f"m{number}.py"))
        if mixed and number % 14 == 13:
            rows += turn.play(turn.edit(), turn.edit())
    for _ in range(2 if mixed else 6):
        rows += turn.play(turn.edit())
    for _ in range(3):
        rows += turn.play(turn.command(lines(30)))
    rows += turn.play(TextDelta("The answer.\n\n"))
    assert rows.index("  The answer.") <= 25, "\n".join(rows)


def test_calls_that_look_around_become_one_row_that_counts_them() -> None:
    turn = Turn()
    found = Listing("x", ("a", "b"))
    rows = turn.play(
        turn.read(), turn.read("b.py"), ThinkingDelta("And where is it used?"),
        turn.call("Grep", "Search 'x' in .", found), turn.call("LS", "List .", found),
        turn.call("Read", "Read c.py", None, "c.py does not exist."),
    )  # fmt: skip
    assert rows == []
    (live,) = (plain(row) for row in turn.transcript.writer.running("*"))
    assert live.startswith("* Read 3 files, searched 1 time, listed 1 folder, 1 failed · a.py, b.")
    assert turn.play(turn.command("")) == [
        "● Read 3 files, searched 1 time, listed 1 folder, 1 failed · a.py, b.… (Ctrl-O)",
        "● Run: make · 0.1s",
    ]
    assert turn.play(turn.read("only.py"), TextDelta("So.\n\n")) == ["● Read only.py · 5 lines", "", "  So."]
    view = turn.transcript.details.view()
    assert view is not None and [item.label for item in view.items if item.label.startswith(("Read", "List"))] == [
        "Read a.py", "Read b.py", "List .", "Read c.py", "Read only.py",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [20, 30, 40, 79, 100, 101, 102])
def test_no_row_of_a_call_is_wider_than_the_window(width: int) -> None:
    turn = Turn(width)
    summaries = [f"Run: make {'x' * length}" for length in range(width - 20, width + 3, 3)]
    rows = turn.play(*(turn.call("Bash", summary, None) for summary in summaries if len(summary) > 10))
    rows += turn.play(*(turn.call("Bash", summary, None, "It failed, " * 20) for summary in summaries))
    rows += turn.play(
        *(turn.read(f"file-{n}.py") for n in range(9)), *(turn.call("LS", "List .", None) for _ in "ab"), END
    )
    assert rows and max(map(len, rows)) <= width


def test_a_mistake_of_the_model_is_one_muted_row() -> None:
    turn = Turn()
    turn.play(turn.call("Reed", "Reed", None, "There is no tool named 'Reed'. The tools are: " + "Read, Write, " * 30))
    turn.play(turn.call("Bash", "Run: make", None, "The command is empty.\nWrite one."), END)
    turn = Turn()
    for event in turn.call("Bash", "Run: make", None, "The command is empty.\nWrite one."):
        turn.transcript(event)
    (row,) = turn.styled()
    assert plain(row) == "✗ Run: make · The command is empty." and re.findall(r"\x1b\[([\d;]+)m", row) == ["2", "0"]


@pytest.mark.parametrize(
    ("count", "code", "shown"), [(3, 0, 3), (4, 0, 4), (5, 0, 3), (90, 0, 3), (8, 1, 8), (90, 1, 7)]
)
def test_an_output_is_short_or_whole(count: int, code: int, shown: int) -> None:
    turn = Turn()
    (_, *rows) = turn.play(turn.command(lines(count), code))
    assert len(rows) == shown and any("more line" in row for row in rows) == (count > shown)


def test_a_change_that_was_allowed_is_one_row_and_one_that_was_not_asked_about_is_shown() -> None:
    turn = Turn()
    part = "[The user took 1 of the 3 parts of this change. These were not made, and are not wanted:\n...]"
    assert turn.play(turn.edit(), turn.edit(change=part)) == [
        "● Edit a.py +1 -1",
        "● Edit a.py +1 -1 · only 1 of 3 parts",
    ]
    assert turn.play(turn.call("Edit", "Edit a.py (+1 -1)", DIFF)) == [
        "● Edit a.py +1 -1", "    1  one", "    2 -two", "    2 +three",
    ]  # fmt: skip


def test_blocks_have_one_blank_row_between_them_and_only_verbs_and_headings_are_bold() -> None:
    turn = Turn()
    for event in (
        TextDelta("# Title\n\nSome *words* and `code`.\n\n"), *turn.command(lines(3)), *turn.edit(), *turn.command(""),
        TextDelta("The end.\n\n"), END,
    ):  # fmt: skip
        turn.transcript(event)
    rows = turn.styled()
    assert [plain(row) for row in rows] == [
        "  Title", "", "  Some words and code.", "", "● Run: make · 0.1s", "  └ line 0", "    line 1", "    line 2", "",
        "● Edit a.py +1 -1", "● Run: make · 0.1s", "", "  The end.", "", "✓ 0s",
    ]  # fmt: skip
    bold = [text for row in rows for text in re.findall(r"\x1b\[(?:[\d;]*;)?1(?:;[\d;]*)?m([^\x1b]*)", row)]
    assert bold == ["Title", "Run:", "Edit", "Run:"]
