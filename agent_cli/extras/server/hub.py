"""The parts of a running server: sessions, workers, file watches, and change notifications."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_cli import RunEnvironment, find_environment
from agent_cli.extras.server.completer import Completer
from agent_cli.extras.server.pool import Pool
from agent_cli.extras.server.push_service import PushService
from agent_cli.extras.server.streams import FileWatch
from agent_cli.extras.server.tasks import ServerTask, TaskStore
from agent_cli.extras.server.views import ServedProject, Views
from agent_cli.kernel.session.store import state_folder


class ServeOptions:
    """Options of the server.

    workers: maximum number of workers.
    bypass: requests may choose the mode bypassPermissions.
    link: address of the page.
    private: hosts that a push may go to though they are not public.
    ticks: it starts the runs of schedules.
    """

    def __init__(
        self, *, workers: int, bypass: bool, link: str, private: tuple[str, ...] = (), ticks: bool = True
    ) -> None:
        self.workers, self.bypass, self.link, self.private, self.ticks = workers, bypass, link, private, ticks


class Hub:
    """Shared state of the handlers. on_change: called with the ID of each changed session."""

    def __init__(self, env: Mapping[str, str], projects: list[Path], options: ServeOptions) -> None:
        self.env, self.options = env, options
        self.state = state_folder(env)
        self.tasks = TaskStore(self.state)
        self.pool = Pool(self.tasks, options.workers, env, self.notify_changed)
        self.views = Views(env, [ServedProject(folder) for folder in projects], self.tasks, self.pool)
        self.watch = FileWatch()
        self.completer = Completer()
        self.push = PushService(self.state, env, f"https://{options.link.partition('://')[2]}", options.private)
        self.listeners: set[asyncio.Queue[str]] = set()
        self.on_change: list[Callable[[str], None]] = []
        self._versions: Counter[str] = Counter()
        self._feeds: dict[str, set[asyncio.Event]] = {}
        self._details: dict[str, tuple[Any, dict[str, Any] | None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def run_env(self, folder: str | Path) -> RunEnvironment:
        """Return where a run in a folder happens. Raises UsageError."""
        return find_environment(self.env, folder)

    def is_ready(self, task: ServerTask) -> bool:
        """Return True if a worker has something to do; messages wait for the decisions that are missing."""
        if any(entry.kind not in ("decision", "message", "note", "options") for entry in task.open_entries()):
            return True
        return all("decided" in item for item in self.views.pending_items(task.log(self.state), task))

    def notify_changed(self, session_id: str) -> None:
        """Notify the clients and listeners of a session of a change that is not in its log."""
        self._versions[session_id] += 1
        for event in self._feeds.get(session_id, ()):
            event.set()
        for queue in self.listeners:
            if queue.qsize() < 10_000:
                queue.put_nowait(session_id)
        for listener in self.on_change:
            listener(session_id)

    def version(self, session_id: str) -> int:
        """Return a number that changes with the session."""
        return self._versions[session_id]

    def follow(self, session_id: str, event: asyncio.Event) -> None:
        self._feeds.setdefault(session_id, set()).add(event)

    def unfollow(self, session_id: str, event: asyncio.Event) -> None:
        self._feeds.get(session_id, set()).discard(event)

    async def detail(self, session_id: str) -> dict[str, Any] | None:
        """Return a session as its page shows it; cached until something changes."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            signature = await asyncio.to_thread(self._signature, session_id)
            known = self._details.get(session_id)
            if known is None or known[0] != signature:
                known = self._details[session_id] = signature, await asyncio.to_thread(self.views.detail, session_id)
                while len(self._details) > 64:
                    self._details.pop(next(iter(self._details)))
            return known[1]

    def _signature(self, session_id: str) -> Any:
        log = self.views.session_log(session_id)
        task = self.tasks.get(session_id)
        paths = [log] if log is not None else []
        paths += [task.folder / name for name in ("inbox.jsonl", "taken", "failure")] if task is not None else []
        marks = []
        for path in paths:
            try:
                stat = path.stat()
                marks.append((stat.st_mtime_ns, stat.st_size))
            except OSError:
                marks.append((0, 0))
        return marks, session_id in self.pool.running, session_id in self.pool.queued, self._versions[session_id]
