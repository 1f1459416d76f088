"""Background commands: started, looked at, told of, ended; and that none outlives the program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.cancel import CancelledError
from agent_tools.results import Note
from agent_tools.shell import bash, job_tools
from agent_tools.shell.jobs import MAX_RUNNING, Jobs
from tests.support.fork_server import ROOT
from tests.support.tool_bench import Bench
from tests.support.waiting import gone, soon


@pytest.fixture(autouse=True)
def quick(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No call waits longer than it has to; what is left is ended."""
    monkeypatch.setattr(job_tools, "OUTPUT_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(bash, "BACKGROUND_WAIT_SECONDS", 0.0)
    yield
    bench.ctx.close()


@pytest.fixture
def long_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash, "BACKGROUND_WAIT_SECONDS", 2.0)


def start(bench: Bench, command: str, **more: object) -> str:
    """Start a command in the background."""
    text = bench("Bash", command=command, run_in_background=True, **more).text
    found = re.search(r"\[(b\d+) runs in the background", text)
    assert found
    return found[1]


# A command that begins with this says nothing before there is a file "go".
GATE = "until [ -e go ]; do sleep 0.01; done; "


def look(bench: Bench, job: str, until: str, **more: object) -> str:
    """Look until a text is there; all that was said."""
    text = ""

    def seen() -> bool:
        nonlocal text
        text += bench("BashOutput", shell_id=job, **more).text
        return until in text

    assert soon(seen), text
    return text


@pytest.mark.usefixtures("long_moment")
def test_it_returns_soon_with_how_it_begins(bench: Bench) -> None:
    began = time.monotonic()
    result = bench("Bash", command="echo begun; sleep 60", run_in_background=True)
    assert time.monotonic() - began < 10
    assert result.text == "begun\n[b1 runs in the background: BashOutput shows its output, KillShell stops it]"
    assert isinstance(result.display, Note) and bench.progress == ["begun\n"] and not result.is_error


def test_a_look_tells_what_is_new_and_how_it_ended(bench: Bench) -> None:
    os.mkfifo(bench.root / "pipe")
    job = start(bench, "exec 3< pipe; read x <&3; echo got $x; read x <&3; exit 3")
    assert re.fullmatch(r"\(nothing new\)\n\[b1 runs, \d:\d\d\]", bench("BashOutput", shell_id=job).text)
    with (bench.root / "pipe").open("w") as pipe:
        pipe.write("one\n")
        pipe.flush()
        assert look(bench, job, "got one").count("got one") == 1
    found = look(bench, job, "exit code 3")
    assert "got one" not in found and re.search(r"\[b1: exit code 3, after \d:\d\d\]$", found)
    assert "(nothing new)\n[b1: exit code 3" in bench("BashOutput", shell_id=job).text
    assert bench.ctx.notices() == [], "who has seen the end is not told of it"
    assert "No background command has the ID 'b7'. The IDs are: b1." in bench.fails("BashOutput", shell_id="b7")


@pytest.mark.usefixtures("long_moment")
def test_what_ends_in_the_first_moment_is_reported_at_once(bench: Bench) -> None:
    result = bench("Bash", command="echo no; exit 4", run_in_background=True)
    assert re.match(r"no\n\[b1 has already ended: exit code 4, [\d.]+ m?s\]", result.text) and result.is_error
    assert not bench("Bash", command="true", run_in_background=True).is_error
    assert bench.ctx.notices() == []


def test_only_lines_that_match_the_filter_are_shown(bench: Bench) -> None:
    job = start(bench, GATE + "seq 1 20000; echo 'an error: x'; sleep 60")
    go = bench.file("go")
    assert soon(lambda: bench.ctx.state(Jobs).find(job).last(20).endswith("x\n"))
    text = bench("BashOutput", shell_id=job, filter=r"^1234\d$|error").text
    assert text.startswith("".join(f"1234{n}\n" for n in range(10)) + "an error: x\n[b1 runs")
    assert "(nothing new)" in bench("BashOutput", shell_id=job, filter="1").text, "the others are dropped"
    assert "not a valid regex" in bench.fails("BashOutput", shell_id=job, filter="(")
    go.unlink()
    job = start(bench, GATE + "echo one; sleep 60")
    bench.file("go")
    assert soon(lambda: bench.ctx.state(Jobs).find(job).last(20) == "one\n")
    assert "(no new line matches two)" in bench("BashOutput", shell_id=job, filter="two").text


