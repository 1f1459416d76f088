"""The process that answers hooks faster than a new one could, and what happens without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gate_hooks import READ, bash, sent, verdict
from tests.support.program import agent, clean_env
from tests.support.waiting import soon


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder whose name is so short that a socket can be in it."""
    with tempfile.TemporaryDirectory(prefix="g", dir="/tmp") as base:
        folder = Path(base) / "work"
        folder.mkdir()
        (folder / "a.txt").write_text("one\n")
        yield folder


def servers(work: Path) -> list[int]:
    """The processes that answer for this state folder."""
    home = str(work.parent / "home/state/gate")
    found = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "extras.gate.server" in line and home in line]


def ask(work: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return agent(["gate", "decide", "claude", *words], work, stdin=text)


def sockets(work: Path) -> list[Path]:
    return list((work.parent / "home/state/gate").glob("*.sock"))


def test_the_second_call_is_answered_by_a_process_with_everything_loaded(work: Path) -> None:
    """With the settings, folder and variables of the call; when its socket is gone, it ends."""
    read = sent("claude", "before", work, READ["claude"])
    assert verdict("claude", ask(work, read).stdout)[0] == "allow"
    assert soon(lambda: bool(sockets(work)), 60)
    (pid,) = servers(work)
    assert verdict("claude", ask(work, read).stdout)[0] == "allow"
    (work.parent / "home/.agentrc").write_text("[permissions]\ndeny = ['Read(a.txt)']\n")
    assert verdict("claude", ask(work, read).stdout)[0] == "deny"
    assert servers(work) == [pid]
    done = ask(work, "no json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "so it is refused" in done.stderr
    sockets(work)[0].unlink()
    assert soon(lambda: not servers(work), 60)


def test_an_answer_that_cannot_be_written_refuses_the_call_in_one_sentence(work: Path) -> None:
    read = sent("claude", "before", work, READ["claude"])
    command = [sys.executable, "-m", "agent_cli", "gate", "decide", "claude"]
    env = clean_env(work.parent / "home")

    def fill() -> tuple[int, str]:
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                command, cwd=work, env=env, input=read, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        return done.returncode, done.stderr

    why = "cannot write to standard output: No space left on device"
    refused = 2, f"agent gate could not answer, so the call is refused: {why}.\n"
    assert fill() == refused
    assert soon(lambda: bool(sockets(work)), 60)
    assert fill() == refused, "by the process that has everything loaded"
    assert not list((work.parent / "home").rglob("crashes/*"))
    sockets(work)[0].unlink()
    assert soon(lambda: not servers(work), 60)


def test_a_process_that_dies_refuses_the_call_and_is_replaced(work: Path) -> None:
    read = sent("claude", "before", work, READ["claude"])
    ask(work, read)
    assert soon(lambda: bool(sockets(work)), 60)
    command = ["gate", "decide", "claude"]
    env = clean_env(work.parent / "home")
    with subprocess.Popen(
        [sys.executable, "-m", "agent_cli", *command], cwd=work, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as hook:  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(sent("claude", "before", work, bash("claude", "touch b")))
        hook.stdin.close()
        hook.stdin = None
        assert soon(lambda: len(servers(work)) == 2, 60)  # one is the fork for this call
        for pid in servers(work):
            os.kill(pid, signal.SIGKILL)
        out, err = hook.communicate(timeout=60)
    assert (hook.returncode, out) == (2, "")
    assert "so it is refused" in err
    assert verdict("claude", ask(work, read).stdout)[0] == "allow"
    assert soon(lambda: bool(servers(work)), 60)
    for pid in servers(work):
        os.kill(pid, signal.SIGTERM)
