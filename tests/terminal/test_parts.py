"""The parts of the application by themselves: the queue between threads, completion, history, pastes, rows."""

from __future__ import annotations

import io
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agent_cli.kernel.events import TextDelta, ToolProgress, Warned
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.completion import CommandEntry, FileNames, complete, fuzzy_matches
from agent_cli.shells.terminal.app.attachments import ImageAttachments
from agent_cli.shells.terminal.app.input_line import MAX_ENTRIES, InputLine, Pastes, ProjectHistory
from agent_cli.shells.terminal.app.layout import (
    key_rows,
    queue_lines,
    status_line,
    todo_lines,
    toolbar,
)
from agent_cli.shells.terminal.app.output import Leftovers, reflows
from agent_cli.shells.terminal.app.status_bar import StatusLine, read_branch
from agent_cli.shells.terminal.app.worker import MAX_PENDING_CHARS, EventQueue
from agent_cli.shells.terminal.key_map import KeyMap
from agent_cli.shells.terminal.picks import Picks
from agent_cli.shells.terminal.render.ansi import cells, clip, fragments, supports_links, with_links
from agent_cli.shells.terminal.render.console import prose
from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.results import TodoItem
from agent_tools.text import short_count, short_duration
from tests.support.call_counts import steps
from tests.support.hypothesis_examples import examples
from tests.support.pty_session import plain

COMMANDS = [
    CommandEntry("help", "this list", aliases=("hints",)),
    CommandEntry("model", "the model", values=lambda: [("openai/gpt-5", ""), ("openai/gpt-5-mini", "small")]),
    CommandEntry("mode", "the mode", "[MODE]", values=lambda: [("plan", ""), ("default", "")], strict=True),
    CommandEntry("rename", "a name", "NAME", aliases=("moniker",)),
]


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
            bridge.emit(Warned("x" * (MAX_PENDING_CHARS // 4)))
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

    assert names("/mo") == ["/model ", "/mode ", "/moniker "]
    assert names("/mode") == ["/mode ", "/model "]
    assert names("/") == ["/help ", "/model ", "/mode ", "/rename "]
    assert names("/od") == ["/model ", "/mode "] and names("/hi") == ["/hints "]
    assert names("/mode ") == ["plan", "default"] and names("/mode d") == ["default"]
    assert names("/model mini") == ["openai/gpt-5-mini"] and names("/moniker x") == []
    assert names("say /mo") == []
    assert names("see @ap") == ["@src/app.py ", "@docs/map.md "]
    assert names("see @sapy") == ["@src/app.py "]
    assert names("mail me@ap") == []
    assert names("@src/app.py more") == []


def test_a_file_with_spaces_completes_in_quotes() -> None:
    def names(before: str) -> list[str]:
        return [choice.text for choice in complete(before, (), lambda: ("my shot.png", "my.md"))]

    assert names("see @my") == ["@my.md ", '@"my shot.png" ']
    assert names('see @"my sh') == ['@"my shot.png" '] == names('see @"my shot.png')
    assert names('see @"my shot.png" ') == []


def test_files_with_spaces_are_listed(tmp_path: Path) -> None:
    for name in ("my shot.png", 'a "quoted" one', "tab\tin", "plain.txt"):
        (tmp_path / name).write_text("x")
    read = threading.Event()
    names = FileNames(tmp_path, ToolContext(Workspace(tmp_path)), read.set)
    names()
    assert read.wait(20) and sorted(names()) == ["my shot.png", "plain.txt"]


def entered(text: str) -> tuple[str, bool]:
    """The line after Enter, and whether it is sent."""
    line = InputLine(ProjectHistory(None), lambda: COMMANDS, lambda: ())
    line.buffer.insert_text(text)
    runs = line.accept() if line.chosen >= 0 else True
    return line.buffer.text, runs


@pytest.mark.parametrize(
    ("typed", "line", "runs"),
    [
        ("/he", "/help ", True),
        ("/ren", "/rename ", False),  # its argument is still to come
        ("/mode", "/mode ", True),
        ("/mode p", "/mode plan", True),
        ("/mode ", "/mode ", True),
        ("/model openai/gpt-5", "/model openai/gpt-5", True),  # any name may be meant, also one of no list
        ("see @a", "see @a", True),
        ("/zzz", "/zzz", True),
    ],
)
def test_enter_runs_the_first_command_of_the_menu_and_completes_one_that_lacks_words(
    typed: str, line: str, runs: bool
) -> None:
    assert entered(typed) == (line, runs)


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
    path.write_text("".join(f'"{n}"\n' for n in range(5 * MAX_ENTRIES)))
    assert list(ProjectHistory(path).load_history_strings())[:2] == [
        str(5 * MAX_ENTRIES - 1),
        str(5 * MAX_ENTRIES - 2),
    ]
    assert len(path.read_text().splitlines()) == MAX_ENTRIES
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
    assert " 10 lines]" in long and pastes.placeholder_length(f"see {long}") == len(long)
    assert not pastes.placeholder_length("[Pasted #9 9 lines]") and not pastes.placeholder_length(f"{long} more")
    assert long.startswith("[Pasted #") and pastes.unfold(long) == "x\n" * 10


@settings(max_examples=examples(100), deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), max_size=80), st.integers(2, 40))
def test_a_clipped_text_and_its_fragments_are_never_wider_than_asked(text: str, width: int) -> None:
    assert cells(clip(text, width)) <= width
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
    assert queue_lines(list("ab"), 40, 1) == [(("class:dim", "  2 messages are queued"),)]
    assert todo_lines([], 40) == queue_lines([], 40) == []


def test_a_line_that_fits_into_the_window_is_not_wrapped_for_the_indent_of_further_rows() -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True)
    text = "thirty cells of text, in a row\nand then a line of rather more than that"
    rows = [row.plain for row in prose(text, console, more="  ")]
    assert rows == ["thirty cells of text, in a row", "and then a line of rather", "  more than that"]


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
    assert read_branch(tmp_path / "repo") == "main"
    assert read_branch(tree / "sub") == "01234567"
    assert read_branch(tmp_path) == ""


