"""kill -9 and power cuts: no acknowledged record is lost, every session opens, and no call runs twice.

CRASH_POINTS is how many kills there are (`make crashes`: 1,000); CRASH_SEED makes them the same again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.kernel.messages import AssistantMessage, UserMessage
from agent_cli.kernel.session.store import SessionStore
from tests.support.crashes import unpaired
from tests.support.fork_server import ROOT
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script

POINTS = int(os.environ.get("CRASH_POINTS", "20"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
# Kills of the whole program, which take a hundred times as long.
RUNS = max(3, POINTS // 50)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_at_every_kind_of_point(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.crashes", str(POINTS), str(SEED), str(tmp_path)]
    env = {**clean_env(tmp_path / "home"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=580, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    *problems, last = done.stdout.splitlines()
    assert not problems, "\n".join(problems)
    assert last.startswith("points ") and int(last.split()[1]) >= POINTS


@pytest.mark.slow
def test_the_program_is_killed_while_it_works(work: Path) -> None:
    """At any time: what was said before is there, and the session is gone on with to its end."""
    dice = random.Random(SEED)
    rounds = [
        {"text": "I go on.", "calls": [call("Bash", command=f"echo {n} >> ../done.txt; sleep 0.02")]} for n in range(4)
    ]
    model = script(work.parent / "s.toml", [*rounds, {"text": "Done."}, *[{"text": "Again."}] * RUNS])
    args = ["-p", "--model", model, "--allowedTools", "Bash"]
    store = SessionStore(work.parent / "home/state", work)
    lines: list[str] = []
    for number in range(RUNS):
        words = f"go {number}"
        running = subprocess.Popen(
            [sys.executable, "-m", "agent_cli", *args, *(["-c"] if store.ids() else []), "--", words],
            cwd=work,
            env=clean_env(work.parent / "home"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            running.wait(dice.uniform(0.2, 0.9))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
        for session_id in store.ids():
            found = store.session(session_id).load()
            texts = [m.text for m in found.history if isinstance(m, UserMessage)]
            assert texts[: len(lines)] == lines and len(texts) <= len(lines) + 1
            assert found.bad == 0 and not unpaired(found.history)
            lines = texts
    done = agent([*args, *(["-c"] if store.ids() else []), "--", "to the end"], work)
    assert done.returncode == 0, done.stderr
    [session_id] = store.ids()
    found = store.session(session_id).load()
    assert found.last is not None and isinstance(found.history[-1], AssistantMessage)
    ran = (work.parent / "done.txt").read_text().split()
    assert len(ran) == len(set(ran))
