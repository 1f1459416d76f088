"""The stream-json lines about tasks: sub-agents and background commands, from their start to their end.

A reader may wait until every sub-agent has ended, so every `task_started` is followed by a `task_notification`, at the
latest when the turn or the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic, time
from typing import Any

from agent_cli.core.events import Event, ToolRequested, TurnFinished, UsageAdded
from agent_cli.core.results import Usage
from agent_cli.engine.tool_results import subagent_result
from agent_tools.shell.jobs import Job
from agent_tools.text import one_line, shorten

Write = Callable[..., None]


class SubagentTask:
    """A running sub-agent. call_id: its Task call, which is also the task's ID."""

    def __init__(self, call_id: str, arguments: dict[str, Any]) -> None:
        self.call_id = call_id
        self.description = str(arguments.get("description") or "")
        self.kind = str(arguments.get("subagent_type") or "")
        self.prompt = str(arguments.get("prompt") or "")
        self.usage = Usage()
        self.calls = 0
        self.stopped = False
        self._started = monotonic()

    @property
    def milliseconds(self) -> int:
        return round((monotonic() - self._started) * 1000)

    @property
    def totals(self) -> dict[str, int]:
        """Its usage so far."""
        tokens = self.usage.input + self.usage.output
        return {"total_tokens": tokens, "tool_uses": self.calls, "duration_ms": self.milliseconds}

    def report(self, text: str) -> dict[str, Any]:
        """Return its report and usage, as the result of its call."""
        found = subagent_result(text, self.prompt, self.usage, self.calls, self.milliseconds)
        return {**found, "agentId": self.call_id, "agentType": self.kind}


class TaskLines:
    """Writes the lines. write: called with the subtype and the fields of a system line."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self.running: dict[str, SubagentTask] = {}
        self._jobs: dict[str, str] = {}
        self._ended: set[str] = set()
        self._live: dict[str, dict[str, str]] = {}

    def started(self, call_id: str, arguments: dict[str, Any], parent: str | None) -> None:
        """Report the start of a sub-agent. parent: the call of the sub-agent that started it; None for none."""
        if call_id in self.running:
            return
        task = self.running[call_id] = SubagentTask(call_id, arguments)
        above = self._depth(parent)
        self._write(
            "task_started", task_id=call_id, tool_use_id=call_id, description=task.description,
            subagent_type=task.kind, task_type="local_agent", prompt=task.prompt, is_backgrounded=False,
            spawn_depth=above + 1, **({"parent_task_id": parent} if parent in self.running else {}),
        )  # fmt: skip

    def follow(self, call_id: str, event: Event) -> None:
        """Count the usage and calls in a sub-agent's event; report each call that it makes."""
        task = self.running.get(call_id)
        if task is None:
            return
        if isinstance(event, UsageAdded):
            task.usage += event.usage
        elif isinstance(event, TurnFinished):
            task.stopped = event.diagnostics.terminal_reason == "interrupted"
        elif isinstance(event, ToolRequested):
            task.calls += 1
            self._write(
                "task_progress", task_id=call_id, tool_use_id=call_id, description=one_line(event.summary),
                subagent_type=task.kind, usage=task.totals, last_tool_name=event.tool,
            )  # fmt: skip

    def finished(self, call_id: str, status: str, report: str) -> SubagentTask | None:
        """Report the end of a sub-agent, and return it. status: completed, failed or stopped."""
        task = self.running.pop(call_id, None)
        if task is not None:
            status = "stopped" if task.stopped else status
            summary = shorten(one_line(report), 400) or task.description
            self._notify(call_id, call_id, status, summary, usage=task.totals)
        return task

    def watch(self, jobs: Iterable[Job], call_id: str = "") -> str | None:
        """Report background commands that have started or ended; return the ID of a new one, or None.

        call_id: the call that may have started it.
        """
        new = None
        for job in jobs:
            if job.id not in self._jobs and job.running:
                new, self._jobs[job.id] = job.id, call_id
                self._live[job.id] = {"task_id": job.id, "task_type": "local_bash", "description": _name(job)}
                self._write("background_tasks_changed", tasks=list(self._live.values()))
                self._write(
                    "task_started", task_id=job.id, tool_use_id=call_id, description=_name(job),
                    task_type="local_bash", is_backgrounded=True,
                )  # fmt: skip
            elif job.id in self._jobs and not job.running:
                self._job_ended(job)
        return new

    def close(self, jobs: Iterable[Job] = ()) -> None:
        """Report the end of all that still runs: no task outlives the run."""
        for call_id in list(self.running)[::-1]:
            self.finished(call_id, "stopped", "")
        for job in jobs:
            if job.id in self._jobs:
                self._job_ended(job)

    def _job_ended(self, job: Job) -> None:
        if job.id in self._ended:
            return
        self._ended.add(job.id)
        code = job.ended[1] if job.ended is not None else None
        status = "stopped" if code is None else "failed" if code else "completed"
        how = f"exit code {code}" if code is not None else "stopped"
        self._write("task_updated", task_id=job.id, patch={"status": "killed" if code is None else status,
                                                           "end_time": round(time() * 1000)})  # fmt: skip
        self._notify(job.id, self._jobs[job.id], status, f"{_name(job)}: {how}")
        self._live.pop(job.id, None)
        self._write("background_tasks_changed", tasks=list(self._live.values()))

    def _notify(self, task_id: str, call_id: str, status: str, summary: str, **more: Any) -> None:
        self._write(
            "task_notification",
            task_id=task_id, tool_use_id=call_id, status=status, output_file="", summary=summary, **more,
        )  # fmt: skip

    def _depth(self, call_id: str | None) -> int:
        return 1 if call_id in self.running else 0


def _name(job: Job) -> str:
    return shorten(one_line(job.command), 200)
