"""Searching: Glob and Grep on a large tree, beside ripgrep itself on the same tree in the same run.

The tools run in this process, with the permission gate of a session; ripgrep is started as a program and its output
read, as a user's script would. What counts is wall time, because that is what one waits for.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from agent_cli.policy.policy import Policy
from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from agent_tools.search.ripgrep import find_rg
from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row

FILES = 50_000
PER_FOLDER = 50
ENDINGS = ("py", "ts", "md", "c", "txt", "json", "log")
TIMES, CONSTANT = 1.3, 0.02
GOAL = f"<= {TIMES}x rg + {CONSTANT * 1000:.0f} ms"

# What is searched for, the tool's arguments, and what ripgrep is given for the same.
CASES: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("Glob **/*", "Glob", {"pattern": "**/*"}, ("--files", "--sortr=modified")),
    ("Glob **/*.py", "Glob", {"pattern": "**/*.py"}, ("--files", "--sortr=modified", "--type=py")),
    ("Grep, files, few", "Grep", {"pattern": "needle7\\b"}, ("--files-with-matches", "needle7\\b", ".")),
    ("Grep, files, all", "Grep", {"pattern": "needle"}, ("--files-with-matches", "needle", ".")),
    ("Grep, lines, few", "Grep", {"pattern": "needle7\\b", "output_mode": "content"}, ("-n", "needle7\\b", ".")),
    ("Grep, lines, none", "Grep", {"pattern": "nowhere"}, ("-n", "nowhere", ".")),
)  # fmt: skip


def search(stage: Stage, runs: int) -> Iterator[Row]:
    """Each search by the tool and by ripgrep, in turn."""
    tree = stage.home / "tree"
    grow(tree)
    workspace = Workspace(tree)
    context = ToolContext(workspace, env=dict(os.environ))
    context.readable = Policy(workspace).readable
    rg = find_rg(context)
    if rg is None:
        raise BenchmarkError("ripgrep is not installed")
    tools = {tool.name: tool for tool in BUILTIN}
    for what, name, arguments, options in CASES:
        tool = tools[name]
        args = tool.read(arguments)
        ours, floor = in_turn(
            lambda tool=tool, args=args: tool.run(args, context),  # type: ignore[misc]
            lambda options=options: ripgrep(rg, options, tree),  # type: ignore[misc]
            max(3, runs),
        )
        met = ours <= TIMES * floor + CONSTANT
        yield Row("search", f"{what}, {FILES:,} files, time", ours * 1000, "ms", GOAL, met, floor * 1000)


def in_turn(ours: Callable[[], object], floor: Callable[[], object], runs: int) -> tuple[float, float]:
    """The median seconds of both, after one run of each that does not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(-1, runs):
        for run, seconds in zip((ours, floor), taken, strict=True):
            began = time.perf_counter()
            run()
            if turn >= 0:
                seconds.append(time.perf_counter() - began)
    return median(taken[0]), median(taken[1])


def ripgrep(rg: str, options: tuple[str, ...], tree: Path) -> None:
    """Run it as a script would. Raises BenchmarkError."""
    done = subprocess.run([rg, "--no-config", *options], cwd=tree, capture_output=True, check=False)
    if done.returncode > 1:
        raise BenchmarkError(f"rg: {done.stderr.decode('utf-8', 'replace')[-300:]}")


def grow(tree: Path) -> None:
    """A repository of many small files, a seventh of them ignored."""
    chance = random.Random(7)
    tree.mkdir()
    (tree / ".gitignore").write_text("*.log\n")
    for number in range(0, FILES, PER_FOLDER):
        folder = tree / f"part{number // PER_FOLDER // 40}" / f"folder{number // PER_FOLDER}"
        folder.mkdir(parents=True)
        for n in range(PER_FOLDER):
            lines = [f"line {i} of some words and needle{chance.randrange(1_000)} here\n" for i in range(20)]
            (folder / f"file{n}.{ENDINGS[n % len(ENDINGS)]}").write_text("".join(lines))