def test_much_output_is_cut_and_spilled(bench: Bench) -> None:
    job = start(bench, GATE + "seq 1 100000; echo done; sleep 60")
    bench.file("go")
    assert soon(lambda: bench.ctx.state(Jobs).find(job).last(10).endswith("done\n"))
    text = bench("BashOutput", shell_id=job).text
    assert text.startswith("1\n2\n") and len(text) < 11_000
    path = re.search(r"all of it is in (/\S+); Grep or Read", text)
    assert path and Path(path[1]).read_text().endswith("\n100000\ndone\n")


def test_kill_shell_ends_the_whole_tree(bench: Bench) -> None:
    child = "(trap '' TERM; echo $BASHPID > child; exec sleep 60) & setsid bash -c 'echo $$ > stray; exec sleep 60' &"
    job = start(bench, f"echo $$ > shell; {child} wait")
    assert soon(lambda: all((bench.root / n).exists() and (bench.root / n).read_text() for n in ("child", "stray")))
    text = bench("KillShell", shell_id=job).text
    assert re.fullmatch(r"\[b1 was stopped: ended on request, after \d:\d\d\]", text)
    for name in ("shell", "child", "stray"):
        assert soon(lambda name=name: gone(int((bench.root / name).read_text()))), name  # type: ignore[misc]
    assert "[b1 had already ended: ended on request" in bench("KillShell", shell_id=job).text
    assert bench.ctx.notices() == []


@pytest.mark.usefixtures("long_moment")
def test_kill_shell_ends_what_an_ended_command_left(bench: Bench) -> None:
    text = bench("Bash", command="sleep 60 & echo $! > left", run_in_background=True).text
    assert "exit code 0; something it started still runs in the background" in text
    bench("KillShell", shell_id="b1")
    assert soon(lambda: gone(int((bench.root / "left").read_text())))


def test_an_interruption_of_the_turn_does_not_touch_it(bench: Bench) -> None:
    job = start(bench, "sleep 60")
    bench.ctx.cancel.cancel()
    with pytest.raises(CancelledError):
        bench("BashOutput", shell_id=job)
    assert bench.ctx.state(Jobs).find(job).running


def test_a_time_limit_holds_where_one_is_given(bench: Bench) -> None:
    job = start(bench, "sleep 60", timeout=300)
    assert "[b1: timed out after 0.3 s, after " in look(bench, job, "timed out")


def test_the_end_is_shown_once_to_whoever_began_it(bench: Bench) -> None:
    parent = bench.ctx
    start(bench, GATE + "printf 'last\\nwords\\033[0m\\n'; exit 2")
    bench.ctx = parent.nested()
    start(bench, GATE + "true")
    bench.file("go").touch()
    assert soon(lambda: not any(job.running for job in parent.state(Jobs).all()))
    assert [n[:24] for n in bench.ctx.notices()] == ["[Background command b2 ("]
    text = r"\[Background command b1 \(until .*\) ended after \d:\d\d: exit code 2; last output: \"last\\nwords\"\]"
    (notice,) = parent.notices()
    assert re.fullmatch(text, notice)
    assert parent.notices() == [] == bench.ctx.notices()
    (bench.root / "go").unlink()
    start(bench, GATE + "true")
    bench.file("go")
    assert soon(lambda: not any(job.running for job in parent.state(Jobs).all()))
    assert len(parent.notices()) == 1, "a sub-agent's, when it is no longer there to be told"


@pytest.mark.usefixtures("long_moment")
def test_a_background_command_carries_nothing_over(bench: Bench) -> None:
    (bench.root / "a").mkdir()
    bench("Bash", command="export X=1")
    assert bench("Bash", command="echo $X; export X=2; cd a", run_in_background=True).text.startswith(
        "1\n[b1 has already ended"
    )
    assert bench("Bash", command="echo $X; pwd").text.startswith(f"1\n{bench.root}\n")


def test_there_are_no_more_than_a_few_at_once(bench: Bench) -> None:
    for _ in range(MAX_RUNNING):
        start(bench, "sleep 60")
    found = bench.fails("Bash", command="sleep 60", run_in_background=True)
    assert (
        found
        == "8 background commands are already running (b1, b2, b3, b4, b5, b6, b7, b8). Stop one with KillShell first."
    )
    bench("KillShell", shell_id="b3")
    assert start(bench, "sleep 60") == "b9"
    began = time.monotonic()
    bench.ctx.close()
    assert time.monotonic() - began < 5 and not any(job.running for job in bench.ctx.state(Jobs).all())


