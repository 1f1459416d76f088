"""One command's process, from its start to the end of everything it started.

The output is read as it comes and kept in bounded memory. What ends the wait is the exit of the process itself, not
the end of its output: a child left in the background may hold that open for ever. A time-out or interruption ends
the whole process group, first asking, then by force, and on Linux also children that left the group. Where the program
itself is killed, a shell beside it does that.
"""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Literal

from agent_tools.cancel import CancelToken
from agent_tools.process.reaper import REAPER, marked
from agent_tools.record import Value
from agent_tools.text import HeadTail, sanitize_output

GRACE = 0.2
TICK = 0.05
Cause = Literal["exit", "time-out", "interrupted"]


class ExitInfo(Value):
    """How a command ended. code: as from wait, negative for a signal. left: something of it still runs."""

    code: int
    seconds: float
    cause: Cause = "exit"
    left: bool = False


def run_process(
    argv: list[str],
    cwd: Path,
    env: dict[str, str],
    seconds: float,
    cancel: CancelToken,
    kept: HeadTail,
    inherited: tuple[int, ...] = (),
) -> Generator[str, None, ExitInfo]:
    """Run `argv` to its end, yielding output for the screen, and feeding all of it to `kept`.

    inherited: descriptors that it gets beside the usual three. Closing the generator ends the process too. Raises
    OSError where it cannot be started.
    """
    started = monotonic()
    screen = OutputFilter()

    def feed(data: bytes) -> None:
        kept.feed(data)
        screen.feed(data)

    running = RunningProcess(argv, cwd, env, feed, inherited)
    forget = cancel.on_cancel(running.wake)
    try:
        while (cause := running.step(started + seconds, cancel.cancelled, TICK)) is None:
            if text := screen.take():
                yield text
        running.drain()
        if text := screen.take(all_of_it=True):
            yield text
        code = running.process.wait()
        return ExitInfo(code, monotonic() - started, cause, running.group_lives())
    finally:
        forget()
        if running.process.returncode is None:
            running.end()
        running.close()


