"""Worker processes: one for each session with work to do, up to a limit; further sessions are queued.

A worker outlives the server: it has its own process group and keeps running when the server ends. The next server finds
it by the lock of its task.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_cli.extras.server.tasks import ServerTask, TaskStore
from agent_tools.fs.safe_files import open_regular

# Interval of checking a worker: our child, and one that an earlier server started.
_CHILD_POLL_SECONDS, _POLL_SECONDS = 0.05, 0.2
# How often a message is tried whose workers were killed before they could record it.
_MAX_TRIES = 3
_KILLED = "The process of this session was killed {times} times before it could begin. The message was not sent."


class Pool:
    """Starts workers. changed: called with a session's ID when one starts, ends or is queued."""

    def __init__(self, tasks: TaskStore, limit: int, env: Mapping[str, str], changed: Callable[[str], None]) -> None:
        self._tasks, self._limit, self._env, self._changed = tasks, limit, env, changed
        self._running: dict[str, subprocess.Popen[bytes] | None] = {}
        self._queue: dict[str, None] = {}
        self._rerun: set[str] = set()
        self._killed: Counter[str] = Counter()
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> frozenset[str]:
        return frozenset(self._running)

    @property
    def queued(self) -> tuple[str, ...]:
        """Return the sessions waiting for a worker, in order."""
        return tuple(self._queue)

    def recover(self, ready: Callable[[ServerTask], bool]) -> None:
        """Find the workers of an earlier server, and start those that it could not start any more.

        ready: returns True if a worker could do something for a task.
        """
        for task in self._tasks.all():
            if task.is_running():
                self._running[task.session_id] = None
                self._watch(task)
            elif task.open_entries() and ready(task):
                self.wake(task)

    def wake(self, task: ServerTask) -> None:
        """Start a worker for the inbox of a task, or queue the task."""
        session_id = task.session_id
        if session_id in self._running:
            # It may be about to end: then start another one if entries are still open.
            self._rerun.add(session_id)
        elif session_id not in self._queue:
            self._queue[session_id] = None
            self._start_queued()
        self._changed(session_id)

    def remove_queued(self, session_id: str) -> bool:
        """Remove a session from the queue; return False if it is not in it."""
        there = session_id in self._queue
        self._queue.pop(session_id, None)
        return there

    def _start_queued(self) -> None:
        while self._queue and len(self._running) < self._limit:
            session_id = next(iter(self._queue))
            del self._queue[session_id]
            task = self._tasks.get(session_id)
            if task is not None:
                self._start(task)

    def _start(self, task: ServerTask) -> None:
        self._rerun.discard(task.session_id)
        try:
            # What a worker says on standard error goes to its task's folder.
            errors = open_regular(task.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                command = [sys.executable, "-P", "-m", "agent_cli.extras.server.worker", str(task.folder)]
                process = subprocess.Popen(
                    command, cwd="/", env=dict(self._env), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(errors)
        except OSError as error:
            task.fail(f"A worker process cannot be started: {error.strerror or error}.")
            self._changed(task.session_id)
            return
        self._running[task.session_id] = process
        self._watch(task)
        self._changed(task.session_id)

    def _watch(self, task: ServerTask) -> None:
        watching = asyncio.get_running_loop().create_task(self._wait_for_end(task))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _wait_for_end(self, task: ServerTask) -> None:
        session_id = task.session_id
        process = self._running.get(session_id)
        code = 0
        if process is not None:
            while (ended := process.poll()) is None:
                await asyncio.sleep(_CHILD_POLL_SECONDS)
            code = ended
        else:
            while task.is_running():
                await asyncio.sleep(_POLL_SECONDS)
        del self._running[session_id]
        self._on_end(task, killed=code < 0)
        self._changed(session_id)
        self._start_queued()

    def _on_end(self, task: ServerTask, *, killed: bool) -> None:
        """Queue the session again if entries are open that the worker that ended did not handle."""
        session_id = task.session_id
        self._killed[session_id] = self._killed[session_id] + 1 if killed else 0
        messages = any(entry.kind in ("message", "resume") for entry in task.open_entries())
        if killed and self._killed[session_id] >= _MAX_TRIES and messages:
            with suppress(OSError):
                task.fail(_KILLED.format(times=_MAX_TRIES))
        elif (killed and messages) or (session_id in self._rerun and task.open_entries()):
            self._queue[session_id] = None
