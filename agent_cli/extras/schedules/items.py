"""The schedules of a user: new ones, what is shown of them and of their runs, and what does the runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_cli import RunEnvironment, UsageError
from agent_cli.extras.schedules.install import kept_environment
from agent_cli.extras.schedules.tick import Ticker, start_run
from agent_cli.extras.schedules.times import find_zone, in_zone, machine_zone, next_time, read_spec
from agent_cli.kernel.session.schedules import Schedule, ScheduledRun, ScheduleStore
from agent_cli.kernel.session.store import state_folder
from agent_tools.text import one_line, utc_stamp

# How long ago the last tick may be while something wakes them.
_TICKING = timedelta(minutes=3)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Schedules:
    """The schedules of a user, with a clock.

    env: of the user. clock: the time now, in UTC. popen: starts the process of a run.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        clock: Callable[[], datetime] = utc_now,
        popen: Callable[..., subprocess.Popen[bytes]] = start_run,
    ) -> None:
        self.store = ScheduleStore(state_folder(env))
        self._env, self._clock = env, clock
        self._ticker = Ticker(self.store, env, clock, popen)

    def new(
        self,
        spec: str,
        prompt: str,
        run_env: RunEnvironment,
        *,
        zone: str = "",
        flags: Sequence[str] = (),
        budget: float | None = None,
        missed: str = "once",
    ) -> Schedule:
        """Return a new schedule, which is not stored. Raises UsageError."""
        cron, now = read_spec(spec), self._clock()
        zone = str(find_zone(zone)) if zone else machine_zone(self._env)
        if next_time(cron, zone, now) is None:
            raise UsageError(f"'{one_line(spec)}' never comes.")
        if not prompt.strip():
            raise UsageError("The prompt is empty.")
        created = utc_stamp(now.timestamp())
        return Schedule(
            os.urandom(3).hex(), one_line(spec), cron, zone, str(run_env.cwd), str(run_env.root), prompt,
            created, created, tuple(flags), kept_environment(self._env), budget,
            missed,  # type: ignore[arg-type]
        )  # fmt: skip

    def pause(self, schedule: Schedule, *, paused: bool) -> Schedule:
        """Pause a schedule, or end its pause; return it as it is then. Raises OSError."""
        return self.store.pause(schedule, self._clock(), paused=paused)

    def next_of(self, schedule: Schedule) -> str:
        """Return the next time with the offset of the schedule's zone; "" for none, or in a pause."""
        coming = None if schedule.paused else next_time(schedule.cron, schedule.zone, self._clock())
        return self.local(schedule, coming.isoformat()).isoformat() if coming else ""

    def local(self, schedule: Schedule, at: str) -> datetime:
        """Return a time as the clock of the schedule's zone shows it."""
        return in_zone(at, schedule.zone)

    def item(self, schedule: Schedule) -> dict[str, Any]:
        """Return a schedule as JSON data. `state` and `session_id` are those of the run that is not over, if any."""
        runs = self.store.runs(schedule.id)
        at_work = next((run for run in reversed(runs) if not run.over), None)
        stands = self.store.state_of(schedule, at_work) if at_work is not None else None
        state = stands.state if stands is not None and stands.is_open else ""  # the next tick records that it has ended
        return {
            "id": schedule.id, "spec": schedule.spec, "zone": schedule.zone, "folder": schedule.folder,
            "prompt": schedule.prompt, "paused": schedule.paused, "missed": schedule.missed, "budget": schedule.budget,
            "next": self.next_of(schedule), "rules": self.store.rules(schedule.id),
            "state": state, "session_id": at_work.session_id if at_work is not None and state else "",
            "last": self._run_item(schedule, runs[-1]) if runs else None,
        }  # fmt: skip

    def run_items(self, schedule: Schedule) -> list[dict[str, Any]]:
        """Return the runs of a schedule as JSON data, the oldest first."""
        return [self._run_item(schedule, run) for run in self.store.runs(schedule.id)]

    def _run_item(self, schedule: Schedule, run: ScheduledRun) -> dict[str, Any]:
        now = self.store.state_of(schedule, run)
        return {
            "at": run.at, "state": now.state, "why": now.why, "session_id": run.session_id, "cost": now.cost,
            "attempts": run.attempts, "by_hand": run.by_hand,
        }  # fmt: skip

    @property
    def is_ticking(self) -> bool:
        """True if there was a tick a moment ago, so that something wakes them."""
        try:
            last = datetime.fromtimestamp((self.store.folder / "tick").stat().st_mtime, UTC)
        except OSError:
            return False
        return abs(self._clock() - last) < _TICKING

    def tick(self) -> list[str]:
        """Do what is due now; return what was done, a sentence each."""
        return self._ticker.tick()

    def run_now(self, schedule: Schedule) -> str:
        """Start a run that the user asked for; return its session. Raises UsageError and OSError."""
        return self._ticker.run_now(schedule)

    def read_output(self, schedule: Schedule) -> str:
        """Return what the runs of a schedule have printed. Raises OSError."""
        return self._ticker.read_output(schedule)