def test_no_descriptor_or_thread_is_left(bench: Bench) -> None:
    def count() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    bench("Bash", command="true")
    before = count()
    for _ in range(3):
        bench("KillShell", shell_id=start(bench, "sleep 60"))
    bench.ctx.close()
    assert count() == before


PROGRAM = """
import os, pathlib, sys, time
from tests.support.tool_bench import Bench

bench = Bench(pathlib.Path(sys.argv[1]))
child = "(trap '' TERM HUP INT; echo $BASHPID > child; exec sleep 60) & "
stray = "setsid bash -c 'echo $$ > stray; exec sleep 60' & "
bench("Bash", command="echo $$ > shell; " + child + stray + "wait", run_in_background=True)
while not all(p.exists() and p.read_text().strip() for p in (bench.root / n for n in ("shell", "child", "stray"))):
    time.sleep(0.01)
print("ready", flush=True)
if sys.argv[2] == "exit":
    sys.exit()
if sys.argv[2] == "os._exit":
    os._exit(1)
if sys.argv[2] == "raise":
    raise RuntimeError
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="NOT TESTED: there is no /proc here")
@pytest.mark.parametrize("how", ["exit", "os._exit", "raise", "TERM", "HUP", "INT", "KILL"])
def test_nothing_outlives_the_program_however_it_ends(bench: Bench, how: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    argv = [sys.executable, "-c", PROGRAM, str(bench.root), how]
    program = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    if how.isupper():
        program.send_signal(getattr(signal, f"SIG{how}"))
    program.wait(10)
    program.stdout.close()
    for name in ("shell", "child", "stray"):
        assert soon(lambda name=name: gone(int((bench.root / name).read_text()))), name  # type: ignore[misc]


def test_a_command_past_its_time_goes_on_and_its_output_is_read_on(bench: Bench) -> None:
    result = bench("Bash", command="echo begun; " + GATE + "echo done; exit 3", timeout=300)
    assert not result.is_error and result.text.startswith("begun\n[still running after ")
    assert "now in the background as b1: BashOutput shows its output, KillShell stops it]" in result.text
    assert "".join(bench.progress) == "begun\n" and isinstance(result.display, Note)
    bench.file("go")
    found = bench("BashOutput", shell_id="b1", timeout=60_000).text
    assert "begun" not in found and found.startswith("done\n[b1: exit code 3, after ")
    assert "must be positive" in bench.fails("BashOutput", shell_id="b1", timeout=0)


def test_a_command_that_goes_on_is_stopped_with_its_children(bench: Bench) -> None:
    bench("Bash", command="sleep 60 & echo $! > child; wait", timeout=300)
    assert "[b1 was stopped" in bench("KillShell", shell_id="b1").text
    assert soon(lambda: gone(int((bench.root / "child").read_text())))


def test_a_command_that_goes_on_ends_with_the_conversation(bench: Bench) -> None:
    bench("Bash", command="echo $$ > shell; exec sleep 60", timeout=300)
    bench.ctx.close()
    assert soon(lambda: gone(int((bench.root / "shell").read_text())))


def test_what_carries_over_comes_from_later_commands_only(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    bench("Bash", command="cd sub; export A=1; " + GATE, timeout=300)
    bench.file("sub/go")
    assert bench.ctx.state(Jobs).find("b1").wait_end(20)
    assert bench("Bash", command="pwd; echo ${A-none}").text.startswith(f"{bench.root}\nnone\n")


def test_no_more_commands_go_on_than_may_run_at_once(bench: Bench) -> None:
    for _ in range(MAX_RUNNING):
        start(bench, "sleep 60")
    text = bench("Bash", command="echo $$ > shell; sleep 60", timeout=300).text
    assert "timed out after 0.3 s; the command and its children were killed, as 8 background commands are" in text
    assert soon(lambda: gone(int((bench.root / "shell").read_text())))


def test_an_interrupted_command_is_ended_also_at_its_time_limit(bench: Bench) -> None:
    args = bench.args("Bash", {"command": "echo begun; sleep 60", "timeout": 200})
    running = bash.Bash().run(args, bench.ctx)
    next(running)
    limit = time.monotonic() + 0.3
    bench.ctx.cancel.cancel()
    assert soon(lambda: time.monotonic() > limit)
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert "interrupted by the user" in stop.value.value.text and not bench.ctx.state(Jobs).all()
