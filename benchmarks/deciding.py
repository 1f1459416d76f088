"""What the gate costs: one decision about each command line of the corpus that the tests hold it to.

Nothing is kept from one decision to the next: every one of them is made as if it were the first.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from agent_cli.policy import command_rules, path_globs
from agent_cli.policy.programs import git_reads, invocation
from agent_cli.policy.shell import analysis, parser
from benchmarks.stage import Stage
from benchmarks.table import Row
from tests.policy.corpus import Case
from tests.policy.corpus.place import build, decide
from tests.policy.corpus.tables import CASES


def decisions(stage: Stage, runs: int) -> Iterator[Row]:
    """The time of one decision, the parser's process included."""
    root = build(stage.home / "decisions")
    repeats = max(3, runs // 2)
    decide(CASES[0], root)
    parser.find_shfmt()
    taken = [[_once(case, root) for _ in range(repeats)] for case in CASES]
    walls = sorted(median(wall for wall, _ in samples) * 1000 for samples in taken)
    cpus = sorted(median(cpu for _, cpu in samples) * 1000 for samples in taken)
    note = f"{len(CASES):,} command lines; half of them take less than {walls[len(walls) // 2]:.2g} ms."
    for name, found, goal in (("time", walls, 15), ("CPU", cpus, 15)):
        most = found[int(len(found) * 0.99)]
        yield Row("decisions", f"one decision, 99 of 100, {name}", most, "ms", f"<= {goal} ms", most <= goal, note=note)
        note = ""
    yield Row("decisions", "  the longest, time", walls[-1], "ms", "<= 150 ms", walls[-1] <= 150)


def _once(case: Case, root: Path) -> tuple[float, float]:
    """Seconds and seconds of CPU for one decision."""
    for known in (
        analysis._analyse, parser.parse_tree, command_rules._prefix, path_globs.path_pattern, invocation.invocation,
        git_reads.git_call,
    ):  # fmt: skip
        known.cache_clear()
    began, used = time.perf_counter(), _cpu()
    decide(case, root)
    return time.perf_counter() - began, _cpu() - used


def _cpu() -> float:
    """The seconds of CPU that this process and the children it waited for have used."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
