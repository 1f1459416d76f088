"""Programs started without the module subprocess: what they get, how they end, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_tools.process.child import BriefChild, StuckError, collect, read_until_exit

SHELL = "/bin/sh"
ENV = {"PATH": os.defpath}


def started(script: str, env: dict[str, str] | None = None) -> BriefChild:
    return BriefChild([SHELL, "-c", script], ENV if env is None else env)


def test_both_streams_and_the_exit_code_come_back() -> None:
    process = started("echo out; echo err >&2; exit 3")
    assert collect(process, b"", 10, 1 << 20) == (b"out\n", b"err\n")
    assert process.returncode == process.poll() == process.wait() == 3


def test_it_has_the_given_environment_and_no_input() -> None:
    process = started('read line; echo "[$line] $NAME ${HOME-none}"', ENV | {"NAME": "käse"})
    assert collect(process, b"", 10, 1 << 20)[0].decode() == "[] käse none\n"


def test_a_signal_is_a_negative_exit_code() -> None:
    process = started("kill -TERM $$")
    collect(process, b"", 10, 1 << 20)
    assert process.returncode == -signal.SIGTERM


def test_it_leads_a_group_that_ends_with_the_time(tmp_path: Path) -> None:
    process = started("sleep 1000 & echo $!; wait")
    assert os.getpgid(process.pid) == process.pid
    with pytest.raises(TimeoutError):
        collect(process, b"", 0.3, 1 << 20)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        until = time.monotonic() + 10
        while time.monotonic() < until:
            os.killpg(process.pid, 0)


def test_one_that_closes_its_output_and_goes_on_is_ended() -> None:
    process = started("exec >&- 2>&-; sleep 1000")
    assert read_until_exit(process, b"", 0.3, 1 << 20).cause == "time-out"
    assert process.returncode == -signal.SIGKILL


def test_too_much_output_ends_it() -> None:
    with pytest.raises(OverflowError):
        collect(started("yes"), b"", 10, 1_000)


def test_what_it_waits_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.process.child.STUCK_SECONDS", 0.1)
    with pytest.raises(StuckError, match="a pipe"):
        collect(started("sleep 1000"), b"", 10, 1_000, lambda: "a pipe")


def test_a_program_that_is_not_there_leaves_no_open_file() -> None:
    before = set(Path("/dev/fd").iterdir())
    with pytest.raises(FileNotFoundError):
        BriefChild(["/nonexistent/program"], ENV)
    assert set(Path("/dev/fd").iterdir()) == before


def test_it_inherits_no_file_but_its_streams() -> None:
    reading, writing = os.pipe()
    try:
        process = started("for fd in 3 4 5 6 7 8 9; do (: >&$fd) 2>/dev/null && echo $fd; done; true")
        assert collect(process, b"", 10, 1 << 20)[0] == b""
    finally:
        os.close(reading)
        os.close(writing)


def test_it_does_not_ignore_a_closed_pipe() -> None:
    """Python ignores SIGPIPE; a program that inherited that would report an error instead of ending."""
    process = started("sh -c 'kill -PIPE $$; echo ignored'")
    assert b"ignored" not in collect(process, b"", 10, 1 << 20)[0]


def test_starting_and_reading_one_imports_no_subprocess() -> None:
    script = (
        "import sys\nfrom agent_tools.process.child import BriefChild, collect\n"
        "process = BriefChild(['/bin/sh', '-c', 'echo hi'], {})\n"
        "assert collect(process, b'', 10, 100)[0] == b'hi\\n'\nprint('subprocess' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
