"""The tick of schedules, and what it starts, killed at each write, sync, rename and removal, before, after and within.

`python -m tests.support.schedule_crashes FOLDER STEP` prints what went wrong, a line each, and then `points N`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent_cli.kernel.session.schedules import Schedule
from tests.support import crashes
from tests.support.schedules import Ended, Machine

KINDS = ("before", "after", "torn")


class Dice(random.Random):
    """Kills at a given system call; every other question is answered the same way."""

    def __init__(self, at: int, kind: str) -> None:
        super().__init__(0)
        self._at, self._low = at, kind == "after"

    def randrange(self, *args: Any, **more: Any) -> int:
        return self._at

    def random(self) -> float:
        return 0.3 if self._low else 0.7  # the first answer: kill after the call; 0.2 and less: ask the user


class CrashMachine(Machine):
    """A machine whose runs are processes, with the real engine and a call that leaves a mark."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.marks = folder / "marks"
        self.marks.touch()
        # Where to kill the first run: at which call, and how; 0 for not at all.
        self.kill_run: tuple[int, str] = (0, "before")

    def popen(self, command: list[str], **how: Any) -> Any:
        words = command[4:]
        schedule = self.store.all()[0]
        found = next((w.partition("=")[2] for w in words if w.startswith("--session-id=")), words[-1])
        at, kind = self.kill_run if schedule_attempts(self, schedule) == 1 else (0, "before")
        if os.fork():
            return Ended()
        code = 1
        try:
            for descriptor in range(3, 64):  # as Popen does
                if descriptor not in how["pass_fds"]:
                    with suppress(OSError):
                        os.close(descriptor)
            disarm()
            replies: list[dict[str, Any]] = [
                {"text": "On it.", "calls": [{"name": "Mark", "arguments": {"number": 1}}]}
            ]
            replies += [{"text": "That is all."}] * 5
            log = self.store.session(schedule, found).path
            log.parent.mkdir(parents=True, exist_ok=True)
            crashes.process(log, self.marks, replies, Dice(at, kind), "torn" if kind == "torn" else "call", silent())
            code = 0
        finally:
            os._exit(code)

    def settle(self, schedule: Schedule) -> None:
        """Wait until no run is at work."""
        while self.store.is_running(schedule.id):
            time.sleep(0.002)


def schedule_attempts(machine: Machine, schedule: Schedule) -> int:
    return machine.runs(schedule)[-1].attempts


REAL = {name: getattr(os, name) for name in crashes.FAULTS}


def disarm() -> None:
    """Kill this process no more."""
    for name, real in REAL.items():
        setattr(os, name, real)


def silent() -> int:
    """Where a process may say what it has done."""
    return os.open(os.devnull, os.O_WRONLY)


def tick_killed(machine: CrashMachine, at: int, kind: str) -> bool:
    """Tick in a process that is killed; return True if it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            crashes.ProcessKiller(Dice(at, kind), "torn" if kind == "torn" else "call", silent())
            machine.schedules.tick()
            code = 0
        finally:
            os._exit(code)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def story(folder: Path, what: str, at: int, kind: str) -> tuple[bool, str]:
    """Kill the tick or the run at a call; return whether that hit, and what is wrong after the ticks that follow."""
    machine = CrashMachine(folder)
    schedule = machine.add("hour")
    machine.now += timedelta(hours=1)
    hit = False
    if what == "run":
        machine.kill_run = at, kind
        machine.schedules.tick()
    else:
        hit = tick_killed(machine, at, kind)
    for _ in range(4):
        machine.settle(schedule)
        machine.now += timedelta(minutes=1)
        machine.schedules.tick()
    machine.settle(schedule)
    machine.schedules.tick()
    runs = machine.runs(schedule)
    marks = machine.marks.read_text().split()
    if what == "run":
        hit = len(runs) == 1 and runs[0].attempts > 1
    if [(run.step, run.why) for run in runs] != [("ended", "done")]:
        return hit, f"the run is not done: {runs}"
    # A call that had begun when its process was killed never runs again.
    if len(marks) > 1 or (not marks and what == "tick"):
        return hit, f"the call ran {len(marks)} times"
    return hit, ""


def main(folder: Path, step: int) -> None:
    """Kill at each call of the tick, and at every so many of the run."""
    points = 0
    for what in ("tick", "run"):
        for kind in KINDS:
            at, hit = 0, True
            while hit or at < 3:
                at += step if what == "run" else 1
                place = folder / f"{what}-{kind}-{at}"
                place.mkdir()
                hit, wrong = story(place, what, at, kind)
                points += hit
                if wrong:
                    print(f"{what} killed {kind} call {at}: {wrong}")
    print(f"points {points}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
