"""The tick of every minute: settle the runs that have ended, take up those that were cut off, start what is due.

One tick works at a time. Every step is on disk before it is done, so a tick that is killed is finished by the next one:
a run that was claimed and has no session is started, one whose turn broke off is resumed, up to three processes in all.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agent_cli import UsageError
from agent_cli.extras.schedules.times import find_zone, in_zone, last_time
from agent_cli.kernel.session.schedules import (
    Schedule,
    ScheduledRun,
    ScheduleStep,
    ScheduleStore,
)
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.text import dollars, new_uuid, one_line, shorten, utc_stamp

MAX_ATTEMPTS = 3
# A time that is found later than this was missed.
LATE = timedelta(minutes=10)
# How long a command waits for a tick that is at work.
_LOCK_SECONDS = 10.0
_LONG_OUTPUT_BYTES = 4 << 20
_TAIL_BYTES = 4_000


def start_run(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Start the process of a run, which outlives this one."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **how)


class Ticker:
    """Does what is due. env: of the process that ticks. clock: the time now, in UTC. popen: starts a run."""

    def __init__(
        self,
        store: ScheduleStore,
        env: Mapping[str, str],
        clock: Callable[[], datetime],
        popen: Callable[..., subprocess.Popen[bytes]],
    ) -> None:
        self._store, self._env, self._clock, self._popen = store, env, clock, popen
        self._said: list[str] = []
        self._children: list[subprocess.Popen[bytes]] = []

    def tick(self) -> list[str]:
        """Do what is due now; return what was done, a sentence each. Does nothing while another tick is at work."""
        if not self._store.folder.is_dir() or (lock := self._lock(0.0)) is None:
            return []
        try:
            os.utime(lock)
            self._said = []
            self._children = [child for child in self._children if child.poll() is None]
            for schedule in self._store.all():
                try:
                    self._tick_one(schedule)
                except (OSError, UsageError) as error:
                    self._say(schedule, f"failed: {error}")
            return self._said
        finally:
            os.close(lock)

    def run_now(self, schedule: Schedule) -> str:
        """Start a run that the user asked for; return its session. Raises UsageError, and OSError."""
        lock = self._lock(_LOCK_SECONDS)
        if lock is None:
            raise UsageError("Another tick is at work and does not end; try again.")
        try:
            if why := self._settle(schedule):
                raise UsageError(f"It was not started: {why}.")
            if why := self._over_budget(schedule):
                raise UsageError(f"It was not started: {why}.")
            now = self._clock()
            while utc_stamp(now.timestamp()) in {run.at for run in self._store.runs(schedule.id)} or not now.second:
                now += timedelta(seconds=1)  # a time of its own, which no schedule has
            self._record(schedule, utc_stamp(now.timestamp()), "claimed", by_hand=True)
            run = self._store.open_run(schedule.id)
            assert run is not None
            return self._start(schedule, run)
        finally:
            os.close(lock)

    def read_output(self, schedule: Schedule) -> str:
        """Return what the runs of a schedule have printed. Raises OSError."""
        return read_regular(self._store.output(schedule.id), 2 * _LONG_OUTPUT_BYTES).decode("utf-8", "replace")

    def _lock(self, seconds: float) -> int | None:
        """Lock the tick; None while another one has it."""
        private_folder(self._store.folder)
        descriptor = open_regular(self._store.folder / "tick", os.O_RDWR | os.O_CREAT)
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() >= until:
                    os.close(descriptor)
                    return None
                time.sleep(0.05)

    def _tick_one(self, schedule: Schedule) -> None:
        self._store.shorten_runs(schedule.id)
        busy = self._settle(schedule)
        if schedule.paused:
            return
        now = self._clock()
        if datetime.fromisoformat(schedule.since) > now:
            # The clock was ahead when it was created, and has been set back.
            schedule = schedule.replace(since=utc_stamp(now.timestamp()))
            self._store.change(schedule)
        due = due_time(schedule, self._store.runs(schedule.id), now)
        if due is None:
            return
        why = busy or self._over_budget(schedule)
        if now - due > LATE and schedule.missed == "skip":
            why = "the time was missed"
        if not why and not Path(schedule.folder).is_dir():
            why = f"the folder {schedule.folder} no longer exists"
        if why:
            self._record(schedule, utc_stamp(due.timestamp()), "skipped", why=why)
            self._say(schedule, f"the run of {_shown(schedule, utc_stamp(due.timestamp()))} was skipped: {why}")
            return
        self._record(schedule, utc_stamp(due.timestamp()), "claimed")
        run = self._store.open_run(schedule.id)
        assert run is not None
        self._start(schedule, run)

    def _settle(self, schedule: Schedule) -> str:
        """Record that the open run has ended, or take it up again; return why another one cannot start."""
        run = self._store.open_run(schedule.id)
        if run is None:
            return ""
        now = self._store.state_of(schedule, run)
        if now.begun and not run.begun:
            self._record(schedule, run.at, "begun")
        if now.state == "waiting":
            return f"session {run.session_id[:8]} waits for you"
        if now.state == "running":
            return f"the run of {_shown(schedule, run.at)} is still at work"
        if now.state not in ("starting", "broken off"):
            self._record(schedule, run.at, "ended", why=now.state, cost=now.cost)
            return ""
        removed = run.begun and not now.begun
        if removed or run.attempts >= MAX_ATTEMPTS or not Path(schedule.folder).is_dir():
            why = "broke off" if now.begun else f"did not begin: {self._last_words(schedule)}"
            why = "its session was removed" if removed else why
            self._record(schedule, run.at, "ended", why=why, cost=now.cost)
            self._say(schedule, f"the run of {_shown(schedule, run.at)} {why}")
            return ""
        self._start(schedule, run, resume=now.state == "broken off")
        return f"the run of {_shown(schedule, run.at)} is still at work"

    def _start(self, schedule: Schedule, run: ScheduledRun, *, resume: bool = False) -> str:
        """Start the process of a run, which outlives this one; return its session. Raises OSError."""
        lock = self._store.lock(schedule.id)
        if lock is None:
            return run.session_id
        try:
            if run.session_id and not resume:
                self._store.session(schedule, run.session_id).remove()  # no turn has begun in it
            session_id = run.session_id if resume else new_uuid()
            self._record(schedule, run.at, "resumed" if resume else "started", session_id=session_id)
            words = ["resume", session_id] if resume else self._words(schedule, run, session_id)
            env = {**self._env, **schedule.env}
            output = self._open_output(schedule, run, session_id)
            try:
                child = self._popen(
                    [sys.executable, "-P", "-m", "agent_cli", *words], cwd=schedule.folder, env=env, stdout=output,
                    stderr=output, pass_fds=(lock,),
                )  # fmt: skip
                self._children.append(child)
            finally:
                os.close(output)
        finally:
            os.close(lock)
        self._say(schedule, f"the run of {_shown(schedule, run.at)} was {'resumed' if resume else 'started'}")
        return session_id

    def _words(self, schedule: Schedule, run: ScheduledRun, session_id: str) -> list[str]:
        name = shorten(one_line(schedule.prompt), 50)
        rules = self._store.rules_file(schedule.id)
        words = ["-p", "--on-ask=suspend", f"--session-id={session_id}", f"--schedule={schedule.id}"]
        words += [f"--name={name} (scheduled {_shown(schedule, run.at)})", *schedule.flags]
        words += [f"--settings={rules}"] if rules.exists() else []
        if schedule.budget is not None:
            words.append(f"--max-budget-usd={max(schedule.budget - self._spent(schedule), 1e-9):.9f}")
        return [*words, "--", schedule.prompt]

    def _open_output(self, schedule: Schedule, run: ScheduledRun, session_id: str) -> int:
        path = self._store.output(schedule.id)
        with suppress(OSError):
            if path.stat().st_size > _LONG_OUTPUT_BYTES:
                path.replace(path.with_suffix(".log.1"))
        descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"--- {_shown(schedule, run.at)}, session {session_id}\n".encode())
        return descriptor

    def _last_words(self, schedule: Schedule) -> str:
        """Return the last line that its runs printed."""
        with suppress(OSError):
            descriptor = open_regular(self._store.output(schedule.id))
            try:
                size = os.fstat(descriptor).st_size
                text = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode("utf-8", "replace")
            finally:
                os.close(descriptor)
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--- ")]
            return shorten(one_line(lines[-1]), 200).removesuffix(".") if lines else "it printed nothing"
        return "it printed nothing"

    def _spent(self, schedule: Schedule) -> float:
        """Return what the runs of this day, in the schedule's zone, have cost."""
        zone = find_zone(schedule.zone)
        today = self._clock().astimezone(zone).date()
        runs = self._store.runs(schedule.id)
        return sum(
            self._store.state_of(schedule, run).cost
            for run in runs
            if run.step != "skipped" and datetime.fromisoformat(run.at).astimezone(zone).date() == today
        )

    def _over_budget(self, schedule: Schedule) -> str:
        if schedule.budget is None or self._spent(schedule) < schedule.budget:
            return ""
        return f"the budget of this day, {dollars(schedule.budget)}, is spent"

    def _record(
        self, schedule: Schedule, at: str, step: str, *, session_id: str = "", why: str = "", cost: float = 0.0,
        by_hand: bool = False,
    ) -> None:  # fmt: skip
        made = ScheduleStep(at, step, utc_stamp(self._clock().timestamp()), session_id, by_hand, why, cost)  # type: ignore[arg-type]
        self._store.record(schedule.id, made)

    def _say(self, schedule: Schedule, text: str) -> None:
        self._said.append(f"{schedule.id}: {text}.")


def due_time(schedule: Schedule, runs: Sequence[ScheduledRun], now: datetime) -> datetime | None:
    """Return the latest time that is due and was neither claimed nor skipped; None if there is none.

    Where the clock was set back, the times between stay as they are: each comes once.
    """
    known = {run.at for run in runs if not run.by_hand}
    after = max([schedule.since, *(at for at in known if at <= utc_stamp(now.timestamp()))])
    found = last_time(schedule.cron, schedule.zone, datetime.fromisoformat(after), now)
    return found if found is not None and utc_stamp(found.timestamp()) not in known else None


def _shown(schedule: Schedule, at: str) -> str:
    """Return a time as the clock of the schedule's zone shows it."""
    return f"{in_zone(at, schedule.zone):%Y-%m-%d %H:%M}"
