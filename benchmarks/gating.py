"""What another program waits for at each of its calls: the hook of `agent gate`, from start to end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row

_CALLS = {
    "a command that reads": ("Bash", {"command": "ls src && git status --short"}),
    "a file that is read": ("Read", {"file_path": "README.md"}),
    "a command that a rule denies": ("Bash", {"command": "make && git push origin main"}),
    "a command that a rule allows, with copies": ("Bash", {"command": "touch built"}),
}
_SECONDS = 60.0


def gating(stage: Stage, runs: int) -> Iterator[Row]:
    """The 95th percentile of a decision, by the process that `agent gate` keeps, and for one without it."""
    rules = stage.home / ".agentrc"
    before = rules.read_bytes() if rules.exists() else None
    rules.write_text("[permissions]\nallow = ['Bash(touch:*)']\ndeny = ['Bash(git push:*)']\n")
    # The address of a socket has to be short.
    env = stage.env | {"AGENT_STATE_DIR": str(stage.home / "g")}
    try:
        for name, (tool, arguments) in _CALLS.items():
            text = json.dumps({
                "session_id": "s", "cwd": str(stage.project), "hook_event_name": "PreToolUse", "tool_name": tool,
                "tool_input": arguments, "tool_use_id": "toolu_1",
            })  # fmt: skip
            _decide(stage.project, env, text)
            _wait(stage.home / "g/gate")
            found = sorted(_decide(stage.project, env, text) for _ in range(runs * 10))
            alone = sorted(_decide(stage.project, env, text, "--alone") for _ in range(runs * 2))
            slow, base = found[int(len(found) * 0.95)] * 1000, alone[int(len(alone) * 0.95)] * 1000
            goal = "" if "copies" in name else "<= 60 ms"
            yield Row("gating", f"{name}, 95 of 100, time", slow, "ms", goal, slow <= 60 if goal else None, base)
    finally:
        if before is None:
            rules.unlink()
        else:
            rules.write_bytes(before)


def _wait(folder: Path) -> None:
    until = time.monotonic() + _SECONDS
    while not list(folder.glob("*.sock")):
        if time.monotonic() > until:
            raise BenchmarkError("the process that decides has not started")
        time.sleep(0.05)


def _decide(cwd: Path, env: dict[str, str], text: str, *words: str) -> float:
    """Seconds that a hook takes."""
    program = [str(Path(sys.executable).with_name("agent")), "gate", "decide", "claude", *words]
    began = time.perf_counter()
    done = subprocess.run(program, cwd=cwd, env=env, input=text, capture_output=True, text=True, timeout=_SECONDS)
    taken = time.perf_counter() - began
    if done.returncode or "permissionDecision" not in done.stdout:
        raise BenchmarkError(f"agent gate decide: {done.stdout} {done.stderr}")
    return taken
