"""The parts of the application by themselves: the queue between threads, completion, history, pastes, rows."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.core.amounts import short_count, short_duration
from agent_cli.core.events import TextDelta, ToolProgress, Warned
from agent_cli.terminal.app.attachments import Pictures
from agent_cli.terminal.app.input_line import MOST_REMEMBERED, Pastes, ProjectHistory, complete, fuzzy_matches
from agent_cli.terminal.app.layout import (
    queue_lines,
    status_line,
    todo_lines,
    toolbar,
)
from agent_cli.terminal.app.output import reflows
from agent_cli.terminal.app.status_bar import StatusLine, branch_of
from agent_cli.terminal.app.worker import LIMIT, EventQueue
from agent_cli.terminal.render.ansi import cells, clip, fragments, wrapped
from agent_tools.display import TodoItem
from tests.support.hypothesis_examples import examples

COMMANDS = [("help", "this list"), ("mode", "the mode"), ("model", "the model")]


def test_pieces_of_the_same_text_are_joined_and_one_call_wakes_for_many() -> None:
    woken: list[int] = []
    bridge = EventQueue(lambda: woken.append(1))
    for item in (TextDelta("a"), TextDelta("b"), Warned("w"), ToolProgress("1", "x"), ToolProgress("1", "y")):
        bridge.emit(item)
    assert [bridge.take() for _ in range(4)] == [TextDelta("ab"), Warned("w"), ToolProgress("1", "xy"), None]
    assert len(woken) == 1


def test_a_flood_waits_until_it_is_taken_and_nobody_waits_after_the_end() -> None:
    bridge = EventQueue(lambda: None)
    sent: list[int] = []

    def flood() -> None:
        for number in range(8):
            bridge.emit(Warned("x" * (LIMIT // 4)))
            sent.append(number)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive() and len(sent) <= 4
    bridge.take()
    bridge.close()
    thread.join(5)
    assert len(sent) == 8


def test_commands_and_files_complete_best_first() -> None:
    def names(before: str) -> list[str]:
        return [choice.text for choice in complete(before, COMMANDS, lambda: ("src/app.py", "docs/map.md", "README"))]

    assert names("/mo") == ["/mode ", "/model "]
    assert names("/") == ["/help ", "/mode ", "/model "]
    assert names("say /mo") == []
    assert names("see @ap") == ["@src/app.py ", "@docs/map.md "]
    assert names("see @sapy") == ["@src/app.py "]
    assert names("mail me@ap") == []
    assert names("@src/app.py more") == []


def test_of_two_files_that_fit_the_name_counts_before_the_path() -> None:
    found = fuzzy_matches("test", ["a/t/e/s/t.py", "tests/x.py", "a/test_b.py", "b/my_test.py"])
    assert found == ["a/test_b.py", "b/my_test.py", "tests/x.py", "a/t/e/s/t.py"]


def test_history_keeps_each_message_once_and_survives_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "input.history"
    kept = ProjectHistory(path)
    for text in ("one", "two\nlines", "one", "one"):
        kept.add(text)
    with path.open("ab") as file:
        file.write(b"\xff broken\n{}\n")
    assert list(ProjectHistory(path).load_history_strings()) == ["one", "two\nlines"]
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("".join(f'"{n}"\n' for n in range(5 * MOST_REMEMBERED)))
    assert list(ProjectHistory(path).load_history_strings())[:2] == [
        str(5 * MOST_REMEMBERED - 1),
        str(5 * MOST_REMEMBERED - 2),
    ]
    assert len(path.read_text().splitlines()) == MOST_REMEMBERED
    assert list(ProjectHistory(tmp_path).load_history_strings()) == []
    ProjectHistory(tmp_path).add("a folder is no file")


def test_a_history_file_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine\n")
    (tmp_path / "input.history").symlink_to(tmp_path / "other")
    ProjectHistory(tmp_path / "input.history").add("one")
    assert (tmp_path / "other").read_text() == "mine\n"


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=2000), st.text(max_size=20))
def test_a_folded_paste_is_unfolded_to_itself(text: str, around: str) -> None:
    pastes = Pastes()
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    assert pastes.unfold(pastes.fold(text)) == plain
    long = pastes.fold("x\n" * 10)
    assert long.startswith("[Pasted #") and pastes.unfold(long) == "x\n" * 10


@settings(max_examples=examples(100), deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), max_size=80), st.integers(2, 40))
def test_rows_are_never_wider_than_asked_and_lose_nothing(text: str, width: int) -> None:
    assert cells(clip(text, width)) <= width
    assert "".join(wrapped(text, width)) == text
    assert sum(cells(part) for _, part in fragments(f"\x1b[1;38;5;200m{text}\x1b[0m tail", width)) <= width


def test_sgr_becomes_styles_and_other_sequences_vanish() -> None:
    line = "\x1b[1mb\x1b[22;31mr\x1b[38;2;1;2;3mt\x1b[0m\x1b]8;;http://x\x1b\\n\x1b[2K"
    assert fragments(line, 80) == (("bold", "b"), ("fg:ansired", "r"), ("fg:#010203", "t"), ("", "n"))


def test_panels_show_the_step_under_way_and_what_is_queued_last() -> None:
    items = [TodoItem(f"step {n}", "completed" if n < 5 else "in_progress" if n == 5 else "pending") for n in range(12)]
    rows = ["".join(text for _, text in row) for row in todo_lines(items, 40)]
    assert len(rows) == 6
    assert any("▸ step 5" in row for row in rows) and rows[-1].strip() == "5 of 12 done"
    queued = ["".join(text for _, text in row) for row in queue_lines(list("abcdef"), 40)]
    assert queued == ["  3 more are queued", "  queued: d", "  queued: e", "  queued: f"]
    assert todo_lines([], 40) == queue_lines([], 40) == []
    ((_, text),) = todo_lines(items, 80, paused=True)[0]
    assert text == "  earlier plan, paused: 5 of 12 done (/todos shows it)"


def test_numbers_are_short_and_the_bar_gives_up_its_right_end_first() -> None:
    assert [short_count(n) for n in (999, 1_234, 34_500, 999_600, 1_500_000)] == ["999", "1.2k", "34k", "1.0M", "1.5M"]
    assert [short_duration(s) for s in (7, 0.44, 7.94, 59.6, 187, 3720)] == [
        "7s",
        "0.4s",
        "7.9s",
        "1m 00s",
        "3m 07s",
        "1h 02m",
    ]
    fields = ["model", ("class:danger", "bypassPermissions"), "context 3%"]
    assert toolbar(fields, 32) == (
        ("class:dim", "model"), ("class:dim", " · "), ("class:danger", "bypassPermissions"),
    )  # fmt: skip
    assert toolbar(["provider/model-name", "default"], 12) == (("class:dim", "provider/m…"),)
    assert (
        "".join(t for _, t in status_line("Run: x\ny", 3, 10, 20, 60))
        == "* Run: x\\ny (3s · ↑ 10 ↓ 20 · esc to interrupt)"
    )


def test_terminals_that_wrap_old_lines_anew_are_known_and_in_doubt_it_is_none() -> None:
    assert reflows({"TMUX": "/tmp/x", "TERM": "screen-256color"}) and reflows({"TERM_PROGRAM": "iTerm.app"})
    assert not reflows({"TERM": "xterm-256color"}) and not reflows({"TMUX": "x", "XTERM_VERSION": "XTerm(390)"})


def test_a_status_line_of_ones_own_follows_the_width_of_the_window(tmp_path: Path) -> None:
    came = threading.Event()
    line = StatusLine("echo wide $COLUMNS", dict(os.environ), str(tmp_path), came.set)
    for columns in (100, 60):
        came.clear()
        line.refresh({"model": "m"}, columns)
        assert came.wait(10) and line.text == f"wide {columns}"


def test_the_branch_is_read_from_the_folder_of_a_repository_and_of_a_worktree(tmp_path: Path) -> None:
    git, tree = tmp_path / "repo" / ".git", tmp_path / "tree"
    (git / "worktrees" / "w").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "worktrees" / "w" / "HEAD").write_text("0123456789abcdef\n")
    (tree / "sub").mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {git}/worktrees/w\n")
    assert branch_of(tmp_path / "repo") == "main"
    assert branch_of(tree / "sub") == "01234567"
    assert branch_of(tmp_path) == ""


@pytest.mark.parametrize("name", ["~nobody-of-this-name/a.png", f"/{'x' * 300}.png", "/root\0/a.png"])
def test_a_path_that_cannot_be_is_no_image(name: str, tmp_path: Path) -> None:
    pictures = Pictures()
    assert pictures.pasted(name) is None
    assert pictures.within(f"see @{name}", tmp_path) == []
