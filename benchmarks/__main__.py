"""`python -m benchmarks`: measure everything, print the table, write it as JSON if asked to.

The exit code says whether the bench worked, not whether the goals were met: a slow machine is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.answering import answers, frames
from benchmarks.configured import configured
from benchmarks.deciding import decisions
from benchmarks.extending import files
from benchmarks.gating import gating
from benchmarks.hooked import hooked
from benchmarks.keys import keys
from benchmarks.logs import sessions
from benchmarks.measure import BenchmarkError
from benchmarks.rendering import render
from benchmarks.requests import prefix, sent, size
from benchmarks.rounds import rounds
from benchmarks.searching import search
from benchmarks.serving import serving
from benchmarks.snapshots import snapshots
from benchmarks.stage import Stage, compile_sources
from benchmarks.starting import hello, imports, version
from benchmarks.table import Row, as_text, machine, write_page
from benchmarks.terminal import draw, prompt
from benchmarks.tooling import bash, edit
from benchmarks.working import results, stdin, step, stream

Case = Callable[[Stage, int], Iterator[Row]]
CASES: tuple[Case, ...] = (
    version, hello, imports, prompt, step, stream, draw, keys, answers, frames, render, results, stdin, size, sent,
    prefix, rounds, search, bash, edit, decisions, files, hooked, gating, configured, sessions, snapshots, serving,
)  # fmt: skip


def main() -> int:
    """Run what was asked for."""
    names = [case.__name__ for case in CASES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What the program costs.")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=5, help="runs of each contestant, more or less (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page, too")
    asked = parser.parse_args()
    compile_sources()
    found: list[Row] = []
    broken = False
    with tempfile.TemporaryDirectory(prefix="agent-bench-") as folder:
        stage = Stage(Path(folder))
        with stage.server:
            for case in CASES:
                if asked.only and case.__name__ not in asked.only:
                    continue
                began = time.monotonic()
                print(f"{case.__name__} ...", end=" ", file=sys.stderr, flush=True)
                try:
                    found += case(stage, max(1, asked.runs))
                except BenchmarkError as error:
                    broken = True
                    print(f"broke: {error}", file=sys.stderr)
                else:
                    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    print(as_text(found))
    if asked.page:
        write_page(found, asked.page)
    if asked.json:
        report = {"machine": machine(), "rows": [row.plain() for row in found]}
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