@pytest.mark.parametrize("name", ["~nobody-of-this-name/a.png", f"/{'x' * 300}.png", "/root\0/a.png"])
def test_a_path_that_cannot_be_is_no_image(name: str, tmp_path: Path) -> None:
    pictures = ImageAttachments()
    assert pictures.from_paste(name) is None
    assert pictures.images_in(f"see @{name}", tmp_path) == []


def test_an_image_is_mentioned_with_its_path_or_in_quotes(tmp_path: Path) -> None:
    for name in ("my shot.png", "a.png"):
        (tmp_path / name).write_bytes(b"x")
    pictures = ImageAttachments()
    text = 'see @"my shot.png", @a.png and @none.png'
    assert pictures.images_in(text, tmp_path) == [tmp_path / "my shot.png", tmp_path / "a.png"]


def test_keys_of_the_user_are_read_and_shown() -> None:
    keys = KeyMap({"search": "ctrl-t, alt-r", "editor": "ctrl-x ctrl-x", "expand": "F5", "suspend": ""}, "nl")
    assert keys.keys["search"] == (("c-t",), ("escape", "r"))
    assert keys.keys["editor"] == (("c-x", "c-x"),) and keys.keys["suspend"] == ()
    assert keys.keys["newline"] == (("nl",), ("c-j",)) and keys.keys["mode"] == (("s-tab",),)
    assert keys.format_keys("search") == "Ctrl-T, Alt-R" and keys.format_keys("expand") == "F5"
    assert ("Ctrl-X Ctrl-X", "edit in $EDITOR") in keys.rows() and not any("suspend" in text for _, text in keys.rows())


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ({"serch": "ctrl-t"}, "terminal.keys: there is no action serch; did you mean search?"),
        (
            {"search": "ctl-t"},
            "terminal.keys.search: ctl-t is not a key; write it as ctrl-t, alt-t, f5 or ctrl-x ctrl-t.",
        ),
        ({"search": "x"}, "terminal.keys.search: x is not a key; "),
        ({"search": "ctrl-c"}, "terminal.keys.search: ctrl-c cannot be given to an action."),
        ({"search": "enter"}, "terminal.keys.search: enter cannot be given to an action."),
        ({"search": "shift-x"}, "terminal.keys.search: shift-x is not a key; "),
        ({"search": "ctrl-o"}, "terminal.keys: Ctrl-O is the key of both expand and search; give one of them another"),
        ({"search": "ctrl-x"}, "is the key of both search and editor"),
    ],
)
def test_keys_that_cannot_be_are_refused_in_a_sentence(own: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        KeyMap(own, "nl")


def test_links_lead_to_what_they_show(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a b.py").touch()
    (tmp_path / "src/a.py").touch()

    def links(row: str, width: int = 80) -> list[tuple[str, str]]:
        shown = with_links(row, tmp_path, width)
        assert re.sub(r"\x1b\]8;;[^\x1b]*\x1b\\", "", shown) == row
        return re.findall(r"\x1b\]8;;([^\x1b]+)\x1b\\(.*?)\x1b\]8;;\x1b", shown)

    (found,) = links("see \x1b[1msrc/a.py\x1b[0m:12, not src/b.py")
    assert found[0].startswith("file://") and found[0].endswith(f"{tmp_path}/src/a.py") and found[1] == "src/a.py"
    assert links("(https://a.example/x?y=1).") == [("https://a.example/x?y=1",) * 2]
    assert links("https://a.example/x", width=20) == []  # it may go on in the next row
    assert links("../etc/passwd /etc/passwd a.py .. . 3.5 /") == []
    other = "\x1b]8;;http://other\x1b\\src/a.py\x1b]8;;\x1b\\"
    assert with_links(other, tmp_path, 80) == other


def test_terminals_that_follow_links_are_known() -> None:
    assert supports_links({"TERM_PROGRAM": "iTerm.app"}) and supports_links({"VTE_VERSION": "6003"})
    assert supports_links({"TMUX": "x", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.5a"})
    assert not supports_links({"TERM": "xterm-256color"}) and not supports_links({"VTE_VERSION": "4000"})
    assert not supports_links({"TMUX": "x", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.3", "WT_SESSION": "1"})


def test_what_is_picked_most_and_latest_comes_first(tmp_path: Path) -> None:
    now = [1e9]
    picks = Picks(tmp_path / "picks.json", "command", lambda: now[0])
    for name in ("cost", "cost", "cost", "diff"):
        picks.add(name)
    assert picks.sorted(["a", "diff", "cost", "b"]) == ["cost", "diff", "a", "b"]
    now[0] += 60 * 24 * 3600
    picks.add("diff")
    again = Picks(tmp_path / "picks.json", "command", lambda: now[0])
    assert again.most_used() == ["diff", "cost"] and Picks(tmp_path / "picks.json", "model").most_used() == []
    (tmp_path / "picks.json").write_text('{"command": {"x": 1, "y": [1, 2]}, "model": [], "z"')
    assert Picks(tmp_path / "picks.json", "command").most_used() == []
    assert Picks(None, "command").most_used() == []


def test_the_keys_are_laid_out_for_any_width() -> None:
    keys = KeyMap({}, "nl").rows()
    wide, narrow = (list(map(plain, key_rows(keys, *size))) for size in ((79, 20), (39, 9)))
    assert len(wide) == (len(keys) + 1) // 2 and all(len(row) <= 79 for row in wide)
    assert len(narrow) == 9 and all(len(row) <= 39 for row in narrow)


NAMES = st.lists(st.text("abT/.", min_size=1, max_size=8), max_size=120, unique=True)


@given(NAMES, st.text("abT/", min_size=1, max_size=3))
def test_the_best_names_come_first_however_many_there_are(names: list[str], typed: str) -> None:
    def rank(name: str) -> tuple[int, int, str]:
        path, low = name.lower(), typed.lower()
        base = path.rpartition("/")[2]
        fits = (base.startswith(low), low in base, path.startswith(low), low in path, True)
        return fits.index(True), len(name), name

    letters = re.compile(".*".join(map(re.escape, typed)), re.IGNORECASE)
    assert fuzzy_matches(typed, names) == sorted(filter(letters.search, names), key=rank)[:50]


def test_a_key_after_an_at_sign_looks_at_each_name_of_a_large_project_a_few_times() -> None:
    names = tuple(f"src/pkg{n % 50}/module_{n}.py" for n in range(20_000))
    fuzzy_matches("m", names)
    assert steps(lambda: fuzzy_matches("mod", names)) < 5 * len(names)


def test_lines_that_a_narrower_window_moved_above_the_screen_are_found_again_below_others() -> None:
    left = Leftovers()
    # At 40 columns three rows of 3 + 1 + 2 are above the screen: one line whole, and the next one's first row.
    left.keep([99, 20, 60], 3, 40)
    assert left.above([59, 10]) == [99, 59, 10]
    left.keep([99, 20, 60], 5, 40)
    assert left.above([59, 10]) == [99, 20, 99, 10] and left.above([]) == [99, 20, 40]
    left.keep([99], 0, 40)
    assert left.above([59]) == [59]
    left.keep([99], 3, 40)
    left.forget()
    assert left.above([59]) == [59]
