"""Threads that run jobs, one thread for each job; their results come back one at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class JobThreads(Generic[Job, Result]):
    """Runs jobs at the same time. running: how many have not been returned by `next`."""

    def __init__(self, run: Callable[[Job], Result]) -> None:
        self._run = run
        self._ended: queue.SimpleQueue[tuple[Job, Result | None, BaseException | None]] = queue.SimpleQueue()
        self.running = 0

    def start(self, job: Job) -> None:
        """Run a job in a thread of its own."""
        self.running += 1
        threading.Thread(target=self._work, args=(job,), daemon=True).start()

    def next(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        """Return the next job that has ended, and its result; None if none has within `seconds`.

        Raises what the job raised.
        """
        try:
            job, result, error = self._ended.get(timeout=seconds)
        except queue.Empty:
            return None
        self.running -= 1
        if error is not None:
            raise error
        return job, result  # type: ignore[return-value]

    def _work(self, job: Job) -> None:
        try:
            self._ended.put((job, self._run(job), None))
        except BaseException as error:  # noqa: BLE001 - the thread must report its job; `next` raises it to the command
            self._ended.put((job, None, error))
