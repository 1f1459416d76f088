"""Running a program and knowing what it used: CPU of it and all its children, wall time, peak memory, output.

Contestants of one comparison take turns, so that whatever else the machine does hits them alike; what counts is the
median.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from agent_tools.record import Value

LAUNCHER = Path(__file__).with_name("launch.py")
LONGEST = 120.0


class BenchmarkError(Exception):
    """A measured program did not do what it was started for, so that its figures mean nothing."""


class Sample(Value):
    """One run. `cpu` and `wall` in seconds, `memory` (peak) in MB, `started` on the monotonic clock; `first_request`:
    seconds from the start to the first request, where there was one."""

    cpu: float
    wall: float
    memory: float
    started: float
    out: bytes
    err: str
    code: int
    first_request: float = 0.0


def measured(argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: Path | None = None) -> Sample:
    """Run `argv` to its end, its standard output a pipe, its standard input a file or nothing.

    Raises BenchmarkError for one that has to be stopped.
    """
    source = stdin.open("rb") if stdin else None
    ear, report = os.pipe()
    try:
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(report), *argv]
        done = subprocess.run(
            launcher,
            cwd=cwd,
            env=dict(env),
            stdin=source or subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(report,),
            timeout=LONGEST,
            check=False,
        )
        os.close(report)
        words = os.read(ear, 4096).split()
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{argv[0]} took longer than {LONGEST:g} s") from None
    finally:
        os.close(ear)
        if source:
            source.close()
    err = done.stderr.decode("utf-8", "replace")
    if len(words) != 5:
        raise BenchmarkError(f"{argv[0]} could not be started: {err.strip()[-300:]}")
    started, wall, cpu = (float(w) for w in words[1:4])
    return Sample(cpu, wall, int(words[4]) / 1024, started, done.stdout, err, int(words[0]))


def expect(sample: Sample, output: str = "", code: int = 0) -> Sample:
    """The sample, if the run ended as it should. Raises BenchmarkError."""
    if sample.code != code or output.encode() not in sample.out:
        said = f"{sample.out[-200:]!r} {sample.err.strip()[-400:]}"
        raise BenchmarkError(f"exit code {sample.code} where {code} was expected, or another answer: {said}")
    return sample


def interleaved(contestants: Mapping[str, Callable[[], Sample]], runs: int) -> dict[str, list[Sample]]:
    """`runs` samples of each contestant, taken in turn after one run of each that does not count."""
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    for turn in range(-1, runs):
        for name, run in contestants.items():
            sample = run()
            if turn >= 0:
                samples[name].append(sample)
    return samples


def typical(samples: Sequence[Sample], field: str = "cpu") -> float:
    """The median of one field."""
    return median(float(getattr(s, field)) for s in samples)
