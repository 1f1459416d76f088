"""Edit: the one place that is meant, nothing else, and errors that help."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from agent_tools.base import Effect
from agent_tools.edit.matching import replace
from agent_tools.results import Diff
from tests.support.call_counts import steps
from tests.support.tool_bench import TOOLS, Bench


def edit(bench: Bench, before: str | bytes, old: str, new: str, everywhere: bool = False) -> bytes:
    path = bench.file("f", before)
    bench("Read", file_path="f")
    bench("Edit", file_path="f", old_string=old, new_string=new, replace_all=everywhere)
    return path.read_bytes()


def refusal(bench: Bench, before: str | bytes, old: str, new: str) -> str:
    path = bench.file("f", before)
    bench("Read", file_path="f")
    found = bench.fails("Edit", file_path="f", old_string=old, new_string=new)
    assert path.read_bytes() == (before if isinstance(before, bytes) else before.encode())
    return found


def test_the_result_shows_the_changed_lines_and_the_diff(bench: Bench) -> None:
    path = bench.file("src/a.py", "".join(f"l{n}\n" for n in range(1, 10)))
    bench("Read", file_path="src/a.py")
    args = bench.args("Edit", {"file_path": "src/a.py", "old_string": "l5\n", "new_string": "five\n5\n"})
    assert TOOLS["Edit"].summary(args, bench.ctx) == "Edit src/a.py (+2 -1)"
    assert TOOLS["Edit"].effects(args, bench.ctx) == (Effect("read", str(path)), Effect("write", str(path)))
    preview = TOOLS["Edit"].preview(args, bench.ctx)
    result = bench("Edit", file_path="src/a.py", old_string="l5\n", new_string="five\n5\n")
    assert result.display == preview
    assert preview == Diff("src/a.py", "@@ -2,7 +2,8 @@\n l2\n l3\n l4\n-l5\n+five\n+5\n l6\n l7\n l8", 2, 1, False)
    assert result.text == ("Edited src/a.py (+2 -1). It now reads:\n3\tl3\n4\tl4\n5\tfive\n6\t5\n7\tl6\n8\tl7")
    # What was written counts as known: the next edit needs no Read.
    bench("Edit", file_path="src/a.py", old_string="five", new_string="V")


def test_of_a_long_line_what_changed_in_it_is_shown(bench: Bench) -> None:
    path = bench.file("a.js", "x" * 900_000 + " needle=42 " + "y" * 600_000 + "\nend\n")
    bench("Grep", pattern="needle", output_mode="content")
    result = bench("Edit", file_path="a.js", old_string="needle=42 ", new_string="needle=43 ")
    place = " [column 900,010 of 1,500,011 characters in this line]\n"
    assert "x needle=43 y" in result.text and place in result.text and len(result.text) < 600
    assert isinstance(result.display, Diff)
    old, new, *_ = result.display.patch.split("\n")[1:]
    assert "x needle=42 y" in old and "x needle=43 y" in new and len(new) < 2_200
    # The same in the difference that others made.
    path.write_text(path.read_text().replace("needle=43", "needle=44"))
    said = bench("Edit", file_path="a.js", old_string="end", new_string="END").text
    assert "-… x" in said and "x needle=43 y" in said and "x needle=44 y" in said


def test_of_a_long_insertion_the_result_shows_the_two_ends(bench: Bench) -> None:
    bench.file("a.py", "".join(f"l{n}\n" for n in range(1, 9)))
    bench("Read", file_path="a.py")
    added = "".join(f"new {n}\n" for n in range(1, 37))
    result = bench("Edit", file_path="a.py", old_string="l4\n", new_string=f"l4\n{added}")
    assert result.text == (
        "Edited a.py (+36 -0). It now reads:\n3\tl3\n4\tl4\n5\tnew 1\n6\tnew 2\n7\tnew 3\n"
        "[30 more changed lines]\n38\tnew 34\n39\tnew 35\n40\tnew 36\n41\tl5\n42\tl6"
    )


def test_new_text_is_never_a_template(bench: Bench) -> None:
    assert edit(bench, "a X b", "X", r"$& \1 \g<0> {0} %s") == rb"a $& \1 \g<0> {0} %s b"
    assert edit(bench, "a.c abc", "a.c", "d") == b"d abc"


def test_several_places_are_refused_with_their_lines(bench: Bench) -> None:
    found = refusal(bench, "x = 1\ny\nx = 1\n", "x = 1", "x = 2")
    assert "2 places (lines 1, 3)" in found and "replace_all" in found
    assert "2 places" in refusal(bench, "aaa", "aa", "b")
    assert edit(bench, "x = 1\ny\nx = 1\n", "x = 1", "x = 2", everywhere=True) == b"x = 2\ny\nx = 2\n"


def test_a_missing_text_is_answered_with_the_nearest_lines(bench: Bench) -> None:
    before = "def f():\n    return 1\n\n\ndef g():\n    return 22\n"
    assert refusal(bench, before, "def g():\n    return 2\n", "x") == (
        "old_string was not found; nothing was changed. The most similar place is lines 5-6. Differences:\n"
        "  line 6, old_string has only part of it:\n"
        "    file:           return 22\n"
        "    old_string:     return 2\n"
        "Copy the file's own text, whitespace included, or read the place again."
    )


def test_no_change_is_an_error(bench: Bench) -> None:
    assert "nothing to change" in refusal(bench, "a\n", "a", "a")
    assert "has the new text already" in refusal(bench, "a\r\nb\r\n", "a\nb", "a\r\nb")


def test_reading_first_is_demanded(bench: Bench) -> None:
    bench.file("f", "a\n")
    assert "Read it first" in bench.fails("Edit", file_path="f", old_string="a", new_string="b")
    bench.file("g", "a\n")
    bench.ctx.require_read_first = False
    bench("Edit", file_path="g", old_string="a", new_string="b")


def test_an_empty_old_string_creates_or_fills(bench: Bench) -> None:
    assert bench("Edit", file_path="d/new", old_string="", new_string="x\n").text == "Created d/new (1 line)."
    path = bench.file("empty")
    bench("Read", file_path="empty")
    bench("Edit", file_path="empty", old_string="", new_string="x\n")
    assert path.read_text() == "x\n"
    assert "has content" in bench.fails("Edit", file_path="empty", old_string="", new_string="y")
    bench.file("near.py")
    assert "Near it: near.py" in bench.fails("Edit", file_path="nera.py", old_string="x", new_string="y")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # line ends: the file's own, also mixed, also for lines that are new
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nB\nB2", b"a\r\nB\r\nB2\r\nc\r\n"),
        (b"a\r\nb\nc\r\nd\n", "b\nc\nd", "b\nC\nd", b"a\r\nb\nC\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\r\nc\r\nd\n"),
        (b"a\nb\n", "a\r\nb", "a\r\nB", b"a\nB\n"),
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"f(\r\n  x,\r\n  y)\r\n", "(\n  x,", "(\n  z,", b"f(\r\n  z,\r\n  y)\r\n"),
        (b"a\r\nb", "b", "c\nd", b"a\r\nc\r\nd"),
        # blanks at line ends
        (b"if x:   \n    y\t\n", "if x:\n    y\n", "if x:\n    z\n", b"if x:   \n    z\n"),
        (b"a\n   \nb\n", "a\n\nb", "a\n\nc", b"a\n   \nc\n"),
        # one indentation offset, more or less, or tabs for blanks
        (b"    if x:\n        y\n", "if x:\n    y\n", "if x:\n    z\n    w\n", b"    if x:\n        z\n        w\n"),
        (b"if x:\n    y\n", "    if x:\n        y\n", "    if x:\n        z\n", b"if x:\n    z\n"),
        (b"\tif x:\n\t\ty\n", "    if x:\n        y", "    if x:\n        z\n        w", b"\tif x:\n\t\tz\n\t\tw\n"),
        (b"    if x:\n        y\n", "\tif x:\n\t\ty", "\tif x:\n\t\tz", b"    if x:\n        z\n"),
        # typography: what is not touched keeps the file's characters
        ("say(“hi”) – ok\n".encode(), 'say("hi") - ok', 'say("ho") - ok', "say(“ho”) – ok\n".encode()),
        ("a\u00a0b\nc\n".encode(), "a b\nc", "a b\nd", "a\u00a0b\nd\n".encode()),
        ("cafe\u0301\nx\n".encode(), "café\nx", "café\ny", "cafe\u0301\ny\n".encode()),
        # the end of the file
        (b"a\nb", "a\nb\n", "a\nc\n", b"a\nc"),
        (b"a\nb\n", "b", "b\n", b"a\nb\n\n"),
    ],
)
def test_what_may_differ_and_what_is_kept(bench: Bench, before: bytes, old: str, new: str, after: bytes) -> None:
    assert edit(bench, before, old, new) == after


@pytest.mark.parametrize(
    ("before", "old"),
    [
        ("a\nX\nc\n", "a\nb\nc"),  # first and last line alike, middle different
        ("  a\n    b\n", "a\n b"),  # indentation that is not one offset
        ("foo bar \nbaz\n", "bar\nbaz"),  # no whole lines
        ("a\n", "A"),
        ("x  =  1\n", "x = 1"),  # blanks inside a line count
        ("a\n\n\nb\n", "a\n\nb"),
    ],
)
def test_what_is_only_alike_is_never_taken(bench: Bench, before: str, old: str) -> None:
    assert "not found" in refusal(bench, before, old, "new")


def test_two_places_that_fit_after_normalising_are_refused(bench: Bench) -> None:
    assert "2 places (lines 1, 4)" in refusal(bench, "  if x:\n    y\nz\n\tif x:\n\t  y\n", "if x:\n  y\n", "n\n")


def test_a_new_line_with_too_little_indentation_to_move_is_refused(bench: Bench) -> None:
    found = refusal(bench, "if x:\n    y\n", "    if x:\n        y", "    if x:\n  z")
    assert "too little" in found


def test_encoding_mark_mode_and_link_survive(bench: Bench) -> None:
    assert edit(bench, "grün\n".encode("utf-16"), "grün", "blau") == "blau\n".encode("utf-16")
    assert edit(bench, b"\xef\xbb\xbfa\n", "a", "b") == b"\xef\xbb\xbfb\n"
    assert edit(bench, "é “x”\n".encode("cp1252"), "é", "è") == "è “x”\n".encode("cp1252")
    assert "cannot be written in the file's encoding" in refusal(bench, "é\n".encode("latin-1"), "é", "漢")
    path = bench.file("run.sh", "a\n")
    path.chmod(0o755)
    (bench.root / "link").symlink_to("run.sh")
    bench("Read", file_path="run.sh")
    bench("Edit", file_path="link", old_string="a", new_string="b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755 and (bench.root / "link").is_symlink()
    assert path.read_text() == "b\n"


def test_what_is_no_text_is_refused(bench: Bench) -> None:
    bench.file("b", b"a\0b")
    (bench.root / "d").mkdir()
    os.mkfifo(bench.root / "p")
    assert "binary data" in bench.fails("Edit", file_path="b", old_string="a", new_string="c")
    assert "is a directory" in bench.fails("Edit", file_path="d", old_string="a", new_string="c")
    assert "a named pipe" in bench.fails("Edit", file_path="p", old_string="a", new_string="c")


def test_a_preview_of_a_call_that_must_fail_says_so(bench: Bench) -> None:
    bench.file("f", "a\n")
    bench("Read", file_path="f")
    args = bench.args("Edit", {"file_path": "f", "old_string": "zzz", "new_string": "y"})
    with pytest.raises(Exception, match="not found"):
        TOOLS["Edit"].preview(args, bench.ctx)


def test_a_large_file_is_edited_without_a_pause(bench: Bench) -> None:
    path = bench.file("big", "".join(f"line {n} of a file that is long  \n" for n in range(140_000)))
    bench("Read", file_path="big", limit=1)
    # Some steps for each line would be a pause; one for ten lines is none.
    literal = steps(lambda: bench("Edit", file_path="big", old_string="line 70000 of", new_string="LINE 70000 of"))
    assert literal < 14_000
    bench("Edit", file_path="big", old_string="  line 5 of a file that is long", new_string="  line L")
    assert b"\nLINE 70000 of" in path.read_bytes() and b"\nline L\nline 6 of" in path.read_bytes()
    bench.file("long", "".join(f"def function_{n}(self, value):\n    return value * {n}\n" for n in range(25_000)))
    bench("Read", file_path="long", limit=1)
    lines: list[str] = []
    args = {"file_path": "long", "old_string": "def function_777(self, valeu):", "new_string": "x"}
    missed = steps(lambda: lines.append(bench.fails("Edit", **args)))
    assert "line 1555, from column 27 on" in lines[0]
    # The lines are compared with what is sought a few times, never with each other.
    assert missed < 50 * 50_000


def test_a_large_file_is_looked_at_a_few_times_however_many_places_change(bench: Bench) -> None:
    class Text(str):
        looks = 0

        def __contains__(self, part: object) -> bool:
            Text.looks += 1
            return super().__contains__(part)  # type: ignore[operator]

    edited = replace(Text("a line of the file\n" * 1_000), "of the", "of a", replace_all=True)
    assert edited.content == "a line of a file\n" * 1_000 and Text.looks < 5


def test_a_change_of_many_lines_is_compared_once(bench: Bench) -> None:
    def calls(lines: int) -> int:
        bench.file("a.txt", "a line of the file\n" * lines)
        bench("Read", file_path="a.txt")
        args = {"file_path": "a.txt", "old_string": "of the", "new_string": "of a", "replace_all": True}
        return steps(lambda: bench("Edit", **args))

    calls(100)
    per_line = (calls(1_900) - calls(900)) / 1_000
    assert per_line < 40, per_line


def test_all_names_of_a_file_get_the_new_text(bench: Bench) -> None:
    path = bench.file("one", "a long line\n")
    os.link(path, bench.root / "two")
    bench("Read", file_path="one")
    bench("Edit", file_path="one", old_string="long line", new_string="b")
    bench("Write", file_path="one", content="a line that is much longer than before\n")
    bench("Edit", file_path="one", old_string="much longer than before", new_string="short")
    assert (bench.root / "two").read_text() == path.read_text() == "a line that is short\n"
    assert path.stat().st_nlink == 2 and {p.name for p in bench.root.iterdir()} == {"one", "two"}


def test_a_file_with_several_names_keeps_its_text_if_the_new_one_does_not_fit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.file("one", "old\n")
    os.link(path, bench.root / "two")
    bench("Read", file_path="one")
    real = os.pwrite

    def full(descriptor: int, data: bytes, at: int) -> int:
        if at + len(data) > 10:
            real(descriptor, data[:10], at)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", full)
    assert "is unchanged: the disk is full" in bench.fails("Write", file_path="one", content="x" * 100)
    assert (bench.root / "two").read_text() == path.read_text() == "old\n"


def test_a_file_with_one_name_is_replaced_and_not_written_to(bench: Bench) -> None:
    path = bench.file("one", "a\n")
    before = path.stat().st_ino
    with path.open() as reader:
        bench("Read", file_path="one")
        bench("Edit", file_path="one", old_string="a", new_string="b")
        assert reader.read() == "a\n" and path.stat().st_ino != before
