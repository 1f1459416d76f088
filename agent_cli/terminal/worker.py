"""The thread that works: one job at a time, every end reported to the screen."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from agent_cli.terminal.bridge import Bridge
from agent_tools.values import Value

PATIENCE = 3.0


class Leave(Exception):
    """End the session."""


class Printed(Value):
    """Lines that are made of harmless text already."""

    text: str


class Ended(Value):
    """A job is over. leave: so is the session."""

    leave: bool = False


class Sink:
    """A file whose text goes to the screen as it is written, whole lines at a time."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._held = ""

    def write(self, text: str) -> int:
        whole, end, self._held = (self._held + text).rpartition("\n")
        if end:
            self._bridge.emit(Printed(whole + end))
        return len(text)

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False


class Worker:
    """Runs jobs on a thread of its own. failed: what a job did not expect."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="turn", daemon=True)
        self.failed: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    @property
    def here(self) -> bool:
        """Whether this is the thread that works."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """No more jobs; the last one gets a moment to end."""
        self._jobs.put(None)
        self._bridge.close()
        self._thread.join(PATIENCE)

    def check(self) -> None:
        """Raise what a job did not expect."""
        if self.failed is not None:
            raise self.failed

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            leave = False
            try:
                job()
            except Leave:
                leave = True
            except BaseException as error:  # noqa: BLE001 - raised again on the main thread, where endings are worded
                self.failed = error
            self._bridge.emit(Ended(leave))