class RunningProcess:
    """A started process, its output pipe, and what wakes whoever waits for either.

    feed: takes the output; feed_errors: standard error, where that is to be kept apart. stdin: a descriptor to read
    from. mark: what its descendants on Linux are known by, in their environment. All but `wake` is for one thread.
    """

    def __init__(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        feed: Callable[[bytes], None],
        inherited: tuple[int, ...] = (),
        *,
        stdin: int = subprocess.DEVNULL,
        feed_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        self.mark = os.urandom(8).hex()
        REAPER.expect(self.mark)
        try:
            self.process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=marked(env, self.mark),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if feed_errors is None else subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=inherited,
            )
        except BaseException:  # nothing started is left to watch; the call shows the error
            REAPER.give_up(self.mark)
            raise
        REAPER.watch(self.process.pid, self.mark)
        assert self.process.stdout is not None
        # The outputs that are still open, with who takes each.
        self._outputs = {self.process.stdout.fileno(): feed}
        if feed_errors is not None and self.process.stderr is not None:
            self._outputs[self.process.stderr.fileno()] = feed_errors
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._watch = selectors.DefaultSelector()
        for output in self._outputs:
            os.set_blocking(output, False)
            self._watch.register(output, selectors.EVENT_READ)
        self._watch.register(self._ear, selectors.EVENT_READ)
        self._handle = -1
        self._nap = 0.002
        # Where the kernel has it, the exit itself wakes us.
        with suppress(AttributeError, OSError):
            self._handle = os.pidfd_open(self.process.pid)
            self._watch.register(self._handle, selectors.EVENT_READ)

    def wake(self) -> None:
        """Make a `read` that waits return. A closed socket, unlike a closed descriptor, cannot be someone else's."""
        with suppress(OSError):
            self._bell.send(b"!")

    @property
    def wakes(self) -> bool:
        """Whether the exit itself ends a `read`."""
        return self._handle >= 0

    def exited(self) -> bool:
        """Whether the process ended. It is not reaped yet: until then its group's number is ours alone."""
        if self.process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def step(self, until: float, stop: bool, tick: float = 1.0) -> Cause | None:
        """Read for up to `tick` seconds, or less where nothing tells of the exit; None while it goes on, else how it
        came to its end. It is ended here where it is to stop, or its time, `until` as from monotonic, is over."""
        if self.exited():
            return "exit"
        left = until - monotonic()
        if not stop and left > 0:
            self.read(min(tick if self.wakes else TICK, left))
            return None
        self.end()
        return "interrupted" if stop else "time-out"

    def read(self, seconds: float) -> None:
        """Take in what there is to read, waiting up to `seconds` for output, the exit or a wake-up."""
        if not self._outputs and self._handle < 0:
            # Nothing tells of the exit: look again soon, then less often.
            seconds = min(seconds, self._nap)
            self._nap = min(self._nap * 1.5, TICK)
        for key, _ in self._watch.select(seconds):
            if key.fd in self._outputs:
                self._take(key.fd)

    def _take(self, output: int) -> bool:
        try:
            data = os.read(output, 65_536)
        except BlockingIOError:
            return False
        if not data:
            self._watch.unregister(output)
            del self._outputs[output]
            return False
        self._outputs[output](data)
        return True

    def drain(self) -> None:
        """Take in what is in the pipe already. Someone may be filling it still, hence the bound."""
        until = monotonic() + GRACE
        for output in list(self._outputs):
            while output in self._outputs and self._take(output) and monotonic() < until:
                pass

    def end(self) -> None:
        """End the process and its group: ask, wait a moment, then by force."""
        pid = self.process.pid
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
        until = monotonic() + GRACE
        # An open pipe means that some member is still busy with its own ending.
        while (self._outputs or not self.exited()) and (left := until - monotonic()) > 0:
            self.read(min(left, 0.01) if self.exited() else left)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        end_strays(self.mark)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)

    def group_lives(self) -> bool:
        """Whether members of the group outlived the process."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def close(self, *, strays: bool = False) -> None:
        """Give back every descriptor. strays: what the process left behind is to end with the program."""
        REAPER.forget(self.process.pid, strays=strays)
        self._watch.close()
        self._bell.close()
        self._ear.close()
        if self._handle >= 0:
            os.close(self._handle)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def end_strays(mark: str) -> None:
    """Kill what left the process group, known by the mark in its environment. Only where there is a /proc."""
    needle = f":{mark}".encode()
    for _ in range(3):
        found = False
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if needle in (entry / "environ").read_bytes():
                    found = True
                    os.kill(int(entry.name), signal.SIGKILL)
        if not found:
            return


class OutputFilter:
    """Output on its way to a user: harmless text, in portions not too small, too large or too frequent."""

    def __init__(self, portion: int = 8_000, pause: float = TICK) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._portion, self._pause = portion, pause
        self._pending, self._skipped, self._last = b"", 0, 0.0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; of a flood, only the latest are kept."""
        self._pending += data
        if len(self._pending) > self._portion:
            self._skipped += len(self._pending) - self._portion
            self._pending = self._pending[-self._portion :]

    def take(self, all_of_it: bool = False) -> str:
        """What may be shown now, "" for nothing yet. An escape sequence is held back until it is whole."""
        now = monotonic()
        if not self._pending or (now - self._last < self._pause and not all_of_it):
            return ""
        self._last = now
        data, self._pending = self._pending, b""
        start = data.rfind(b"\x1b", -60)
        if start >= 0 and not all_of_it and not any(64 <= b < 127 and b not in b"[]P" for b in data[start + 1 :]):
            data, self._pending = data[:start], data[start:]
        text = sanitize_output(self._decoder.decode(data, all_of_it))
        if self._skipped:
            text = f"\n[… {self._skipped:,} bytes not shown …]\n{text}"
            self._skipped = 0
        return text
