"""Long output: all of it in a file for Read and Grep, within limits of memory and disk, gone when the program ends."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.shell import output_file
from tests.support.fork_server import ROOT
from tests.support.hypothesis_examples import cases
from tests.support.tool_bench import TOOLS, Bench


def spilled(text: str) -> Path:
    found = re.search(r" in (/\S+); Grep or Read shows any part of it", text)
    assert found, text
    return Path(found[1])


def test_all_of_it_can_be_searched_and_read(bench: Bench) -> None:
    path = spilled(bench("Bash", command="seq 1 100000; echo -n END").text)
    assert path.read_text() == "".join(f"{n}\n" for n in range(1, 100_001)) + "END"
    assert "50000\n" in bench("Grep", pattern="^50000$", path=str(path), output_mode="content").text + "\n"
    assert "50000\t50000" in bench("Read", file_path=str(path), offset=50_000, limit=1).text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    other = spilled(bench("Bash", command="seq 1 10000").text)
    assert other.parent == path.parent and other != path
    bench.ctx.close()
    assert not path.parent.exists()
    assert "run it again with its output in a file" in bench("Bash", command="seq 1 10000").text


def test_the_oldest_files_of_a_saved_session_go_first(bench: Bench, tmp_path: Path) -> None:
    bench.ctx.workspace.scratch.keep_in(tmp_path / "s.results", lambda: lambda text: text, 150_000)
    paths = [spilled(bench("Bash", command=f"seq {n}0001 {n}9999").text) for n in range(1, 5)]
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert "was deleted" in bench.fails("Read", file_path=str(paths[0]))


def test_short_output_makes_no_file(bench: Bench) -> None:
    bench("Bash", command="seq 1 2000")
    assert bench.ctx.workspace.scratch.folder is None


def test_reading_it_needs_no_permission_and_writing_does(bench: Bench) -> None:
    path = spilled(bench("Bash", command="seq 1 10000").text)
    policy = Policy(bench.ctx.workspace)
    for tool in ("Read", "Grep"):
        args = bench.args(tool, {"file_path": str(path)} if tool == "Read" else {"pattern": "x", "path": str(path)})
        assert policy.decide(tool, TOOLS[tool].effects(args, bench.ctx)).level is Level.ALLOW
    assert policy.decide("Write", (Effect("write", str(path)),)).level is Level.ASK
    assert policy.decide("Read", (Effect("read", str(path.parent.parent / "other")),)).level is Level.ASK
    (path.parent / "link").symlink_to("/etc/passwd")
    link = bench.args("Read", {"file_path": str(path.parent / "link")})
    assert policy.decide("Read", TOOLS["Read"].effects(link, bench.ctx)).level is Level.ASK
    denied = Policy(bench.ctx.workspace, [read_rule("deny", f"Read(/{path})", "test", bench.root)])
    assert denied.decide("Read", (Effect("read", str(path)),)).level is Level.DENY
    (path.parent / "link").unlink()


def test_a_sub_agent_spills_where_its_parent_may_read(bench: Bench) -> None:
    parent = bench.ctx
    bench.ctx = parent.nested()
    path = spilled(bench("Bash", command="seq 1 10000").text)
    assert parent.workspace.may_read(path)


def test_the_file_says_where_it_was_cut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_file, "MAX_FILE_BYTES", 50_000)
    monkeypatch.setattr(output_file, "MAX_TOTAL_BYTES", 80_000)
    text = bench("Bash", command="seq 1 100000").text
    assert "of 588,895 bytes cut here; the first 50,000 bytes are in /" in text
    assert spilled(text).stat().st_size == 50_000
    assert "the first 30,000 bytes are in /" in bench("Bash", command="seq 1 100000").text
    assert "the first 0 bytes" not in bench("Bash", command="seq 1 100000").text


def test_what_a_killed_program_left_is_removed_by_the_next(bench: Bench) -> None:
    code = (
        "import os, pathlib, sys\nfrom tests.support.tool_bench import Bench\n"
        "bench = Bench(pathlib.Path(sys.argv[1]))\nbench('Bash', command='seq 1 10000')\n"
        "print(bench.ctx.workspace.scratch.folder)\nsys.stdout.flush()\nos.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    argv = [sys.executable, "-c", code, str(bench.root)]
    left = Path(subprocess.run(argv, capture_output=True, text=True, check=False, env=env).stdout.strip())
    assert list(left.glob("output-1.txt"))
    path = spilled(bench("Bash", command="seq 1 10000").text)
    assert not left.exists() and path.exists()
    other = Bench(bench.root)
    spilled(other("Bash", command="seq 1 10000").text)
    assert path.exists(), "that one is in use"
    other.ctx.close()


def test_a_full_disk_only_cuts_the_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_file.os, "write", full)
    text = bench("Bash", command="seq 1 100000").text
    assert text.endswith("ms]") or "[exit code 0" in text
    assert "run it again with its output in a file" in text


def test_no_more_than_half_of_what_is_free_is_taken(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_bavail, f_frsize = 100, 1_024

    monkeypatch.setattr(output_file.os, "fstatvfs", lambda fd: Small)
    assert "the first 51,200 bytes are in /" in bench("Bash", command="seq 1 100000").text


FLOOD = """
import pathlib, resource, sys
from tests.support.tool_bench import Bench

bench = Bench(pathlib.Path(sys.argv[1]))
bench("Bash", command="seq 1 10000")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = bench("Bash", command=f"echo BEGIN; head -c {sys.argv[2]} /dev/zero | tr '\\\\0' {sys.argv[3]!r}; echo END").text
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
used = bench.ctx.workspace.scratch.used
print(grown, used, len(text), "BEGIN" in text, "END" in text, sum(map(len, bench.progress)) < 5_000_000)
print(bench.ctx.workspace.scratch.folder)
"""


@pytest.mark.parametrize(
    ("size", "character"),
    [
        (40_000_000, "y"),
        (40_000_000, "\\n"),
        pytest.param(200_000_000, "y", marks=pytest.mark.slow),
        *cases([pytest.param(1_000_000_000, "\\n", marks=pytest.mark.slow)], []),
    ],
)
def test_a_flood_grows_neither_the_process_nor_the_disk(bench: Bench, size: int, character: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    argv = [sys.executable, "-c", FLOOD, str(bench.root), str(size), character]
    out = subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout.split()
    grown = int(out[0]) / (1024 if sys.platform == "darwin" else 1)
    assert grown < 20_000, f"grew by {grown} KB"
    assert int(out[1]) <= min(size + 100_000, output_file.MAX_FILE_BYTES + 100_000)
    assert int(out[2]) < 35_000 and out[3:6] == ["True", "True", "True"]
    assert not Path(out[6]).exists(), "a program that ends leaves nothing behind"
