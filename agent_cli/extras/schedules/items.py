"""Schedules and their runs as `--json`, the API and the page have them; and new ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from agent_cli import RunEnvironment, UsageError
from agent_cli.extras.schedules.install import kept_environment
from agent_cli.extras.schedules.times import find_zone, machine_zone, next_time, read_spec
from agent_cli.kernel.session.schedules import Schedule, ScheduledRun, ScheduleStore
from agent_tools.text import one_line, utc_stamp


def new_schedule(
    spec: str,
    prompt: str,
    run_env: RunEnvironment,
    now: datetime,
    *,
    zone: str = "",
    flags: Sequence[str] = (),
    env: Mapping[str, str],
    budget: float | None = None,
    missed: str = "once",
) -> tuple[Schedule, datetime]:
    """Return a new schedule, which is not stored, and its first time. Raises UsageError. env: of the user."""
    cron = read_spec(spec)
    zone = str(find_zone(zone)) if zone else machine_zone(env)
    first = next_time(cron, zone, now)
    if first is None:
        raise UsageError(f"'{one_line(spec)}' never comes.")
    if not prompt.strip():
        raise UsageError("The prompt is empty.")
    created = utc_stamp(now.timestamp())
    made = Schedule(
        os.urandom(3).hex(), one_line(spec), cron, zone, str(run_env.cwd), str(run_env.root), prompt, created,
        created, tuple(flags), kept_environment(env), budget, missed,  # type: ignore[arg-type]
    )  # fmt: skip
    return made, first


def coming_time(schedule: Schedule, now: datetime) -> str:
    """Return the next time with the offset of the schedule's zone; "" for none, or in a pause."""
    coming = None if schedule.paused else next_time(schedule.cron, schedule.zone, now)
    return coming.astimezone(find_zone(schedule.zone)).isoformat() if coming else ""


def schedule_item(store: ScheduleStore, schedule: Schedule, now: datetime) -> dict[str, Any]:
    """Return a schedule as JSON data. `state` and `session_id` are those of the run that is not over, if any."""
    runs = store.runs(schedule.id)
    at_work = next((run for run in reversed(runs) if not run.over), None)
    stands = store.state_of(schedule, at_work) if at_work is not None else None
    state = stands.state if stands is not None and stands.is_open else ""  # the next tick records that it has ended
    return {
        "id": schedule.id, "spec": schedule.spec, "zone": schedule.zone, "folder": schedule.folder,
        "prompt": schedule.prompt, "paused": schedule.paused, "missed": schedule.missed, "budget": schedule.budget,
        "next": coming_time(schedule, now), "rules": store.rules(schedule.id),
        "state": state, "session_id": at_work.session_id if at_work is not None and state else "",
        "last": run_item(store, schedule, runs[-1]) if runs else None,
    }  # fmt: skip


def run_item(store: ScheduleStore, schedule: Schedule, run: ScheduledRun) -> dict[str, Any]:
    """Return a run as JSON data."""
    now = store.state_of(schedule, run)
    return {
        "at": run.at, "state": now.state, "why": now.why, "session_id": run.session_id, "cost": now.cost,
        "attempts": run.attempts, "by_hand": run.by_hand,
    }  # fmt: skip
