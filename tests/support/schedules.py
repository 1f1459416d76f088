"""Schedules with a clock of their own, and runs that are forks of the test."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_cli.extras.schedules.items import Schedules
from agent_cli.kernel.events import MessageAdded, TurnFinished, TurnStarted, UsageAdded
from agent_cli.kernel.messages import AssistantMessage, Text, UserMessage
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.schedules import Schedule, ScheduledRun


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Ended:
    """A process that has ended."""

    def poll(self) -> int:
        return 0


class Machine:
    """A machine with schedules: its clock, and what its runs do. `started` has the words of each process."""

    def __init__(self, folder: Path, now: str = "2026-11-27 12:00") -> None:
        self.state, self.work, self.now = folder / "state", folder / "work", utc(now)
        self.work.mkdir(exist_ok=True)
        self.started: list[list[str]] = []
        self.does: Callable[[Machine, Path], None] = lambda machine, log: machine.session(log)
        self.cost = 0.0
        env = {"PATH": os.defpath, "AGENT_STATE_DIR": str(self.state)}
        self.schedules = Schedules(env, lambda: self.now, self.popen)
        self.store = self.schedules.store

    def add(self, spec: str, zone: str = "UTC", **more: Any) -> Schedule:
        where = RunEnvironment(self.work, self.work, None, {})
        made = self.schedules.new(spec, "do it", where, zone=zone, **more)
        self.store.create(made)
        return made

    def popen(self, command: list[str], **how: Any) -> Any:
        words = command[4:]
        self.started.append(words)
        schedule = next(s for s in self.store.all() if s.folder == str(how["cwd"]))
        found = next((w.partition("=")[2] for w in words if w.startswith("--session-id=")), words[-1])
        self.does(self, self.store.session(schedule, found).path)
        return Ended()

    def session(self, log: Path, result: Any = "Complete") -> None:
        """Write a session, as a run does. result: of its turn; "" if it broke off."""
        made = SessionLog(log, lambda text: None)
        made.create(Header(log.stem, "/", "/", "m", "", (), "1"))
        made.record(TurnStarted("m", "default"))
        made.record(MessageAdded(UserMessage("do it")))
        made.record(MessageAdded(AssistantMessage((Text("Done."),))))
        made.record(UsageAdded("m", Usage(cost=self.cost)))
        if result:
            made.record(TurnFinished(result, Diagnostics(1, 1, 0, 0, "stop", "completed"), Usage()))
        made.close()

    def at(self, text: str) -> list[str]:
        """Set the clock, and tick; return what was said."""
        self.now = utc(text)
        return [line.partition(": ")[2] for line in self.schedules.tick()]

    def runs(self, schedule: Schedule) -> list[ScheduledRun]:
        return self.store.runs(schedule.id)

    def claimed(self, schedule: Schedule) -> list[str]:
        return [run.at[5:16] for run in self.runs(schedule) if run.step != "skipped"]
