"""Run the processes of an evaluation, with time limits and a way to end all at once, and the threads that wait."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

from agent_tools.fs.safe_files import open_regular
from agent_tools.process.child import kill_group, start_child
from agent_tools.record import Value

Job = TypeVar("Job")
Result = TypeVar("Result")


class JobThreads(Generic[Job, Result]):
    """Runs jobs in parallel. running: the number of jobs that `next` has not returned yet."""

    def __init__(self, run: Callable[[Job], Result]) -> None:
        self._run = run
        self._ended: queue.SimpleQueue[tuple[Job, Result | None, BaseException | None]] = queue.SimpleQueue()
        self.running = 0

    def start(self, job: Job) -> None:
        """Run a job in a new thread."""
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


# How long a process may take to end after it was interrupted.
GRACE_SECONDS = 10.0


class ProcessEnd(Value):
    """How a process ended. code: negative for a signal."""

    code: int
    timed_out: bool = False


class EvaluationStoppedError(Exception):
    """The evaluation was stopped before this process could start."""


class ProcessPool:
    """Runs processes from several threads. To end one, it is interrupted first, and killed with its group later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        seconds: float,
        *,
        out: Path,
        err: Path | None = None,
        feed: bytes = b"",
        pass_fds: tuple[int, ...] = (),
    ) -> ProcessEnd:
        """Run a process to its end; its output goes into new files. err: by default as `out`.

        Raises OSError if it cannot be started, and EvaluationStoppedError after `stop`.
        """
        late = threading.Event()
        with ExitStack() as files:
            out_file = files.enter_context(_written(out))
            err_file = files.enter_context(_written(err)) if err else subprocess.STDOUT
            with self._lock:
                if self.is_stopping():
                    raise EvaluationStoppedError
                process = start_child(
                    list(argv),
                    env=env,
                    memory=None,
                    cwd=cwd,
                    stdin=subprocess.PIPE,
                    stdout=out_file,
                    stderr=err_file,
                    pass_fds=pass_fds,
                )
                self._running.add(process)
            if self.is_stopping():  # meanwhile
                self._end(process)
            timer = _timer(seconds, lambda: self._end_late(process, late))
            try:
                _feed(process, feed)
                code = process.wait()
            finally:
                timer.cancel()
                self._running.discard(process)
        return ProcessEnd(code, late.is_set())

    def _end_late(self, process: subprocess.Popen[bytes], late: threading.Event) -> None:
        late.set()
        self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        kill_group(process, signal.SIGINT)
        _timer(GRACE_SECONDS, lambda: self._kill(process))

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        if process in self._running:
            kill_group(process, signal.SIGKILL)

    def is_stopping(self) -> bool:
        """Return True after `stop`."""
        return self._stopping

    def stop(self) -> None:
        """Interrupt all processes, and start no more; if called again, kill them. Safe in a signal handler."""
        again, self._stopping = self._stopping, True
        for process in list(self._running):
            if again:
                self._kill(process)
            else:
                self._end(process)


def _timer(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer


@contextmanager
def _written(path: Path) -> Iterator[int]:
    """Open a new file for a process to write to."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError), process.stdin as stdin:
        stdin.write(data)
