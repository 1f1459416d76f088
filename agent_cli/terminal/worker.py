"""The thread that works: one job at a time, every end reported to the screen."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from agent_cli.terminal.bridge import Bridge
from agent_cli.terminal.slash import ExitRequestedError
from agent_tools.inert import inert
from agent_tools.values import Value

PATIENCE = 3.0


class Printed(Value):
    """Lines that are made of harmless text already."""

    text: str


class UserEcho(Value):
    """A message of the user's that was not typed into the line."""

    text: str


class JobFinished(Value):
    """A job is over. leave: so is the session."""

    leave: bool = False


class Sink:
    """A file whose text goes to the screen, whole lines at a time. foreign: the text has to be made harmless first."""

    def __init__(self, bridge: Bridge, *, foreign: bool = False) -> None:
        self._bridge, self._foreign = bridge, foreign
        self._held = ""

    def write(self, text: str) -> int:
        whole, end, self._held = (self._held + (inert(text) if self._foreign else text)).rpartition("\n")
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

    def stop(self, meanwhile: Callable[[], None]) -> None:
        """No more jobs; the last one gets a moment to end, and `meanwhile` is called over and over."""
        self._jobs.put(None)
        end = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < end:
            meanwhile()
            self._thread.join(0.01)
        meanwhile()
        self._bridge.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            leave = False
            try:
                job()
            except ExitRequestedError:
                leave = True
            except BaseException as error:  # noqa: BLE001 - raised again on the main thread, where endings are worded
                self.failed = error
            self._bridge.emit(JobFinished(leave))
