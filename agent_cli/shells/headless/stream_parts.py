"""The lines of stream-json about what lasts longer than one event: tasks (sub-agents, background commands) and answers.

A reader may wait until every sub-agent has ended, so every `task_started` is followed by a `task_notification`, at the
latest when the turn or the run ends. A streaming answer becomes the six stream events of the Messages API, whatever
protocol it comes from: blocks are written in the order in which they begin, one at a time; if the arguments of two
calls interleave, the second call waits until the first is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time
from typing import Any

from agent_cli import CallView, LiveSession, ToolCall, Usage
from agent_cli.kernel.engine.tool_results import subagent_result
from agent_cli.kernel.messages import Part, Text, Thinking
from agent_tools.shell.jobs import Job
from agent_tools.text import one_line, shorten

WriteLine = Callable[..., None]


class SubagentTask:
    """A running sub-agent. call_id: its Task call, which is also the task's ID."""

    def __init__(self, call: CallView) -> None:
        self._call = call
        self.call_id = call.call_id
        self.description = str(call.arguments.get("description") or "")
        self.kind = str(call.arguments.get("subagent_type") or "")
        self.prompt = str(call.arguments.get("prompt") or "")
        self.background = bool(call.arguments.get("background") or call.arguments.get("run_in_background"))
        self._started = monotonic()

    @property
    def usage(self) -> Usage:
        return self._call.nested.own_usage if self._call.nested is not None else Usage()

    @property
    def calls(self) -> int:
        return self._call.nested.made if isinstance(self._call.nested, LiveSession) else 0

    @property
    def stopped(self) -> bool:
        """True if it was interrupted."""
        ends = self._call.nested.ends if self._call.nested is not None else []
        return bool(ends) and ends[-1].diagnostics.terminal_reason == "interrupted"

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

    def __init__(self, write: WriteLine) -> None:
        self._write = write
        self.running: dict[str, SubagentTask] = {}
        self._jobs: dict[str, str] = {}
        self._ended: set[str] = set()
        self._live: dict[str, dict[str, str]] = {}

    def started(self, call: CallView, parent: str | None) -> None:
        """Report the start of a sub-agent. parent: the call of the sub-agent that started it; None for none."""
        if (call_id := call.call_id) in self.running:
            return
        task = self.running[call_id] = SubagentTask(call)
        above = 1 if parent in self.running else 0
        self._write(
            "task_started", task_id=call_id, tool_use_id=call_id, description=task.description,
            subagent_type=task.kind, task_type="local_agent", prompt=task.prompt, is_backgrounded=task.background,
            spawn_depth=above + 1, **({"parent_task_id": parent} if parent in self.running else {}),
        )  # fmt: skip

    def progress(self, task_id: str, call: CallView) -> None:
        """Report a call of a sub-agent. task_id: the sub-agent's; "" for none."""
        if (task := self.running.get(task_id)) is not None:
            self._write(
                "task_progress", task_id=task_id, tool_use_id=task_id, description=one_line(call.summary),
                subagent_type=task.kind, usage=task.totals, last_tool_name=call.tool,
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


def _name(job: Job) -> str:
    return shorten(one_line(job.command), 200)


WriteEvent = Callable[[dict[str, Any]], None]


class _Call:
    """A call whose arguments are arriving. sent: how many of its pieces were written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.sent = 0

    @property
    def whole(self) -> bool:
        text = "".join(self.pieces)
        if not text.endswith("}"):
            return False
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
        return True


class PartialMessage:
    """The stream events of one message, from `message_start` to `message_stop`."""

    def __init__(self, write: WriteEvent, message_id: str, model: str, usage: dict[str, Any]) -> None:
        self._write, self.id = write, message_id
        self._count = 0
        # The kind of the open block, or the ID of its call.
        self._open = ""
        self._kinds: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._waiting: list[str] = []
        message: dict[str, Any] = {
            "id": message_id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        write({"type": "message_start", "message": message})

    def text(self, text: str) -> None:
        """Add a piece of text."""
        self._begin("text", {"type": "text", "text": ""})
        self._delta({"type": "text_delta", "text": text})

    def thinking(self, text: str) -> None:
        """Add a piece of thinking."""
        self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        self._delta({"type": "thinking_delta", "thinking": text})

    def signed(self, signature: str, data: str) -> None:
        """End the thinking with its signature; `data` makes a separate block."""
        if data:
            self._close()
            self._begin("redacted", {"type": "redacted_thinking", "data": data})
        else:
            self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            self._delta({"type": "signature_delta", "signature": signature})
        self._close()

    def call(self, call_id: str, name: str) -> None:
        """Begin a call."""
        self._calls[call_id] = _Call(name)
        self._waiting.append(call_id)
        self._advance()

    def arguments(self, call_id: str, piece: str) -> None:
        """Add a piece of a call's arguments."""
        if call := self._calls.get(call_id):
            call.pieces.append(piece)
            self._advance()

    def finish(self, parts: Sequence[Part]) -> None:
        """Write the parts of the finished message that were not streamed, and close its last block."""
        self._advance(end=True)
        for part in parts:
            match part:
                case Text(text=text) if text and "text" not in self._kinds:
                    self._whole("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text})
                case Thinking(text=text, provider=provider) if text and provider and "thinking" not in self._kinds:
                    self.thinking(text)
                case ToolCall(id=call_id, name=name) if call_id not in self._calls:
                    self._calls[call_id] = _Call(name)
                    delta = {"type": "input_json_delta", "partial_json": json.dumps(part.arguments)}
                    self._whole(call_id, _tool_use(call_id, name), delta)
        self._close()

    def stop(self, stop_reason: str | None, usage: dict[str, Any]) -> None:
        """End the message."""
        self._advance(end=True)
        self._close()
        self._write(
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop_reason, "stop_sequence": None},
                "usage": usage,
                "context_management": None,
            }
        )
        self._write({"type": "message_stop"})

    def _whole(self, kind: str, block: dict[str, Any], delta: dict[str, Any]) -> None:
        self._close()
        self._begin(kind, block)
        self._delta(delta)
        self._close()

    def _advance(self, *, end: bool = False) -> None:
        """Write the pieces of the open call, then of those that wait for it. end: no more pieces will arrive."""
        while self._waiting:
            call_id = self._waiting[0]
            call = self._calls[call_id]
            self._begin(call_id, _tool_use(call_id, call.name))
            for piece in call.pieces[call.sent :]:
                self._delta({"type": "input_json_delta", "partial_json": piece})
            call.sent = len(call.pieces)
            if not end and (len(self._waiting) == 1 or not call.whole):
                return
            self._waiting.pop(0)
            self._close()

    def _begin(self, kind: str, block: dict[str, Any]) -> None:
        if self._open == kind:
            return
        if self._open:
            if kind in ("text", "thinking"):
                self._advance(end=True)
            self._close()
        self._open = kind
        self._kinds.add(kind)
        self._write({"type": "content_block_start", "index": self._count, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> None:
        self._write({"type": "content_block_delta", "index": self._count, "delta": delta})

    def _close(self) -> None:
        if self._open:
            self._write({"type": "content_block_stop", "index": self._count})
            self._count += 1
            self._open = ""


def _tool_use(call_id: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}
