"""One-shot runs that are interrupted, whose reader goes away, or whose input stays silent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from agent_cli.shells.headless.input import compose_prompt, read_stdin
from tests.support.hypothesis_examples import cases
from tests.support.model_server import ModelServer, Reply
from tests.support.program import clean_env
from tests.support.scripts import call, script
from tests.support.waiting import soon


def begin(work: Path, args: list[str], stdin: int = subprocess.DEVNULL, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "-p", *args],
        cwd=work,
        env=clean_env(work.parent / "home", **env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_during_a_stalled_answer_still_prints_the_result(work: Path, number: int, code: int) -> None:
    with ModelServer([Reply(text="half an answer", stall="middle")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        run = begin(work, ["--model", "openai/m", "--output-format", "json", "q"], **env)
        assert server.stalled.wait(20)
        run.send_signal(number)
        out, err = run.communicate(timeout=10)
    assert run.returncode == code, err
    found = json.loads(out)
    assert (found["outcome"], found["end_reason"]) == ("interrupted", "interrupted")
    assert (found["subtype"], found["terminal_reason"]) == ("error_during_execution", "aborted_streaming")


def test_a_signal_before_the_first_request_is_not_lost(work: Path) -> None:
    # The line that says what the run works with comes before the turn; a full pipe holds the program there.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b" " * 512)
    os.set_blocking(writer, True)
    model = script(work / "s.toml", [{"text": "Never said."}])
    args = [sys.executable, "-m", "agent_cli", "-p", "--output-format", "stream-json", "--model", model, "q"]
    run = subprocess.Popen(args, cwd=work, env=clean_env(work.parent / "home"), stdin=subprocess.DEVNULL, stdout=writer)
    os.close(writer)
    assert soon(lambda: catches(run.pid, signal.SIGTERM), 20)
    run.send_signal(signal.SIGTERM)
    with os.fdopen(reader) as lines:
        last = json.loads(lines.read().splitlines()[-1])
    assert (run.wait(20), last["outcome"]) == (143, "interrupted")


def test_an_interrupt_while_the_program_starts_shows_no_traceback(work: Path) -> None:
    # Ctrl-C while one of the first modules is imported.
    code = """if True:
        import os, runpy, signal, sys
        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == "agent_tools.process.hardening":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupting())
        sys.argv = ["agent", "tools", "list"]
        runpy.run_module("agent_cli", run_name="__main__")
    """
    env = clean_env(work.parent / "home")
    done = subprocess.run([sys.executable, "-c", code], cwd=work, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_that_python_drops_is_delivered_again(work: Path) -> None:
    # In the callback of a weak reference, as the import system has them, Python prints KeyboardInterrupt and goes on.
    # As on a busy machine, each start of a thread takes longer than the second delivery waits at least.
    code = """if True:
        import _thread, os, signal, sys, threading, time, weakref
        start = _thread.start_new_thread
        _thread.start_new_thread = threading._start_new_thread = lambda *words: (start(*words), time.sleep(0.1))[0]
        from agent_cli import __main__ as program
        class Gone: pass
        def dispatch(argv):
            gone = Gone()
            reference = weakref.ref(gone, lambda _: os.kill(os.getpid(), signal.SIGINT))
            del gone
            time.sleep(20)
            return 0
        program.dispatch = dispatch
        program.main()
    """
    env = clean_env(work.parent / "home")
    done = subprocess.run([sys.executable, "-c", code], cwd=work, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def catches(pid: int, number: int) -> bool:
    """Return True if a process handles a signal itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) & 1 << (number - 1))


def test_a_run_under_nohup_outlives_its_terminal(work: Path) -> None:
    with ModelServer([Reply(text="Still here.", drip=0.002)]) as server:
        command = f'trap "" HUP; exec "{sys.executable}" -m agent_cli -p --model openai/m q'
        env = clean_env(work.parent / "home", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.openai_url)
        run = subprocess.Popen(
            ["bash", "-c", command], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert soon(lambda: bool(server.requests), 20)
        run.send_signal(signal.SIGHUP)
        assert (run.communicate(timeout=30)[0], run.returncode) == ("Still here.\n", 0)


def test_a_signal_during_a_command_ends_its_whole_group(work: Path) -> None:
    os.mkfifo(work / "pid")
    command = "echo $$ > pid; trap '' TERM; sleep 300 & while true; do sleep 0.1; done"
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "never"}])
    run = begin(work, ["--model", model, "--allowedTools", "Bash", "--", "q"])
    pid = int((work / "pid").read_text())
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=10)
    assert run.returncode == 143
    assert running_in_group(pid) == []


