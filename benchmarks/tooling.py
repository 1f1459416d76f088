"""Single calls of tools, beside the least that does the same work: a command, and an edit of a large file.

The tools run in this process; what counts is wall time, because that is what one waits for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent_tools.base import Tool, ToolContext, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from agent_tools.requirements import find_bash
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.runner import SandboxRunner
from benchmarks.measure import BenchmarkError
from benchmarks.searching import in_turn
from benchmarks.stage import Stage
from benchmarks.table import Row

TIMES = 1.3
# One start takes about as long as the clock of a busy machine jitters.
STARTS = 20
SANDBOX_MS = 15
SIZE = 5_000_000
TOOLS: dict[str, Tool[Any]] = {tool.name: tool for tool in BUILTIN}


def bash(stage: Stage, runs: int) -> Iterator[Row]:
    """A command that does nothing, by the tool and by `bash -c` with its output read, in turn."""
    env = stage.env
    context = ToolContext(Workspace(stage.project), env=env)
    shell = find_bash(context)
    if shell is None:
        raise BenchmarkError("there is no bash")

    def floor() -> None:
        nothing = subprocess.DEVNULL
        subprocess.run(
            [shell, "-c", "true"], cwd=stage.project, env=env, stdin=nothing, capture_output=True, check=True
        )

    ours, least = in_turn(lambda: call(context, "Bash", command="true"), floor, runs * STARTS)
    goal = f"<= {TIMES}x bash -c"
    yield Row("bash", "Bash true, time", ours * 1000, "ms", goal, ours <= TIMES * least, least * 1000)
    context.close()
    yield from sandboxed(stage, runs, floor)


def sandboxed(stage: Stage, runs: int, floor: Callable[[], None]) -> Iterator[Row]:
    """The same command in the sandbox, where there is bubblewrap."""
    context = ToolContext(Workspace(stage.project), env=stage.env)

    def profile(temp: Path, network: bool) -> Profile:
        return make_profile([stage.project], stage.home, temp=temp, network=network, path=stage.env.get("PATH", ""))

    sandbox = SandboxRunner("auto", profile, stage.env)
    context.supply(sandbox)
    if sandbox.is_boundary:
        call(context, "Bash", command="true")
        ours, least = in_turn(lambda: call(context, "Bash", command="true"), floor, runs * STARTS)
        met = ours <= least + SANDBOX_MS / 1000
        goal = f"<= bash -c + {SANDBOX_MS} ms"
        yield Row("bash", "Bash true in the sandbox, time", ours * 1000, "ms", goal, met, least * 1000)
    context.close()


def edit(stage: Stage, runs: int) -> Iterator[Row]:
    """One line in the middle of a large file, exactly given and with other spaces; by Edit and by a plain script."""
    lines = [f"    line {n} of some words, one of them number {n * 7919 % 10_007}\n" for n in range(SIZE // 50)]
    path = stage.home / "large.txt"
    path.write_text("".join(lines))
    context = ToolContext(Workspace(stage.home), env=stage.env)
    call(context, "Read", file_path=str(path))
    here, other = lines[len(lines) // 2], "    another line\n"

    def turn(blanks: str) -> None:
        """Change the line and change it back."""
        for old, new in ((here, other), (other, here)):
            call(context, "Edit", file_path=str(path), old_string=old.rstrip("\n") + blanks + "\n", new_string=new)

    for what, blanks in (("exact", ""), ("other spaces", "  ")):
        ours, floor = in_turn(lambda blanks=blanks: turn(blanks), lambda: plain(path, here, other), max(3, runs))  # type: ignore[misc]
        yield Row("edit", f"Edit in 5 MB, {what}, time", ours * 500, "ms", "", None, floor * 500)


def plain(path: Path, here: str, other: str) -> None:
    """The same two changes as a script would make them that writes beside the file and renames."""
    for old, new in ((here, other), (other, here)):
        text = path.read_text()
        if text.count(old) != 1:
            raise BenchmarkError("the line is not there once")
        beside = path.with_suffix(".new")
        with beside.open("w") as file:
            file.write(text.replace(old, new))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


def call(context: ToolContext, name: str, **arguments: Any) -> None:
    """Run a tool to its end. Raises BenchmarkError where it fails."""
    tool = TOOLS[name]
    outcome = tool.run(tool.read(arguments), context)
    while not isinstance(outcome, ToolResult):
        try:
            next(outcome)
        except StopIteration as stop:
            outcome = stop.value
    if outcome.is_error:
        raise BenchmarkError(f"{name}: {outcome.text[-300:]}")
