"""Changes on the terminal: of one file or several, and not a second time where they were just approved."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from agent_cli.kernel.events import ApprovalRequested, ToolFinished
from agent_cli.shells.terminal.render.ansi import to_ansi
from agent_cli.shells.terminal.render.code import (
    CREATED_LINES,
    DELETED_LINES,
    MAX_DIFF_LINES,
    changed_words,
    diff_lines,
    display_lines,
)
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_tools.edit.diff import opened_by, parse_hunks, unified
from agent_tools.results import Diff, Diffs, Display

ONE = Diff("a.py", "@@ -1 +1 @@\n-a\n+b", 1, 1)
TWO = Diffs((ONE, Diff("b.py", "@@ -0,0 +1 @@\n+new", 1, 0, True)))


def shown(approved: Display, done: Display) -> str:
    """What the screen has after a call that was asked about."""
    out = io.StringIO()
    show = EventRenderer(Console(file=out, width=100, no_color=True))
    show(ApprovalRequested("c1", "MultiEdit", "Edit", "changes a file", (), "/w", approved, "", "hash"))
    show(ToolFinished("c1", "MultiEdit", False, 3, done))
    return out.getvalue()


def test_every_file_of_a_change_is_shown() -> None:
    assert [line.plain for line in display_lines(TWO, whole=True)] == [
        "  a.py (change, +1 -1)",
        "  1 -a",
        "  1 +b",
        "  b.py (new file, +1 -0)",
        "  1 +new",
    ]


def test_what_was_approved_is_not_shown_again_but_what_came_of_it_is() -> None:
    # Its row has the counts.
    assert shown(ONE, ONE) == "tool: Edit: +1 -1\n"
    assert shown(TWO, TWO) == "tool: Edit: +2 -1\n"
    formatted = Diff("a.py", "@@ -1 +1 @@\n-a\n+B", 1, 1)
    assert "+B" in shown(ONE, formatted)
    assert "+B" in shown(TWO, TWO.replace(files=(formatted, TWO.files[1])))


def styles_of(line: Text, word: str) -> set[str]:
    """The styles on a word."""
    at = line.plain.index(word)
    return {str(span.style) for span in line.spans if span.start <= at < span.end}


def test_lines_carry_the_numbers_of_the_side_they_stand_on() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 31))
    new = old.replace("line 3\n", "").replace("line 20\n", "line 20\nline 20a\n").replace("line 30\n", "line 30")
    patch, added, removed = unified(old, new)
    lines = [line.plain for line in diff_lines(Diff("a.txt", patch, added, removed))]
    assert lines[3:6] == ["   3 -line 3", "   3  line 4", "   4  line 5"]
    assert "  ..." in lines
    assert "  20 +line 20a" in lines
    assert lines[-3:] == ["  30 -line 30", "  30 +line 30", "     \\ No newline at end of file"]


def test_the_words_that_differ_are_underlined_and_the_code_is_coloured() -> None:
    patch = "@@ -7,2 +7,2 @@\n def total(items):\n-    return sum(items) - 1\n+    return sum(items) + 2"
    _, context, gone, come = diff_lines(Diff("a.py", patch, 1, 1))
    assert styles_of(context, "def") == {"bright_magenta"}
    assert "underline default on bright_red" in styles_of(gone, "1")
    assert "underline default on bright_green" in styles_of(come, "2")
    assert "underline default on bright_green" not in styles_of(come, "sum")
    assert [str(row.style) for row in (context, gone, come)] == ["", "on red", "on green"]
    assert "red" in styles_of(gone, "-") and "green" in styles_of(come, "+")


@pytest.mark.parametrize(
    ("old", "new", "gone", "come"),
    [
        ("a b c d", "a b x d", ["c"], ["x"]),
        ("f(a)", "f(a, b)", [], [", b"]),
        ("one two", "three four", [], []),
        ("same", "same", [], []),
    ],
)
def test_words_are_compared_only_in_lines_that_are_alike(old: str, new: str, gone: list[str], come: list[str]) -> None:
    before, after = changed_words(old, new)
    assert [old[a:b] for a, b in before] == gone
    assert [new[a:b] for a, b in after] == come


def test_a_long_diff_is_cut_with_a_count_but_never_at_an_approval() -> None:
    patch = "@@ -0,0 +1,300 @@\n" + "\n".join(f"+{n}" for n in range(300))
    diff = Diff("a.txt", patch, 300, 0, True)
    shortened = [line.plain for line in display_lines(diff)]
    # Of a new file there are fewer: all of it is new.
    assert len(shortened) == CREATED_LINES + 2
    assert shortened[-1] == "  … 290 more lines"
    changed = [line.plain for line in display_lines(diff.replace(created=False))]
    assert len(changed) == MAX_DIFF_LINES + 2
    assert changed[-1] == "  … 240 more lines"
    assert len(list(display_lines(diff, whole=True))) == 301


def test_a_long_line_hangs_below_its_code_and_loses_nothing() -> None:
    code = "value = some_function(" + ", ".join(f"argument_{n}" for n in range(20)) + ")"
    _, row, *more = display_lines(Diff("a.py", f"@@ -7,0 +8,1 @@\n+{code}", 1, 0), width=60)
    assert row.plain.startswith("  8 +value = some_function(argument_0,")
    assert all(line.plain.startswith("     ") and line.plain[5] != " " for line in more)
    assert all(line.cell_len < 60 and str(line.style) == "on green" for line in (row, *more))
    assert "".join(line.plain[5:] for line in (row, *more)) == code
    wide = "漢字" * 40
    rows = list(display_lines(Diff("a.txt", f"@@ -1,0 +1,1 @@\n+{wide}", 1, 0), width=40))[1:]
    assert "".join(line.plain[5:] for line in rows) == wide
    assert max(line.cell_len for line in rows) < 40


def test_what_is_no_diff_is_shown_all_the_same() -> None:
    assert [line.plain for line in diff_lines(Diff("a", "Binary files differ"))][1:] == ["    Binary files differ"]
    assert len(list(diff_lines(Diff("a", "")))) == 1


def test_a_deleted_file_is_whole_in_an_approval_and_short_elsewhere() -> None:
    old = "".join(f"line {n}\n" for n in range(1500))
    patch, added, removed = unified(old, "")
    gone = Diff("big.txt", patch, added, removed, deleted=True)
    lines = [line.plain for line in diff_lines(gone, whole=True)]
    assert lines[0] == "  big.txt (deleted, +0 -1500)"
    assert len(lines) == 1501 and lines[-1].endswith("line 1499")
    short = [line.plain for line in diff_lines(gone)]
    assert len(short) == DELETED_LINES + 2 and short[-1] == "  … 1,490 more lines"


def test_a_whole_diff_hangs_its_long_lines_too() -> None:
    long = Diff("a.py", f"@@ -0,0 +1 @@\n+{'word ' * 30}", 1, 0)
    lines = [line.plain for line in display_lines(Diffs((long,)), whole=True, width=40)]
    assert len(lines) > 3 and all(len(line) <= 40 and line.startswith("    ") for line in lines[2:])


def test_a_hunk_that_begins_inside_a_string_or_comment_has_its_colours() -> None:
    doc = '"""Titles.\n\n' + "".join(f"Line {n} about return and def.\n" for n in range(9)) + '"""\n\n\nx = "/*"\n'
    script = "/**\n" + "".join(f" * {n} about return and const\n" for n in range(9)) + " */\nconst x = 1 // '''\n"
    for path, old, inside, outside in (("a.py", doc, "92", ("95", "96")), ("a.js", script, "90", ("95", "96"))):
        patch, added, removed = unified(old, old.replace("5 about", "5 of"))
        (hunk,) = parse_hunks(patch)
        assert hunk.opened == ('"""' if path == "a.py" else "/*")
        rows = [to_ansi(line) for line in diff_lines(Diff(path, patch, added, removed), heading=False)]
        context = [row for row in rows if "\x1b[41" not in row and "\x1b[42" not in row]
        assert context and all(f"\x1b[{inside}m" in row for row in context), rows
        assert not any(f"\x1b[{code}m" in row for row in context for code in outside), rows


def test_what_opens_a_string_or_comment_is_found_in_any_language() -> None:
    for text, found in (
        ('a = """b\n', '"""'), ('a = """b"""\n', ""), ("x = '/*'\n", ""), ("/* a\n */ b /* c\n", "/*"),
        ("# it's \"\"\"\nx\n", ""), ("<p> <!-- a\n", "<!--"), ('"""it\'s /*\n', '"""'), ("don't\n'''x\n", "'''"),
    ):  # fmt: skip
        assert opened_by(text) == found, text
