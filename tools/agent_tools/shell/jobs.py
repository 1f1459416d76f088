"""Background commands: start, watch (one thread each), read, stop. None outlives the program.

They are stopped when the conversation closes or Python exits; if the program is killed, `reaper.py` stops them.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from agent_tools.base import ToolContext, ToolState
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.results import ToolError
from agent_tools.sandbox.conditions import Wrapped
from agent_tools.text import HeadTail, one_line, shorten

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo, RunningProcess
    from agent_tools.shell.screen import Screen

with lazy_imports():
    from agent_tools.process import reaper
    from agent_tools.shell import process, screen, strays

MAX_RUNNING = 8
# Ended commands that can still be read.
MAX_ENDED = 50
_END_SECONDS = 5.0
# Seconds without output after which a program in a terminal is assumed to wait for input.
_PAUSE_SECONDS = 0.2
STRAYS_LEFT = "something it started still runs in the background"
_SIGNALS = {s.value: s.name for s in signal.Signals}
# Bytes of the beginning and the end of its output that the user can see.
_HEAD, _TAIL = 20_000, 200_000
# Bytes from which the screen of a program in a terminal is drawn; one that writes more has drawn all of it again.
_MAX_UNDRAWN = 256_000
# Longest text about processes that a command left running.
_MAX_REST_CHARS = 300
# Paths that were moved away and are named in a note.
_MAX_MOVED = 5
# Longest command that is shown as a rule.
_MAX_RULE_CHARS = 80


class Job:
    """A background command; buffers its unread output, up to a limit.

    owner: the context that started it.
    reported: the model knows that it ended.
    terminal: it has a terminal to type into.
    vouched: a user or a rule allowed it, so its servers are reachable from this machine.
    rest: it is what a command left running when it ended.
    """

    def __init__(
        self,
        number: int,
        command: str,
        owner: ToolContext,
        seconds: float,
        wrapped: Wrapped | None = None,
        started: float | None = None,
        on_end: Callable[[Job], None] = lambda job: None,
        keep: process.HandOver | None = None,
    ) -> None:
        """keep: takes over what the command leaves running when it ends; returns False if that is not possible."""
        self.id = f"b{number}"
        self.command = command
        self.owner = owner
        self.ending: ExitInfo | None = None
        self.reported = False
        self.vouched = True
        self.terminal = False
        self.rest = False
        self._keep = keep
        self._reported_ports: set[int] = set()
        self.wrapped = wrapped
        self._started = monotonic() if started is None else started
        self._seconds = seconds
        self._on_end = on_end
        self._lock = threading.Lock()
        self._unread = owner.result_buffer()
        self._shown = HeadTail(_HEAD, _TAIL)
        self._screen: Screen | None = None
        # What the program wrote to its terminal, and is not on the screen yet.
        self._undrawn = bytearray()
        self._drew = False
        self._stop = False
        self._changed = threading.Event()
        self._ended = threading.Event()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    @property
    def pid(self) -> int:
        return self._process.process.pid

    @property
    def state(self) -> str:
        """The state in words: running, or how it ended."""
        if self.running or self.ending is None:
            return "running"
        if self.ending.cause == "exit":
            left = f"; {STRAYS_LEFT}" if self.ending.left else ended_note(self.ending)
            return f"{format_exit(self.ending)}{left}"
        return f"timed out after {self._seconds:g} s" if self.ending.cause == "time-out" else "ended on request"

    @property
    def ended(self) -> tuple[str, int | None] | None:
        """Its command and exit code (None if it was stopped); None while it runs."""
        if self.running or self.ending is None:
            return None
        return self.command, self.ending.code if self.ending.cause == "exit" and self.ending.code >= 0 else None

    @property
    def detached(self) -> bool:
        """True if only daemons of the command are left, outside the sandbox: they were meant to stay."""
        return self.rest and self._process.is_detached()

    @property
    def elapsed(self) -> float:
        """Seconds that it has been running, or ran."""
        return self.ending.seconds if self.ending is not None else monotonic() - self._started

    def begin(self, running: RunningProcess) -> None:
        """Watch a started process in a thread until it ends."""
        self._process = running
        threading.Thread(target=self._watch, args=(running,), name=self.id, daemon=True).start()

    def _watch(self, running: RunningProcess) -> None:
        kept = False
        try:
            while (cause := running.step(self._started + self._seconds, self._stop)) is None and running.left is None:
                pass
            running.drain()
            seconds = monotonic() - self._started
            left = running.left
            if cause == "exit" and not self.rest and not self.terminal:
                left = left or running.follow()
            if left is not None and cause in (None, "exit"):
                kept = self._keep is not None and self._keep(running, self._started)
                self.ending = process.ExitInfo(self._code(left.code), seconds, left=kept, rest=left.names)
                if not kept:
                    running.end()
            else:
                code = self._code(running.process.wait())
                still = not self.rest and running.group_is_alive()
                self.ending = process.ExitInfo(code, seconds, cause or "exit", still)
        finally:
            if not kept:
                running.close(strays=self.ending is None or self.ending.left)
                if self.wrapped is not None:
                    self.wrapped.close()
            self._ended.set()
            self._changed.set()
            self._on_end(self)

    def _code(self, code: int) -> int:
        return code if self.wrapped is None else self.wrapped.code(code)

    def closed_ports(self, listening: Iterable[int]) -> tuple[str, str]:
        """Return a note about servers that the user's browser cannot reach, for the model and for the user.

        Each port is reported once; "" if there is none.
        """
        new = [port for port in listening if port not in self._reported_ports]
        if self.vouched or not new or not self.running:
            return "", ""
        self._reported_ports.update(new)
        ports = f"Port{'s' * (len(new) > 1)} {', '.join(map(str, new))}"
        rule = self.command if len(self.command) <= _MAX_RULE_CHARS and self.command.isprintable() else "..."
        allow = f"(/permissions allow Bash({rule}))"
        return (
            f"{ports}: open to later commands, closed to the user's browser until the user allows the command {allow} "
            "and it is started again",
            f"{ports}: closed to your browser until you allow the command {allow} and it is started again",
        )

    def feed(self, data: bytes) -> None:
        """Add output."""
        with self._lock:
            self._unread.feed(data)
            self._shown.feed(data)
            if self.terminal:
                self._undrawn += data
                if len(self._undrawn) > 2 * _MAX_UNDRAWN:
                    del self._undrawn[:-_MAX_UNDRAWN]
            self._changed.set()

    def take(self) -> tuple[HeadTail, bool]:
        """Return the unread output, and whether it is the last; mark it as read."""
        ended = not self.running
        with self._lock:
            buffer, self._unread = self._unread, self.owner.result_buffer()
            self._changed.clear()
        # Also if it ended in between.
        if not self.running:
            self._changed.set()
        self.reported = self.reported or ended
        buffer.close()
        return buffer, ended

    def read(self, buffer: HeadTail, hint: str) -> str:
        """Return what the model reads of its latest output: the screen if the program draws, else the text.

        buffer, hint: the output, as `take` returned it, and how to see all of it if there is no file.
        """
        if self.running and self._draw():
            assert self._screen is not None
            return self._screen.text()
        return buffer.text(hint).rstrip("\n")

    def _draw(self) -> bool:
        """Bring the screen up to date; return True if the program draws."""
        with self._lock:
            new, self._undrawn = bytes(self._undrawn), bytearray()
        drawing = screen.draws(new) or (self._screen is not None and self._screen.is_other)
        if not (self._drew or drawing):
            with self._lock:
                self._undrawn[:0] = new  # the lines before are on the screen, too
            return False
        self._drew = True
        if self._screen is None:
            self._screen = screen.Screen(process.TERMINAL_ROWS, process.TERMINAL_COLUMNS)
        self._screen.feed(new)
        return drawing

    @property
    def keypad(self) -> bool:
        """True if the program in its terminal wants arrow keys as of a keypad."""
        return self._screen is not None and self._screen.keypad

    def type(self, text: str) -> None:
        """Type into its terminal. Raises ToolError if it has none, or does not accept input now."""
        if not self.terminal:
            raise ToolError(f"{self.id} has no terminal to type into. Start it with pty=true.")
        if not self.running:
            raise ToolError(f"{self.id} has ended: {self.state}.")
        if not self._process.type(text.encode("utf-8", "replace")):
            raise ToolError(f"{self.id} does not read its input now. Look at its output, then try again.")

    @property
    def unread(self) -> int:
        """Bytes of unread output."""
        with self._lock:
            return self._unread.total

    def last(self, size: int) -> str:
        """Return the end of the unread output."""
        with self._lock:
            return self._unread.last(size)

    def output(self) -> str:
        """Return its output for the user, whatever the model has read; the middle of a long one is missing."""
        with self._lock:
            return self._shown.text("")

    def latest(self, size: int) -> str:
        """Return the end of its output for the user."""
        with self._lock:
            return self._shown.last(size)

    def wait_output(self, seconds: float) -> bool:
        """Wait for output or the end; return True if either came."""
        return self._changed.wait(seconds)

    def wait_pause(self, cancel: CancelToken, seconds: float, *, known: int = 0) -> None:
        """Wait until new output pauses, or for the end. known: bytes of unread output before.

        Raises CancelledError.
        """
        until = monotonic() + seconds
        before = -1
        while self.running and monotonic() < until and not (before == self.unread > known):
            before = self.unread
            self._ended.wait(_PAUSE_SECONDS)
            cancel.check()

    def wait_end(self, seconds: float) -> bool:
        """Wait for the end; return True if it came."""
        return self._ended.wait(seconds)

    def stop(self, *, daemons: bool = True) -> None:
        """Request its end without waiting. daemons: also of what has left its session."""
        if self.running:
            self._process.spares_daemons = not daemons
            self._stop = True
            self._process.wake()

    def end(self, *, daemons: bool = True) -> None:
        """End it, or the processes it left behind, and wait for that. daemons: see `stop`."""
        if self.running:
            self.stop(daemons=daemons)
            self._ended.wait(_END_SECONDS)
        elif self.ending is not None and self.ending.left:
            strays.end_strays(self._process.mark)
            reaper.REAPER.forget(self.pid)


class Jobs(ToolState):
    """The background commands of a conversation and its sub-agents.

    on_end: called when a command has ended, in the thread that watched it; not for those that `close` ends.
    """

    def __init__(self, on_end: Callable[[Job], None] | None = None) -> None:
        self._on_end = on_end
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._lock = threading.Lock()

    def all(self) -> tuple[Job, ...]:
        """Return the running commands and the latest that ended, in order of their start."""
        return tuple(self._jobs.values())

    def unfinished(self) -> dict[str, str]:
        """Return the commands that are running, by ID, without daemons that `close` leaves running."""
        return {job.id: job.command for job in self.all() if job.running and not job.detached}

    def outliving(self) -> dict[str, str]:
        return {job.id: job.command for job in self.all() if job.running and job.detached}

    def find(self, job_id: str) -> Job:
        """Return the command with this ID. Raises ToolError if there is none."""
        if job_id not in self._jobs:
            known = (
                f"The IDs are: {', '.join(self._jobs)}."
                if self._jobs
                else "No job was started in this run of the program; earlier jobs ended with the previous one."
            )
            raise ToolError(f"No background command has the ID {shorten(job_id, 20)!r}. {known}")
        return self._jobs[job_id]

    def start(
        self,
        argv: list[str],
        command: str,
        cwd: Path,
        env: dict[str, str],
        seconds: float,
        owner: ToolContext,
        wrapped: Wrapped | None = None,
        *,
        terminal: bool = False,
    ) -> Job:
        """Start a command. wrapped: its sandbox, closed when it ends. terminal: give it its own terminal.

        Raises ToolError if too many are running, OSError if it cannot be started.
        """
        with self._lock:
            if full := self.full():
                raise ToolError(f"{full}.{owner.workspace.advice('KillShell', 'Stop one with {} first.')}")
            keep = partial(self._keep_rest, command, owner, wrapped)
            job = Job(self._count + 1, command, owner, seconds, wrapped, on_end=self._job_ended, keep=keep)
            job.terminal = terminal
            if wrapped is None:
                running = process.RunningProcess(argv, cwd, env, job.feed, terminal=terminal)
            else:
                running = process.RunningProcess(
                    wrapped.argv, cwd, wrapped.env, job.feed, wrapped.pass_fds, terminal=terminal, report=wrapped.left
                )
            self._add(job, running)
        return job

    def adopt(
        self,
        running: RunningProcess,
        command: str,
        started: float,
        owner: ToolContext,
        wrapped: Wrapped | None,
    ) -> Job | None:
        """Continue a command, or what it left running when it ended; return None if too many are running.

        Its output so far has been read; it no longer has a time limit. wrapped: closed when it ends.
        """
        with self._lock:
            if self.full():
                return None
            keep = partial(self._keep_rest, command, owner, wrapped)
            job = Job(self._count + 1, command, owner, math.inf, wrapped, started, self._job_ended, keep)
            job.rest = running.take_rest()
            running.redirect(job.feed)
            self._add(job, running)
        return job

    def _keep_rest(
        self, command: str, owner: ToolContext, wrapped: Wrapped | None, running: RunningProcess, started: float
    ) -> bool:
        """Continue what a background command left running when it ended."""
        return self.adopt(running, command, started, owner, wrapped) is not None

    def full(self) -> str:
        """Return a message if the maximum number of commands is running, else ""."""
        busy = [job.id for job in self._jobs.values() if job.running]
        return (
            f"{MAX_RUNNING} background commands are already running ({', '.join(busy)})"
            if len(busy) >= MAX_RUNNING
            else ""
        )

    def _add(self, job: Job, running: RunningProcess) -> None:
        if not self._count:
            import atexit

            atexit.register(self.close)
        self._count += 1
        self._jobs[job.id] = job
        job.begin(running)
        for old in [j for j in self._jobs.values() if not j.running][:-MAX_ENDED]:
            del self._jobs[old.id]

    def _job_ended(self, job: Job) -> None:
        if self._on_end is not None:
            self._on_end(job)

    def notices(self, ctx: ToolContext, *, root: bool) -> list[str]:
        """Return a line for each unreported end of a command: of this context; at the root, of all contexts."""
        found = []
        for job in self._jobs.values():
            if not job.running and not job.reported and (root or job.owner is ctx):
                job.reported = True
                found.append(end_notice(job))
        return found

    @property
    def has_unreported(self) -> bool:
        """True if the model does not know yet that a command has ended."""
        return any(not job.running and not job.reported for job in self.all())

    def close(self) -> None:
        """Stop all commands. Returns within seconds."""
        self._on_end = None
        for job in self._jobs.values():
            # Outside the sandbox, a daemon that a command started was meant to stay.
            job.stop(daemons=not job.rest)
        for job in self._jobs.values():
            job.end(daemons=not job.rest)


def end_notice(job: Job) -> str:
    """Return the notice for the model that a background command has ended, on one line."""
    last = shorten(job.last(1_000).strip()[-300:], 300)
    text = f'; last output: "{last}"' if last else ""
    command = shorten(job.command, 80)
    ended = f"[Background command {job.id} ({command}) ended after {clock_duration(job.elapsed)}: {job.state}{text}]"
    return " ".join((ended, *moved_notes(job.wrapped)))


def moved_notes(wrapped: Wrapped | None) -> list[str]:
    """Return notes on what a command created under protected names, and that was moved away since the last call."""
    moved = wrapped.moved() if wrapped is not None else ()
    lines = [
        f"[the sandbox does not let commands create {one_line(str(each.path))}: "
        + (f"it could not be moved away ({each.why}): {each.to}]" if each.why else f"it was moved to {each.to}]")
        for each in moved[:_MAX_MOVED]
    ]
    more = [f"[{len(moved) - _MAX_MOVED} more were moved]"] if len(moved) > _MAX_MOVED else []
    advice = "[create the file with a tool for files, or call again with dangerouslyDisableSandbox: the user is asked]"
    return [*lines, *more, advice] if lines else []


def ended_note(ending: ExitInfo) -> str:
    """Return a note about processes that a command left running, and that were ended with it; "" if there are none."""
    return f"; what it left running was ended: {format_rest(ending)}" if ending.rest and not ending.left else ""


def format_rest(ending: ExitInfo) -> str:
    """Format what a command left running: the command line of the last process, and how many more there are."""
    if not ending.rest:
        return ""
    more = f" and {len(ending.rest) - 1} more" if len(ending.rest) > 1 else ""
    return f"{shorten(ending.rest[-1], _MAX_REST_CHARS)}{more}"


def format_exit(ending: ExitInfo) -> str:
    """Format the exit code or signal of a command that was not stopped by this program."""
    if ending.code < 0:
        return f"killed by {_SIGNALS.get(-ending.code, 'a signal')} (signal {-ending.code})"
    # A shell reports signal n of its last program as 128 + n.
    name = _SIGNALS.get(ending.code - 128)
    return f"exit code {ending.code}{f' (128 + {ending.code - 128}: {name})' if name else ''}"


def format_duration(seconds: float) -> str:
    """Format a final duration: "12 ms", "3.4 s"."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def clock_duration(seconds: float) -> str:
    """Format a duration that may be long: "0:07", "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
