"""The sandbox and processes: how commands end, that nothing outlives them, and what they can do to others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent_tools.cancel import CancelToken
from tests.support.sandboxes import SandboxTester
from tests.support.waiting import soon


def running(word: str) -> list[int]:
    """The processes that have `word` among their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def test_exit_codes_and_signals_are_passed_on(cage: SandboxTester) -> None:
    assert [cage(f"exit {n}").code for n in (0, 1, 3, 125, 127, 255)] == [0, 1, 3, 125, 127, 255]
    assert cage("kill -SEGV $$").code == -signal.SIGSEGV
    assert cage("kill -TERM $$").code == -signal.SIGTERM
    assert cage(["/no/such/program"]).code != 0


def test_output_of_a_command_that_is_ended_is_kept(cage: SandboxTester) -> None:
    done = cage("echo begun; sleep 60; echo never", seconds=0.5)
    assert done.out == "begun\n" and done.cause == "time-out" and done.seconds < 5


def test_an_interruption_ends_all_of_it(cage: SandboxTester) -> None:
    word = f"60.{os.getpid()}"
    cancel = CancelToken()

    def interrupt() -> None:
        assert soon(lambda: (cage.root / "begun").exists())
        cancel.cancel()

    threading.Thread(target=interrupt).start()
    # The file comes when the output is in the pipe already.
    done = cage(f"echo begun; touch begun; trap '' TERM; sleep {word} & wait", cancel=cancel)
    assert done.cause == "interrupted" and done.out == "begun\n"
    assert done.seconds < 30
    assert soon(lambda: not running(word))


def test_a_daemon_is_ended_with_a_command_that_ran_out_of_time(cage: SandboxTester) -> None:
    word = f"61.{os.getpid()}"
    daemon = f"setsid bash -c 'trap \"\" TERM HUP; touch ready; exec sleep {word}' </dev/null >/dev/null 2>&1 &"
    cage(f"{daemon} while ! [ -e ready ]; do :; done; sleep 60", seconds=1.5)
    assert soon(lambda: not running(word))


def test_a_daemon_is_ended_with_a_command_that_ends(bubblewrap: SandboxTester) -> None:
    word = f"62.{os.getpid()}"
    began = time.monotonic()
    done = bubblewrap(f"(setsid sleep {word} &) ; setsid -f sleep {word}; sleep {word} & echo done")
    assert done.out == "done\n" and time.monotonic() - began < 5
    # `close` has waited for them: not soon, but now.
    assert not running(word)


def test_the_sandbox_ends_with_the_program(cage: SandboxTester) -> None:
    word = f"63.{os.getpid()}"
    command = ["/bin/bash", "-c", f"echo begun > begun; exec /bin/sleep {word}"]
    with cage.sandbox.prepare(command, cage.root, {}, cage.profile()) as ready:
        code = (
            "import subprocess, sys, json; argv, fds = json.loads(sys.argv[1])\n"
            "subprocess.Popen(argv, pass_fds=fds, env={}, start_new_session=True); print(flush=True); sys.stdin.read()"
        )
        argv = [sys.executable, "-I", "-c", code, json.dumps([ready.argv, ready.pass_fds])]
        program = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cage.root, pass_fds=ready.pass_fds
        )
        assert soon(lambda: (cage.root / "begun").exists() and bool(running(word)))
        program.kill()
        program.communicate(timeout=60)
        assert soon(lambda: not running(word))


def test_descriptors_are_given_back(cage: SandboxTester) -> None:
    cage("true")
    before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208
    for _ in range(3):
        cage("exit 1")
        cage("true", network=True)
        cage("sleep 5", seconds=0.1)
    assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_only_the_descriptors_that_are_named_are_inherited(cage: SandboxTester) -> None:
    secret = os.open(cage.home / ".ssh/id_ed25519", os.O_RDONLY)
    heard, found = os.pipe()
    os.set_inheritable(secret, True)
    try:
        listed = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done"
        done = cage(f"echo carried >&{found}; {listed}", inherited=(found,))
        assert os.read(heard, 100) == b"carried\n"
        # Bash has its script at 255 or so; `for` opens the directory itself.
        assert {int(fd) for fd in done.out.split()} - {0, 1, 2, found} <= {3, 255}
        assert "SECRET" not in cage(f"cat <&{secret}").out
    finally:
        for descriptor in (secret, heard, found):
            os.close(descriptor)


@pytest.fixture
def outside() -> subprocess.Popen[bytes]:
    """A process of ours outside, with a secret in its environment."""
    process = subprocess.Popen(["/bin/sleep", "60"], env={"A_KEY": "SECRET"})
    assert soon(lambda: b"SECRET" in Path(f"/proc/{process.pid}/environ").read_bytes())
    yield process  # type: ignore[misc]
    process.kill()
    process.wait()


def test_other_processes_can_neither_be_read_nor_ended(cage: SandboxTester, outside: subprocess.Popen[bytes]) -> None:
    pid = outside.pid
    done = cage(
        f"cat /proc/{pid}/environ /proc/{pid}/root{cage.home}/.ssh/id_ed25519 /proc/{pid}/cwd/x /proc/{pid}/mem\n"
        f"echo x > /proc/{pid}/root{cage.home}/new; kill -9 {pid}; cat /proc/1/environ; ls /proc/{pid}/fd/"
    )
    assert "SECRET" not in done.out and not (cage.home / "new").exists()
    assert outside.poll() is None
    tracing = (
        f"pid = {pid}\nprint(call('ptrace', 0x4206, pid, 0, 0), call('ptrace', 16, pid, 0, 0),"
        "tried(os.pidfd_open, pid), tried(os.kill, pid, 9))"
    )
    found = cage.python(tracing).split()
    assert found[:2] == ["ESRCH", "ESRCH"] if cage.kind == "bubblewrap" else ["EPERM", "EPERM"]
    assert outside.poll() is None


def test_processes_of_its_own_can_be_seen_ended_and_traced(cage: SandboxTester) -> None:
    assert cage("sleep 60 & kill $!; wait $!; echo $?; ps | wc -l").out.startswith("143\n")
    traced = cage.python("pid = os.fork() or print(call('ptrace', 0, 0, 0, 0), flush=True); pid and os.wait()")
    assert traced == ("ok" if cage.kind == "bubblewrap" else "EPERM")


def test_the_processes_of_the_machine_are_not_seen(bubblewrap: SandboxTester) -> None:
    pids = bubblewrap("ls /proc | grep -c '^[0-9]'").out
    assert int(pids) < 10
    assert bubblewrap("tr '\\0' '\\n' < /proc/1/cmdline | head -1").out.strip().endswith("bwrap")


def test_bubblewrap_that_is_killed_while_it_builds_leaves_no_command_running(bubblewrap: SandboxTester) -> None:
    """It binds itself to the life of its parent only at the end of that; whoever closes the sandbox sees to it."""
    word = f"64.{os.getpid()}"
    for tenths in range(0, 80, 4):
        with bubblewrap.sandbox.prepare(["/bin/sleep", word], bubblewrap.root, {}, bubblewrap.profile()) as ready:
            process = subprocess.Popen(ready.argv, env={}, pass_fds=ready.pass_fds, start_new_session=True)
            time.sleep(tenths / 10_000)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert soon(lambda: not running(word)), tenths
