"""Programs of our own: ended in time with their whole group, bounded in output and memory."""

from __future__ import annotations

import os
import resource
import select
import sys
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.process.child import MAX_MEMORY_BYTES, StuckError, collect, run_child, start_child
from agent_tools.search.ripgrep import run_rg, search_root
from tests.support.tool_bench import Bench

LINUX = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits a running process")


def sh(command: str) -> list[str]:
    return ["/bin/sh", "-c", command]


def test_what_it_prints_and_how_it_ends() -> None:
    done = run_child(sh("cat; echo err >&2; exit 3"), seconds=30, feed=b"x" * 200_000)
    assert (done.code, len(done.out), done.err) == (3, 200_000, b"err\n")
    assert run_child(sh("cat"), seconds=30).out == b""
    with pytest.raises(FileNotFoundError):
        run_child(["/nowhere/program"], seconds=30)


def test_its_time_ends_the_whole_group() -> None:
    ours, theirs = os.pipe()
    with pytest.raises(TimeoutError):
        run_child(sh("sleep 600 & wait"), seconds=1, pass_fds=(theirs,))
    os.close(theirs)
    # Its end comes once nobody is left who holds the other one.
    assert select.select([ours], [], [], 30)[0] and os.read(ours, 1) == b""
    os.close(ours)


def test_its_end_is_waited_for_also_after_its_output() -> None:
    done = run_child(sh("exec >&- 2>&-; sleep 0.3; exit 4"), seconds=30)
    assert done.code == 4
    with pytest.raises(TimeoutError):
        run_child(sh("exec >&- 2>&-; sleep 600"), seconds=0.3)


def test_endless_output_ends_it() -> None:
    with pytest.raises(OverflowError):
        run_child(sh("exec yes"), seconds=60, most=100_000)
    # Errors are drained, and no reason to end it.
    done = run_child(sh("head -c 5000000 /dev/zero >&2"), seconds=60, most=100)
    assert done.code == 0 and len(done.err) <= 1 << 20


@LINUX
def test_its_memory_is_bounded() -> None:
    greedy = "import time; print(len(bytearray(300 << 20)))"
    waits = [sys.executable, "-c", f"input(); {greedy}"]
    assert run_child(waits, seconds=60, feed=b"\n").out == b"314572800\n"
    assert run_child(waits, seconds=60, feed=b"\n", memory=100 << 20).code != 0
    show = sh("ulimit -Hd")
    assert run_child([*sh("sleep 0.2; ulimit -Hd")], seconds=60).out == b"%d\n" % (MAX_MEMORY_BYTES >> 10)
    assert run_child(show, seconds=60, memory=None).out == b"unlimited\n"


def test_what_it_waits_for_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    process = start_child(["cat", str(tmp_path / "pipe")], stdin=-3, stdout=-1, stderr=-1)
    with pytest.raises(StuckError, match="the pipe"):
        collect(process, b"", 60, 100, lambda: "the pipe")
    assert process.returncode is not None


def search(program: str, bench: Bench, seconds: float) -> None:
    with search_root(bench.root) as directory:
        run_rg(program, [], directory, bench.ctx, seconds)


def test_a_slow_search_ends_in_a_sentence(bench: Bench, tmp_path: Path) -> None:
    slow = tmp_path / "rg"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    with pytest.raises(ToolError, match=r"took more than 0\.2 s"):
        search(str(slow), bench, 0.2)


def test_a_search_without_memory_ends_in_a_sentence(bench: Bench, tmp_path: Path) -> None:
    greedy = tmp_path / "rg"
    greedy.write_text('#!/bin/sh\necho "memory allocation of 4294967296 bytes failed" >&2\nkill -ABRT $$\n')
    greedy.chmod(0o755)
    with pytest.raises(ToolError, match="needs too much memory"):
        search(str(greedy), bench, 60)