@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_a_killed_program_takes_its_command_along(work: Path, sandbox: str) -> None:
    # One in the group, and one that has left it.
    command = "setsid sleep 3117 & sleep 3118 & echo > begun; wait"
    os.mkfifo(work / "begun")
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "never"}])
    run = begin(work, ["--model", model, "--allowedTools", "Bash", "--", "q"], AGENT_SANDBOX_MODE=sandbox)
    (work / "begun").read_text()
    mark = str(work)
    # The shell has begun before what it starts.
    until = time.monotonic() + 20
    while len(of_folder(mark)) < 3:
        assert time.monotonic() < until, of_folder(mark)
        time.sleep(0.02)
    run.kill()
    run.communicate()
    until = time.monotonic() + 20
    while left := of_folder(mark):
        assert time.monotonic() < until, left
        time.sleep(0.05)


def of_folder(folder: str) -> list[str]:
    """The processes with this working directory, without zombies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((entry / "cwd").readlink()) == folder and "sleep" in (entry / "cmdline").read_text():
                found.append((entry / "cmdline").read_text())
    return found


def running_in_group(group: int) -> list[str]:
    """The processes of a group, without zombies that a container's init has not reaped."""
    found = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()]
    return [row[2] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


def test_a_reader_that_goes_away_is_exit_141(work: Path) -> None:
    model = script(work / "s.toml", [{"text": " ".join(map(str, range(60_000)))}])
    run = begin(work, ["--model", model, "q"])
    assert run.stdout is not None
    run.stdout.close()
    assert run.stderr is not None
    err = run.stderr.read()
    assert run.wait(timeout=20) == 141
    assert "Traceback" not in err


def test_a_silent_pipe_is_waited_for_and_then_left() -> None:
    reads, writes = os.pipe()
    said: list[str] = []
    try:
        piped = read_stdin(reads, 100, 0.2, said.append)
    finally:
        os.close(reads)
        os.close(writes)
    assert said[-1] == "Nothing arrived on standard input for 0.2 s and was not read."
    assert "stayed silent, and was not read" in compose_prompt("q", piped, 100)


def test_a_slow_pipe_is_read(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Ok.", "expect": "q\nlate"}])
    run = begin(work, ["--model", model, "q"], subprocess.PIPE)
    assert run.stderr is not None
    assert "Waiting up to 30 s for standard input" in run.stderr.readline()
    out, _ = run.communicate("late", timeout=20)
    assert (run.returncode, out) == (0, "Ok.\n")


def test_closed_descriptors_do_not_break_the_run(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Ok."}])
    for closing in ("<&-", "2>&-"):
        done = subprocess.run(
            ["bash", "-c", f'"{sys.executable}" -m agent_cli -p --model "{model}" q {closing}'],
            cwd=work,
            env=clean_env(work.parent / "home"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "Ok.\n"), (closing, done.stderr)


ANSWER, *OTHERS = "-p --model {model} q", "-p --output-format json --model {model} q", "doctor", "-V", "--help"
CLOSED = (">&-", "> /dev/full", "<&- >&-", ">&- 2>&-")


@pytest.mark.parametrize(
    ("words", "unbuffered", "to"),
    # An answer in every way, and each other output in two; with EXAMPLES=all, all of them in all.
    cases(
        list(product((ANSWER, *OTHERS), ("", "1"), CLOSED)),
        [
            *product((ANSWER,), ("", "1"), CLOSED),
            *((words, *case) for words in OTHERS for case in (("", "> /dev/full"), ("1", ">&- 2>&-"))),
        ],
    ),
)
def test_output_that_cannot_be_written_is_one_sentence_and_no_crash(
    work: Path, words: str, to: str, unbuffered: str
) -> None:
    model = script(work / "s.toml", [{"text": "The answer."}])
    home = work.parent / "home"
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m agent_cli {words.format(model=model)} {to}'],
        cwd=work,
        env=clean_env(home, PYTHONUNBUFFERED=unbuffered),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    if "2>" not in to:
        assert done.stderr.splitlines()[-1].startswith("agent: cannot write to standard output: ")
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert not list(home.rglob("crashes/*"))
    assert not [p for p in home.rglob("*.json") if "The answer." in p.read_text()], "nor does it go to another file"
