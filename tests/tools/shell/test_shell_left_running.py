"""What a command leaves running when it ends: kept as a background command, in the sandbox and outside."""

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

from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell import job_tools, process, strays
from agent_tools.shell.jobs import MAX_RUNNING, Jobs
from tests.support.fork_server import ROOT
from tests.support.sandboxes import SandboxedBench, missing
from tests.support.tool_bench import Bench
from tests.support.waiting import gone, soon

# Prints a line for each file `say-N` that appears, and ends with a file `stop`.
SERVER = """
import os, time
n = 0
while not os.path.exists("stop"):
    if os.path.exists(f"say-{n}"):
        os.write(1, f"line {n}\\n".encode())
        n += 1
    time.sleep(0.01)
os.write(1, b"bye\\n")
"""


@pytest.fixture(params=["inside", "outside"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench with a server to start, whose commands run in the sandbox, or outside."""
    monkeypatch.setattr(job_tools, "OUTPUT_WAIT_SECONDS", 0.05)
    if request.param == "inside":
        from agent_tools.sandbox.conditions import SandboxLimits

        made = SandboxedBench(tmp_path, SandboxLimits()).bench
    else:
        made = Bench(tmp_path)
    made.file("server.py", SERVER)
    made.file("start.sh", f"#!/bin/bash\n{sys.executable} server.py >log 2>&1 &\necho started\n").chmod(0o755)
    made.file(
        "daemon.py",
        "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        "out = os.open('log', os.O_WRONLY | os.O_CREAT)\nos.dup2(out, 1); os.dup2(out, 2)\n"
        f"os.execv({sys.executable!r}, ['python', 'server.py'])\n",
    )
    yield made
    made.file("stop")
    made.ctx.close()
    sandbox = made.ctx.supplied(SandboxRunner)
    if sandbox is not None:
        sandbox.close()


PYTHON = sys.executable


@pytest.mark.parametrize(
    "command",
    [
        f"{PYTHON} server.py &",
        f"{PYTHON} server.py & echo started",
        f"nohup {PYTHON} server.py >log 2>&1 & echo started",
        f"setsid {PYTHON} server.py >log 2>&1 & echo started",
        f"({PYTHON} server.py >log 2>&1 &) ; echo started",
        f"{PYTHON} server.py >log 2>&1 & disown; echo started",
        "./start.sh",
        f"{PYTHON} daemon.py; echo started",
        f"{PYTHON} server.py >log 2>&1 & exec true",
    ],
)
def test_a_server_that_a_command_leaves_running_is_kept_as_a_job(bench: Bench, command: str) -> None:
    done = bench("Bash", command=command, timeout=20_000)
    assert not done.is_error and "exit code 0" in done.text
    found = re.search(r"what it left running \((.*)\) is now (b1) in the background: BashOutput", done.text)
    assert found and "server.py" in found[1], done.text
    (job,) = bench.ctx.state(Jobs).all()
    assert job.running and job.command == command
    bench.file("say-0")
    if "log" in command or ("start" in command.split()[-1] and "&" not in command):
        assert soon(lambda: "line 0" in (bench.root / "log").read_text())
    assert bench("Bash", command="cat say-0; echo next", timeout=20_000).text.startswith("next\n")
    bench.file("stop")
    assert soon(lambda: not job.running), job.state
    assert job.state == "exit code 0" and bench.ctx.notices()


@pytest.mark.parametrize("numbers", ["many were given since", "began again", "are not told"])
def test_a_daemon_is_found_whatever_the_numbers_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: str
) -> None:
    if numbers == "many were given since":
        monkeypatch.setattr(strays, "_MAX_NUMBERS", 0)
    else:
        monkeypatch.setattr(strays, "_last_number", lambda: 1 if numbers == "began again" else -1)
    bench = Bench(tmp_path)
    done = bench("Bash", command="(setsid sleep 60 >/dev/null 2>&1 &); echo started")
    try:
        assert "sleep 60" in done.text
    finally:
        bench.ctx.close()


def test_its_further_output_is_read_with_the_job_tools(bench: Bench) -> None:
    done = bench("Bash", command=f"echo first; {PYTHON} -u server.py &")
    assert done.text.startswith("first\n[exit code 0")
    for number in range(3):
        bench.file(f"say-{number}")
        assert soon(lambda: f"line {number}" in bench("BashOutput", shell_id="b1").text)  # noqa: B023
    bench.file("stop")
    assert "bye" in bench("BashOutput", shell_id="b1", timeout=10_000).text
    assert soon(lambda: not bench.ctx.state(Jobs).find("b1").running)


def test_it_is_ended_on_request(bench: Bench) -> None:
    bench("Bash", command=f"{PYTHON} server.py & echo $! > pid; setsid {PYTHON} server.py & echo ok")
    assert "b1 was stopped" in bench("KillShell", shell_id="b1").text
    assert not bench.ctx.state(Jobs).find("b1").running
    bench.file("say-0")
    assert "line" not in bench("BashOutput", shell_id="b1").text


def test_the_result_of_the_command_itself_is_its_own(bench: Bench) -> None:
    failed = bench("Bash", command=f"{PYTHON} server.py & cd /tmp; export KEPT=yes; exit 3")
    assert failed.is_error and "[exit code 3" in failed.text and "is now b1" in failed.text
    assert bench("Bash", command="echo $KEPT").text.startswith("yes\n")
    killed = bench("Bash", command=f"{PYTHON} server.py & kill -TERM $$")
    assert "SIGTERM" in killed.text and "is now b2" in killed.text


def test_what_ends_by_itself_at_once_is_no_job(bench: Bench) -> None:
    done = bench("Bash", command="sleep 0.02 & (sleep 0.03; echo late) & echo now")
    assert "b1" not in done.text and "late" in done.text and not bench.ctx.state(Jobs).all()
    assert "b1" not in bench("Bash", command="echo x | cat; true & wait; ls | head -1").text


@pytest.mark.parametrize("command", ["true", "echo x | cat", "(true)", "sleep 0.01 & wait", "exec true", "kill $$"])
def test_a_command_that_leaves_nothing_running_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(process, "_ENDING_SECONDS", 60)
    bench = Bench(tmp_path)
    began = time.monotonic()
    bench("Bash", command=command)
    assert time.monotonic() - began < 30
    bench.ctx.close()


def test_a_background_command_leaves_a_job_too(bench: Bench) -> None:
    bench("Bash", command=f"{PYTHON} server.py & echo started; exit 4", run_in_background=True)
    jobs = bench.ctx.state(Jobs)
    assert soon(lambda: not jobs.find("b1").running)
    assert jobs.find("b1").state.startswith("exit code 4; something it started still runs")
    assert soon(lambda: len(jobs.all()) == 2) and jobs.find("b2").running
    bench.file("say-0")
    assert soon(lambda: "line 0" in bench("BashOutput", shell_id="b2").text)
    bench.file("stop")
    assert soon(lambda: not jobs.find("b2").running)


def test_a_command_that_is_continued_after_its_time_limit_leaves_one_as_well(bench: Bench) -> None:
    command = f"{PYTHON} server.py & until [ -e go ]; do sleep 0.01; done"
    assert "now in the background as b1" in bench("Bash", command=command, timeout=300).text
    bench.file("go")
    jobs = bench.ctx.state(Jobs)
    assert soon(lambda: not jobs.find("b1").running)
    assert soon(lambda: len(jobs.all()) == 2) and jobs.find("b2").running


def test_what_cannot_be_kept_is_named(bench: Bench) -> None:
    for _ in range(MAX_RUNNING):
        bench("Bash", command="until [ -e stop ]; do sleep 0.05; done", run_in_background=True)
    done = bench("Bash", command=f"{PYTHON} server.py & echo $! > pid; echo started")
    assert "exit code 0" in done.text and "what it left running was ended" in done.text and "server.py" in done.text
    assert len(bench.ctx.state(Jobs).all()) == MAX_RUNNING


def test_all_jobs_end_with_the_conversation(bench: Bench) -> None:
    bench("Bash", command=f"{PYTHON} -u server.py > log & echo ok")
    (job,) = bench.ctx.state(Jobs).all()
    bench.ctx.close()
    assert not job.running
    bench.file("say-0")
    assert "line" not in (bench.root / "log").read_text()


def test_outside_a_daemon_stays_and_a_background_process_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    # `timeout` and job control only leave the group.
    for first in ("", "timeout 60 ", "set -m; ", "setsid "):
        bench("Bash", command=f"{first}sleep 60 >/dev/null 2>&1 & echo $! > pid")
        pid = int((tmp_path / "pid").read_text())
        assert [job.running for job in bench.ctx.state(Jobs).all()] == [True]
        assert soon(lambda: len(bench.ctx.outliving()) == (first == "setsid "))  # noqa: B023
        assert len(bench.ctx.unfinished()) == (first != "setsid ")
        bench.ctx.close()
        assert not gone(pid) if first == "setsid " else soon(lambda: gone(pid))  # noqa: B023
        bench = Bench(tmp_path)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("inside", [True, False])
def test_nothing_outlives_a_program_that_is_killed(tmp_path: Path, inside: bool) -> None:
    if inside and (reason := missing("bubblewrap")):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    (tmp_path / "work").mkdir()
    code = (
        "import sys, os\nfrom pathlib import Path\nfrom tests.support.tool_bench import Bench\n"
        "from tests.support.sandboxes import SandboxedBench\nfrom agent_tools.sandbox.conditions import SandboxLimits\n"
        "made = SandboxedBench(Path(sys.argv[1]) / 'sandboxed', SandboxLimits()).bench if sys.argv[2] == 'True' else "
        "Bench(Path(sys.argv[1]) / 'work')\n"
        "made('Bash', command='while sleep 0.02; do echo x >> beats; done & echo started')\n"
        "print(made.root, flush=True)\nsys.stdin.read()\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(inside)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert program.stdout is not None
    beats = Path(program.stdout.readline().strip()) / "beats"
    assert soon(beats.exists)
    program.kill()
    program.communicate()

    def still() -> bool:
        size = beats.stat().st_size
        time.sleep(0.1)
        return beats.stat().st_size == size

    assert soon(still)


def test_a_command_that_is_watched_has_the_environment_of_another(bench: Bench) -> None:
    command = "env | grep -E '^(SHLVL|PWD|OLDPWD|BASH.*|FOO|_)=' | sort; readlink /proc/self/fd/0; ls /proc/self/fd"
    bench.ctx.env |= {"FOO": "a\nb", "SHLVL": "3", "BASH_FUNC_f%%": "() { :; }"}
    kept = bench("Bash", command=command).text.splitlines()[:-1]
    plain = bench("Bash", command=command, pty=True).text
    assert "SHLVL=4" in kept and f"PWD={bench.root}" in kept and "/dev/null" in kept
    assert all(line.strip() in plain for line in kept if line.startswith(("SHLVL", "PWD", "FOO", "BASH")))
