"""A program that is killed outright (kill -9, SIGQUIT), at whatever moment, leaves no process behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import clean_env
from tests.support.scripts import call, script

# A grandchild in the group, one that has left it, one whose parents are gone, and one that ignores what can be ignored.
TREE = (
    "sleep 3131 & setsid sleep 3132 & (setsid sh -c 'sleep 3133 &' &);"
    " sh -c \"trap '' TERM HUP INT QUIT; sleep 3134\" & {then}; wait"
)
KINDS = ("command", "job", "hook", "mcp", "key")


def begin(work: Path, kind: str, then: str) -> subprocess.Popen[bytes]:
    """The program while something of this kind runs the tree."""
    home, tree = work.parent / "home", TREE.format(then=then)
    home.mkdir()
    arguments = {"command": tree} | ({"run_in_background": True} if kind == "job" else {})
    calls = [call("Bash", **arguments), call("Bash", command="sleep 3135")] if kind in ("command", "job") else []
    settings: dict[str, Any] = {"sandbox": {"mode": "off"}}
    if kind == "hook":
        settings["hooks"] = [{"event": "UserPromptSubmit", "command": tree}]
    elif kind == "mcp":
        settings["mcp"] = {"servers": {"s": {"command": "bash", "args": ["-c", tree]}}}
    elif kind == "key":
        settings |= {"key_command": tree}
    (home / ".agentrc").write_text(json.dumps(settings))
    model = script(work.parent / "s", [*([{"calls": calls}] if calls else []), {"text": "Hi.", "pause": 30}])
    model = "openai/gpt-5" if kind == "key" else model
    argv = [sys.executable, "-m", "agent_cli", "-p", "--model", model, "--allowedTools", "Bash", "--", "q"]
    return subprocess.Popen(
        argv, cwd=work, env=clean_env(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, process_group=0,
    )  # fmt: skip


def of_folder(folder: Path) -> list[str]:
    """The processes, zombies aside, with this working directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == folder and (line := (entry / "cmdline").read_text()):
                found.append(line.replace("\0", " "))
    return found


def nothing_left(work: Path) -> None:
    until = time.monotonic() + 30
    while left := of_folder(work):
        assert time.monotonic() < until, left
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: there is no /proc here")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGQUIT])
def test_nothing_of_what_it_ran_is_left(work: Path, kind: str, how: signal.Signals) -> None:
    os.mkfifo(work / "begun")
    run = begin(work, kind, "echo > begun")
    (work / "begun").read_text()
    until = time.monotonic() + 10
    while len(of_folder(work)) < 5:
        assert time.monotonic() < until
        time.sleep(0.02)
    run.send_signal(how)
    assert run.wait(30) == -how
    nothing_left(work)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: there is no /proc here")
@pytest.mark.parametrize("moment", range(6))
def test_nor_at_any_moment_of_the_beginning(work: Path, moment: int) -> None:
    """Killed as soon as there is something of it to be seen, and a little later each time."""
    run = begin(work, "command", "true")
    seen: list[str] = []
    while len(seen := of_folder(work)) < 1 + moment and run.poll() is None:
        pass
    run.send_signal(signal.SIGQUIT if moment % 2 else signal.SIGKILL)
    run.wait(30)
    assert seen
    nothing_left(work)


def test_without_proc_children_are_known_by_their_parents(tmp_path: Path) -> None:
    """As on macOS, where no environment of another process can be read."""
    reaper = Path(__file__).parents[2] / "tools/agent_tools/process/reaper.bash"
    tree = "setsid sleep 3141 & sleep 3142 & echo; wait"
    with subprocess.Popen(["bash", "-c", tree], cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        until = time.monotonic() + 30
        while len(of_folder(tmp_path)) < 3:
            assert time.monotonic() < until
        found = f"? m\n+ {run.pid} m\n".encode()
        subprocess.run(["bash", "--norc", reaper, tmp_path / "no-proc"], input=found, check=False, timeout=30)
    nothing_left(tmp_path)
