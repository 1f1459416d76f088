"""Handlers for schedules, and the tick of every minute while the server runs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from agent_cli import UsageError
from agent_cli.extras.schedules.items import Schedules
from agent_cli.extras.server.actions import check_mode_allowed, storage_error
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.schemas import EmptyBody, ScheduleBody, ScheduleChange
from agent_cli.kernel.session.schedules import Schedule
from agent_cli.kernel.session.store import write_crash_report
from agent_tools.text import shorten

T = TypeVar("T")
# How often the runs at work are looked at, whose questions are announced.
_LOOK_SECONDS = 5.0


class ScheduleTicker:
    """Ticks, and tells the hub of the sessions of runs whose state has changed."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._schedules = Schedules(hub.env)
        self._states: dict[str, str] = {}
        self._minute = 0

    async def run(self) -> None:
        """Work until it is cancelled."""
        while True:
            try:
                for session_id in await asyncio.to_thread(self._work):
                    self._hub.notify_changed(session_id)
            except Exception as error:  # noqa: BLE001 - the next tick tries again
                where = write_crash_report(error, self._hub.env)
                sys.stderr.write(f"agent: the schedules failed: {type(error).__name__}. See {where}\n")
            await asyncio.sleep(_LOOK_SECONDS)

    def _work(self) -> list[str]:
        """Tick if a minute has begun; return the sessions whose state has changed."""
        if (minute := int(time.time() // 60)) != self._minute:
            self._minute = minute
            self._schedules.tick()
        store, found = self._schedules.store, {}
        for schedule in store.all():
            if (run := store.open_run(schedule.id)) is not None and run.session_id:
                found[run.session_id] = store.state_of(schedule, run).state
        before, self._states = self._states, found
        return [name for name in {**before, **found} if before.get(name) != found.get(name)]


def _shown(hub: Hub) -> list[Schedule]:
    """Return the schedules that run in this server's projects."""
    return [each for each in Schedules(hub.env).store.all() if hub.views.project_of(Path(each.folder)) is not None]


def _find(hub: Hub, request: Request) -> Schedule:
    which = request.path_params["schedule"]
    for schedule in _shown(hub):
        if schedule.id == which:
            return schedule
    raise RequestRefusedError(404, "schedule", f"There is no schedule {shorten(which, 40)} in these projects.")


def _item(hub: Hub, schedule: Schedule) -> dict[str, Any]:
    return Schedules(hub.env).item(schedule)


async def _done(work: Callable[[], T]) -> T:
    """Return what a function returns, on a thread; refuse the request for its errors."""
    try:
        return await asyncio.to_thread(work)
    except UsageError as error:
        raise RequestRefusedError(409, "schedule", str(error)) from None
    except OSError as error:
        raise storage_error(error) from None


async def list_schedules(hub: Hub, request: Request) -> dict[str, Any]:
    return {"schedules": await _done(lambda: [_item(hub, each) for each in _shown(hub)])}


async def list_runs(hub: Hub, request: Request) -> dict[str, Any]:
    schedule = _find(hub, request)
    return {"runs": await _done(lambda: Schedules(hub.env).run_items(schedule))}


async def add_schedule(hub: Hub, request: Request, body: ScheduleBody) -> dict[str, Any]:
    """Add a schedule, which runs with the environment of this server."""
    project = hub.views.find_project(body.project)
    if project is None:
        raise RequestRefusedError(422, "project", "This server has no such project.")
    if body.mode:
        check_mode_allowed(hub, body.mode)
    flags = [f"--{name}={value}" for name, value in (("model", body.model), ("permission-mode", body.mode)) if value]

    def add() -> dict[str, Any]:
        schedules = Schedules(hub.env)
        made = schedules.new(
            body.spec, body.prompt, hub.run_env(project.folder), zone=body.zone, flags=flags, budget=body.budget,
            missed=body.missed,
        )  # fmt: skip
        schedules.store.create(made)
        return schedules.item(made)

    return await _done(add)


async def change_schedule(hub: Hub, request: Request, body: ScheduleChange) -> dict[str, Any]:
    """Pause a schedule, or end its pause."""
    schedule, schedules = _find(hub, request), Schedules(hub.env)
    return await _done(lambda: schedules.item(schedules.pause(schedule, paused=body.paused)))


async def run_schedule(hub: Hub, request: Request, body: EmptyBody) -> dict[str, Any]:
    """Start a run now."""
    schedule = _find(hub, request)
    session_id = await _done(lambda: Schedules(hub.env).run_now(schedule))
    with suppress(KeyError):
        hub.notify_changed(session_id)
    return {"id": session_id}


async def remove_schedule(hub: Hub, request: Request) -> dict[str, Any]:
    """Remove a schedule; its sessions stay."""
    schedule = _find(hub, request)
    await _done(lambda: Schedules(hub.env).store.remove(schedule.id))
    return {"id": schedule.id}
