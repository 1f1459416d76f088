"""Schedules on disk: what runs when and where, and what became of each of its times.

A schedule is the folder `<state>/schedules/<id>`: `schedule.json` is what the user asked for, `rules.toml` has the
rules that its runs are allowed, `output.log` what they printed, and `runs.jsonl` one synced line for each step of each
run. A run is known by its time. It is claimed before its process starts, and a time that was claimed or skipped never
comes again. While the process runs, it holds a lock on `lock`, which it inherits.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.session.files import is_open, sync_folder
from agent_cli.kernel.session.store import SessionStore, StoredSession, schedules_folder
from agent_tools.fs.safe_files import acquire, append_synced, open_regular, private_folder, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import one_line, utc_stamp

_MAX_BYTES = 16 << 20
# Longer logs of runs lose the older half of their lines.
_LONG_BYTES = 2 << 20
_ID = re.compile(r"[0-9a-f]{6}")
Step = Literal["claimed", "started", "resumed", "begun", "ended", "skipped"]


class Schedule(Value, tag="Schedule"):
    """What the user asked for.

    spec: as it was typed. cron: its five fields. zone: IANA name of the time zone.
    folder, root: where it runs, and the project.
    flags: options of each run. env: variables of each run; none is secret.
    budget: dollars for the runs of one day; None for no limit.
    missed: what becomes of a time when the machine was off: one late run for all such times, or none.
    since: earlier times are not its concern: it was created or resumed then.
    """

    id: str
    spec: str
    cron: str
    zone: str
    folder: str
    root: str
    prompt: str
    created: str
    since: str
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    budget: float | None = None
    missed: Literal["once", "skip"] = "once"
    paused: bool = False


class ScheduleStep(Value, tag="ScheduledRun"):
    """A step of a run.

    step: "begun" once its session was seen to have begun.
    at: the time of the run, in UTC. by_hand: the user started it. session_id: of its session, once it is started.
    why: how it ended, or why it was skipped. cost: in dollars, at the end.
    """

    at: str
    step: Step
    time: str
    session_id: str = ""
    by_hand: bool = False
    why: str = ""
    cost: float = 0.0


class ScheduledRun(Value):
    """A run as its steps tell.

    step: the last one. attempts: how often a process was started for it. begun: its session had begun.
    """

    at: str
    step: Step
    session_id: str = ""
    by_hand: bool = False
    why: str = ""
    cost: float = 0.0
    attempts: int = 0
    begun: bool = False

    @property
    def over(self) -> bool:
        return self.step in ("ended", "skipped")


# States of a run that is not over.
_OPEN_STATES = ("starting", "running", "waiting", "broken off")


class RunState(Value):
    """How a run stands.

    state: one of `_OPEN_STATES`, "skipped", or how its session ended.
    begun: its session has begun.
    """

    state: str
    why: str
    cost: float
    begun: bool = False

    @property
    def is_open(self) -> bool:
        """True if the run is not over."""
        return self.state in _OPEN_STATES


class ScheduleStore:
    """The schedules of a state folder."""

    def __init__(self, state: Path) -> None:
        self.state, self.folder = state, schedules_folder(state)
        # The runs that were read, with the size of their file, which only grows.
        self._read_runs: dict[str, tuple[int, list[ScheduledRun]]] = {}

    def all(self) -> list[Schedule]:
        """Return all schedules, the oldest first; one that cannot be read is left out."""
        found = []
        with suppress(OSError):
            for name in sorted(filter(_ID.fullmatch, os.listdir(self.folder))):  # noqa: PTH208 - names are enough
                with suppress(OSError, ValueError, DecodeError):
                    found.append(self._read(name))
        return sorted(found, key=lambda schedule: schedule.created)

    def _read(self, name: str) -> Schedule:
        found: Schedule = from_json(
            Schedule, json.loads(read_regular(self.folder / name / "schedule.json", _MAX_BYTES))
        )
        return found

    def find(self, start: str) -> Schedule:
        """Return the schedule whose ID begins so. Raises UsageError."""
        found = [schedule for schedule in self.all() if start and schedule.id.startswith(start.lower())]
        if len(found) != 1:
            how = "No schedule begins" if not found else f"{len(found)} schedules begin"
            raise UsageError(f"{how} with {one_line(start)}. See: agent every list")
        return found[0]

    def create(self, schedule: Schedule) -> None:
        """Write a new schedule. Raises OSError."""
        fresh = self.folder / f"{schedule.id}.new"
        private_folder(fresh)
        write_atomic(fresh / "schedule.json", json.dumps(to_json(schedule)).encode("ascii"))
        fresh.rename(self.folder / schedule.id)  # a folder with an ID for its name is whole
        sync_folder(self.folder)

    def change(self, schedule: Schedule) -> None:
        """Write a schedule that was changed, if it still exists. Raises OSError."""
        if (path := self.folder / schedule.id / "schedule.json").exists():
            write_atomic(path, json.dumps(to_json(schedule)).encode("ascii"))

    def pause(self, schedule: Schedule, now: datetime, *, paused: bool) -> Schedule:
        """Pause a schedule, or end its pause: the times in it do not count as missed. Raises OSError."""
        if paused != schedule.paused:
            schedule = schedule.replace(paused=paused, since=schedule.since if paused else utc_stamp(now.timestamp()))
            self.change(schedule)
        return schedule

    def remove(self, schedule_id: str) -> None:
        """Remove a schedule; its sessions stay. Raises OSError."""
        gone = (self.folder / schedule_id).rename(self.folder / f"{schedule_id}.{os.urandom(4).hex()}.old")
        shutil.rmtree(gone)

    def output(self, schedule_id: str) -> Path:
        """Return the file with what the runs printed."""
        return self.folder / schedule_id / "output.log"

    def rules_file(self, schedule_id: str) -> Path:
        """Return the settings file with the rules of a schedule. Raises UsageError if it cannot be one's ID."""
        if not _ID.fullmatch(schedule_id):
            raise UsageError(f"{one_line(schedule_id)} is not the ID of a schedule. See: agent every list")
        return self.folder / schedule_id / "rules.toml"

    def rules(self, schedule_id: str) -> list[str]:
        """Return the rules that its runs are allowed."""
        import tomllib  # few schedules have any

        with suppress(OSError, ValueError, AttributeError):
            data = tomllib.loads(read_regular(self.rules_file(schedule_id), _MAX_BYTES).decode())
            return [str(rule) for rule in data.get("permissions", {}).get("allow", ())]
        return []

    def record(self, schedule_id: str, step: ScheduleStep) -> None:
        """Record a step; it is on disk on return. Raises OSError."""
        line = json.dumps(to_json(step), separators=(",", ":")).encode("ascii") + b"\n"
        append_synced(self.folder / schedule_id / "runs.jsonl", line)

    def runs(self, schedule_id: str) -> list[ScheduledRun]:
        """Return the runs of a schedule, in the order in which they were claimed."""
        try:
            size = (self.folder / schedule_id / "runs.jsonl").stat().st_size
        except OSError:
            return []
        if self._read_runs.get(schedule_id, (-1, []))[0] != size:
            self._read_runs[schedule_id] = size, self._fold_runs(schedule_id)
        return self._read_runs[schedule_id][1]

    def open_run(self, schedule_id: str) -> ScheduledRun | None:
        """Return the run that is not over; there is at most one."""
        return next((run for run in reversed(self.runs(schedule_id)) if not run.over), None)

    def _fold_runs(self, schedule_id: str) -> list[ScheduledRun]:
        found: dict[str, ScheduledRun] = {}
        for step in self._steps(schedule_id):
            run = found.get(step.at) or ScheduledRun(step.at, step.step, by_hand=step.by_hand)
            found[step.at] = run.replace(
                step=step.step,
                session_id=step.session_id or run.session_id,
                why=step.why or run.why,
                cost=step.cost or run.cost,
                attempts=run.attempts + (step.step in ("started", "resumed")),
                begun=step.step in ("begun", "resumed") or (run.begun and step.step != "started"),
            )
        return list(found.values())

    def _steps(self, schedule_id: str) -> Iterator[ScheduleStep]:
        try:
            data = read_regular(self.folder / schedule_id / "runs.jsonl", _MAX_BYTES)
        except OSError:
            return
        for line in data.splitlines():
            with suppress(ValueError, DecodeError):  # a line that was cut off was never acted on
                yield from_json(ScheduleStep, json.loads(line))

    def shorten_runs(self, schedule_id: str) -> None:
        """Drop the older half of a long log of runs, under the lock of the tick. Raises OSError."""
        path = self.folder / schedule_id / "runs.jsonl"
        if path.exists() and path.stat().st_size > _LONG_BYTES:
            lines = read_regular(path, _MAX_BYTES).splitlines(keepends=True)
            write_atomic(path, b"".join(lines[len(lines) // 2 :]))

    def lock(self, schedule_id: str) -> int | None:
        """Return a locked descriptor for a run's process to inherit; None while another run has it. Raises OSError."""
        descriptor = open_regular(self.folder / schedule_id / "lock", os.O_RDWR | os.O_CREAT)
        if acquire(descriptor):  # others, who only look, have it for a moment
            return descriptor
        os.close(descriptor)
        return None

    def is_running(self, schedule_id: str) -> bool:
        """Return True if a process of a run is alive."""
        try:
            descriptor = open_regular(self.folder / schedule_id / "lock")
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def session(self, schedule: Schedule, session_id: str) -> StoredSession:
        """Return a session of a schedule."""
        return SessionStore(self.state, Path(schedule.root)).session(session_id)

    def state_of(self, schedule: Schedule, run: ScheduledRun) -> RunState:
        """Find out how a run stands, from its session unless that is recorded."""
        if run.over:
            return RunState("skipped" if run.step == "skipped" else run.why, run.why, run.cost)
        stored = self.session(schedule, run.session_id) if run.session_id else None
        session = stored.summary() if stored is not None else None
        # Without an answer, and without an end, no turn has begun: the process died at its message.
        begun = session is not None and session.messages > (session.ended == "done")
        cost = session.cost if session is not None else 0.0
        if stored is not None and (self.is_running(schedule.id) or is_open(stored.path)):
            return RunState("running", "", cost, begun)
        if session is None or not begun:
            return RunState("starting", "", cost)
        return RunState({"open": "broken off"}.get(session.ended, session.ended), "", cost, begun)


def waiting_sessions(state: Path) -> list[tuple[Schedule, str]]:
    """Return the sessions of schedules that wait for the user, each with its schedule."""
    store = ScheduleStore(state)
    found = [(each, store.open_run(each.id)) for each in store.all()]
    return [
        (schedule, run.session_id)
        for schedule, run in found
        if run is not None and store.state_of(schedule, run).state == "waiting"
    ]
