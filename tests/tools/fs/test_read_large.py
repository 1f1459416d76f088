"""Read, of files too large to load: any part of them, in bounded memory and time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.read import read_window
from tests.support.fork_server import ROOT
from tests.support.tool_bench import Bench

SIZE = 300_000_000


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few kilobytes count as too large to load."""
    monkeypatch.setattr("agent_tools.read.MAX_FILE_BYTES", 5_000)
    monkeypatch.setattr("agent_tools.read.CHUNK_BYTES", 1_000)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1251", "cp932"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_part_reads_as_it_would_in_a_small_file(
    bench: Bench, small_limit: None, monkeypatch: pytest.MonkeyPatch, encoding: str, end: str
) -> None:
    words = {"cp1251": "Это строка номер", "cp932": "これはテストの"}.get(
        encoding, "zeile grün 中" if "utf" in encoding else ""
    )
    content = "".join(f"{words} {n}{end}" for n in range(1, 3001))
    path = bench.file("big.txt", content.encode(encoding))
    for first, limit in ((1, 3), (2, 1), (1500, 20), (2999, 5), (3000, 1)):
        large = bench("Read", file_path="big.txt", offset=first, limit=limit).text
        expected = [f"{n}\t{words} {n}" for n in range(first, min(first + limit, 3001))]
        assert large.split("\n[")[0].split("\n") == expected
        assert ("more follow: continue with offset=" in large) is (first + limit <= 3000)
    assert f"of {path.stat().st_size:,} bytes" in large.replace("a file ", "")
    assert str(path) not in bench.ctx.seen
    assert "fewer than 9,000 lines" in bench.fails("Read", file_path="big.txt", offset=9000)


def test_long_lines_are_cut_with_a_note(bench: Bench, small_limit: None) -> None:
    bench.file("a.txt", "x" * 10_000 + "\n" + "y" * 2_000 + "\nend")
    text = bench("Read", file_path="a.txt").text
    assert f"1\t{'x' * 2000} … [8,000 more characters in this line]\n2\t{'y' * 2000}\n3\tend\n[" in text
    assert text.endswith("; the end]")


def test_binaries_and_what_is_no_file_are_named(bench: Bench, small_limit: None) -> None:
    bench.file("a.bin", b"\x7fELF" + bytes(6_000))
    assert "a program (6,004 bytes)" in bench.fails("Read", file_path="a.bin")
    bench.file("b.bin", bytes(range(256)) * 50)
    assert "binary data" in bench.fails("Read", file_path="b.bin")


def test_an_interruption_ends_a_long_search(bench: Bench) -> None:
    path = bench.file("a.txt", "line\n" * 100_000)
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(CancelledError):
        read_window(path, "a.txt", 90_000, 1, 1_000, cancel)


def test_a_line_too_far_into_a_file_is_not_looked_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.read.MAX_OFFSET_BYTES", 2_000_000)
    path = bench.file("a.txt", "line\n" * 1_000_000)
    with pytest.raises(ToolError, match="too far into it"):
        read_window(path, "a.txt", 900_000, 1, 1_000, CancelToken())
    assert read_window(path, "a.txt", 1, 1, 1_000, CancelToken()).lines == ("line",)


@pytest.mark.slow
def test_large_files_are_read_in_little_memory(tmp_path: Path) -> None:
    """In a process of its own, whose memory is bounded to less than the file."""
    lines = tmp_path / "lines.txt"
    piece = "".join(f"this is line {n} of a long log\n" for n in range(50_000)).encode()
    flood = tmp_path / "flood.txt"
    try:
        with lines.open("wb") as file:
            for _ in range(SIZE // len(piece) + 1):
                file.write(piece)
        with flood.open("wb") as file:
            for _ in range(SIZE // 10_000_000):
                file.write(b"x" * 10_000_000)
            file.write(b"\nend\n")
        code = (
            "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (200_000_000, 200_000_000))\n"
            "from pathlib import Path\n"
            "from agent_tools.base import ToolContext\n"
            "from agent_tools.registry import BUILTIN\n"
            "from agent_tools.fs.workspace import Workspace\n"
            "ctx, read = ToolContext(Workspace(Path.cwd())), BUILTIN[0]\n"
            "for name, offset in (('lines.txt', 1), ('lines.txt', 5_000_001), ('flood.txt', 1)):\n"
            "    print(read.run(read.read({'file_path': name, 'offset': offset, 'limit': 2}), ctx).text)\n"
        )
        env = {"PYTHONPATH": str(ROOT / "tools"), "PATH": os.defpath}
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
    finally:
        lines.unlink()
        flood.unlink(missing_ok=True)
    assert ran.stderr == ""
    assert "1\tthis is line 0 of" in ran.stdout and "\n5000001\tthis is line 0 of" in ran.stdout
    assert "… [299,998,000 more characters in this line]\n2\tend\n" in ran.stdout
