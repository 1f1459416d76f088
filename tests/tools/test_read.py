"""Read: what the model sees of a file, and of things that are no file."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from agent_tools.base import Effect
from agent_tools.results import FileView, ResultLimits
from tests.support.tool_bench import TOOLS, Bench


def test_lines_come_numbered_and_the_file_counts_as_read(bench: Bench) -> None:
    path = bench.file("src/a.py", "one\n\ttwo\nthree")
    result = bench("Read", file_path="src/a.py")
    assert result.text == "1\tone\n2\t\ttwo\n3\tthree"
    assert result.display == FileView("src/a.py", 1, 3, 3)
    assert str(path) in bench.ctx.seen


def test_a_part_of_a_long_file_says_how_to_go_on(bench: Bench) -> None:
    bench.file("long.txt", "".join(f"li {n}\n" for n in range(1, 5001)))
    text = bench("Read", file_path="long.txt").text
    assert len(text) < 25_100 and re.search(r"\[lines 1-(\d+) of 5,000; continue with offset=\d+\]$", text)
    bench.ctx.result_limits = ResultLimits(page=100_000)
    text = bench("Read", file_path="long.txt").text
    assert text.splitlines()[1999] == "2000\tli 2000"
    assert text.endswith("[lines 1-2000 of 5,000; continue with offset=2001]")
    bench.ctx.result_limits = ResultLimits(window=8_000)
    assert len(bench("Read", file_path="long.txt").text) < 3_600
    part = bench("Read", file_path="long.txt", offset="4999", limit=1).text  # a number as text is understood
    assert part == "4999\tli 4999\n[lines 4999-4999 of 5,000; continue with offset=5000]"
    assert "only 5,000 lines" in bench.fails("Read", file_path="long.txt", offset=6000)


def test_long_lines_and_long_texts_are_cut_with_a_note(bench: Bench) -> None:
    bench.file("min.js", "x" * 10_000 + "\nend\n")
    assert "… [8,000 more characters in this line]\n2\tend" in bench("Read", file_path="min.js").text
    bench.file("wide.txt", ("y" * 1_500 + "\n") * 500)
    text = bench("Read", file_path="wide.txt").text
    assert len(text) < 25_100 and "continue with offset=17" in text


@pytest.mark.parametrize(
    ("data", "seen", "note"),
    [
        ("grün\n".encode(), "grün", ""),
        (b"\xef\xbb\xbfgr\xc3\xbcn\n", "grün", "utf-8 with byte order mark"),
        ("grün\n".encode("utf-16"), "grün", "utf-16-le with byte order mark"),
        ("plain words\n".encode("utf-16-be"), "plain words", "utf-16-be"),
        ("grün\n".encode("utf-32"), "grün", "utf-32-le"),
        ("grün\n".encode("latin-1"), "grün", "cp1252"),
        (b"caf\xe9 \x81\n", "café", "latin-1"),
        (b"a\r\nb\r\n", "a\n2\tb", "CRLF"),
    ],
)
def test_every_usual_encoding_is_read(bench: Bench, data: bytes, seen: str, note: str) -> None:
    bench.file("f.txt", data)
    text = bench("Read", file_path="f.txt").text
    assert f"1\t{seen}" in text and note in text


def test_only_line_feeds_end_lines(bench: Bench) -> None:
    bench.file("f.txt", "a\u2028b\x0cc\x85d\n")
    assert bench("Read", file_path="f.txt").text.count("\t") == 1


def test_an_empty_file_is_reported_to_be_empty(bench: Bench) -> None:
    bench.file("empty")
    assert "is empty" in bench("Read", file_path="empty").text


def test_binaries_are_named_and_not_shown(bench: Bench) -> None:
    bench.file("a.zip", b"PK\x03\x04" + bytes(100))
    bench.file("b.bin", os.urandom(5000) + b"\0")
    assert "a zip archive (104 bytes)" in bench.fails("Read", file_path="a.zip")
    assert "binary data" in bench.fails("Read", file_path="b.bin")


def test_a_missing_file_is_answered_with_near_names(bench: Bench) -> None:
    bench.file("src/settings.py")
    assert "Near it: src/settings.py" in bench.fails("Read", file_path="src/Setings.py")
    assert "Near it: src/settings.py" in bench.fails("Read", file_path="src/settings.toml")
    assert "nearest that does is 'src'" in bench.fails("Read", file_path="src/deep/er/x.py")


def test_a_name_that_was_copied_as_it_is_shown_is_answered_with_the_reason(bench: Bench) -> None:
    """It used to be told that it does not exist, and that it is near itself."""
    for name, shown in (("new\nline", r"new\nline"), ("esc\x1b[m", r"esc\x1b[m"), ("bad\udcff", r"bad\udcff")):
        bench.file(f"dir-{name}/{name}.txt")
        for tool, more in (("Read", {}), ("Edit", {"old_string": "x", "new_string": "y"}), ("LS", {}), ("Grep", {})):
            argument = {"path": f"dir-{shown}"} if tool in ("LS", "Grep") else {"file_path": f"dir-{shown}/{shown}.txt"}
            pattern = {"pattern": "x"} if tool == "Grep" else {}
            failed = bench.fails(tool, **argument, **more, **pattern)
            assert "an escape in its name is one character" in failed, (tool, failed)
    assert "does not exist." in bench.fails("Read", file_path=r"c:\new\table\x00")
    assert "does not exist" in bench.fails("Read", file_path=r"x\U000fffff\ud800")


def test_what_is_no_file_gets_an_answer_and_never_hangs(bench: Bench, tmp_path: Path) -> None:
    (bench.root / "dir").mkdir()
    os.mkfifo(bench.root / "pipe")
    (bench.root / "loop").symlink_to("loop")
    (bench.root / "to-pipe").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(bench.root)  # the path of a socket must be short
        server.bind("sock")
        os.chdir(here)
        assert "is a directory" in bench.fails("Read", file_path="dir")
        assert "a named pipe" in bench.fails("Read", file_path="pipe")
        assert "a named pipe" in bench.fails("Read", file_path="to-pipe")
        assert "a socket" in bench.fails("Read", file_path="sock")
    assert "in a circle" in bench.fails("Read", file_path="loop")
    assert "a device" in bench.fails("Read", file_path="/dev/zero")
    assert "a device" in bench.fails("Read", file_path="/dev/tty")


def test_odd_paths_get_a_sentence(bench: Bench) -> None:
    assert "empty" in bench.fails("Read", file_path="")
    assert "NUL" in bench.fails("Read", file_path="a\0b")
    assert "no file name can have" in bench.fails("Read", file_path="a\ud800b")
    assert "too long" in bench.fails("Read", file_path="x" * 300)
    bench.file("a.txt", "x")
    assert "not a directory" in bench.fails("Read", file_path="a.txt/b")


def test_a_name_with_a_line_end_is_read_and_shown_on_one_line(bench: Bench) -> None:
    bench.file("two\nlines", "inside\n")
    args = bench.args("Read", {"file_path": "two\nlines"})
    assert TOOLS["Read"].summary(args, bench.ctx) == "Read two\\nlines"
    assert "inside" in bench("Read", file_path="two\nlines").text


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED: root may read everything")
def test_a_file_without_permission_is_reported_to_be_so(bench: Bench) -> None:
    bench.file("secret", "x").chmod(0)
    assert "permission denied" in bench.fails("Read", file_path="secret")


def test_the_effect_names_the_file_behind_the_link(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    (bench.root / "innocent").symlink_to(outside)
    args = bench.args("Read", {"file_path": "innocent"})
    assert TOOLS["Read"].effects(args, bench.ctx) == (Effect("read", str(outside)),)
    assert not bench.ctx.workspace.inside(bench.root / "innocent")


def test_inside_compares_components_not_letters(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "work-evil").mkdir()
    assert bench.ctx.workspace.inside(bench.root / "new" / "file")
    assert not bench.ctx.workspace.inside(tmp_path / "work-evil" / "x")
    assert not bench.ctx.workspace.inside(bench.root / ".." / "x")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="NOT TESTED: no /proc here")
def test_files_of_the_kernel_are_read_though_they_claim_to_be_empty(bench: Bench) -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    assert "1\tName:" in bench("Read", file_path="/proc/self/status").text
    assert "mem could not be used" in bench.fails("Read", file_path="/proc/self/mem")
