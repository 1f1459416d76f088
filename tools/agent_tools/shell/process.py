"""Run the process of a command until it and everything it started has ended, and tell results from failures.

The output is read as it arrives, into bounded memory. The wait ends with the exit of the process itself, not with the
end of its output: a child in the background may keep it open forever. A time-out or interruption ends the whole
process group, first with SIGTERM, then with SIGKILL, and on Linux also children that left the group. If the program
itself is killed, the reaper does that.

Some exit codes are results, not failures: `grep` without a match, a false `test`, `diff` with a difference. The exit
code of a command line comes from the last program of a pipeline in its last list. If several programs may have set it
(`cd x && grep y`), one whose code is a result is enough: the output shows which it was.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import select
import selectors
import shlex
import signal
import socket
import subprocess
import termios
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeVar

from agent_tools.cancel import CancelToken
from agent_tools.process.reaper import REAPER, marked
from agent_tools.record import Value
from agent_tools.shell.strays import LeftRunning, Strays, end_strays
from agent_tools.text import HeadTail, sanitize_output

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
# Programs with the exit code that is a result, according to POSIX and their manuals.
_RESULT_CODES = {
    "grep": 1, "egrep": 1, "fgrep": 1, "zgrep": 1, "rg": 1, "ag": 1, "ack": 1, "diff": 1, "cmp": 1, "colordiff": 1,
    "test": 1, "[": 1, "[[": 1, "which": 1, "type": 1, "hash": 1, "pgrep": 1, "pidof": 1, "fuser": 1, "lsof": 1,
    "ps": 1, "expr": 1, "mountpoint": 1, "getent": 2,
}  # fmt: skip
# Programs with the subcommands or options that make the code a result.
_RESULT_ARGUMENTS = {
    "git": ("grep", "check-ignore", "show-ref", "--exit-code", "--quiet", "--is-ancestor", "--verify", "--get",
            "--error-unmatch", "-e"),
    "command": ("-v", "-V"),
    "kill": ("-0",),
    "jq": ("-e", "--exit-status"),
    "systemctl": ("is-active", "is-enabled", "is-failed"),
}  # fmt: skip
_WRAPPERS = re.compile(r"\w+\+?=.*|time|env|builtin|exec|sudo|timeout|\d+[smhd]?|!|\{")


def is_result_code(command: str, code: int) -> bool:
    """Return True if this exit code of a command line is a result; False if the line cannot be parsed."""
    if not 0 < code < 5:
        return False
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();|&\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return False
    deciders: list[list[str]] = [[]]
    for number, word in enumerate(words):
        ended = not any(re.fullmatch(r"[^();|&\n]+", later) for later in words[number:])
        if word in ("&&", "||"):
            deciders.append([])
        elif word in ("|", "|&"):
            deciders[-1] = []
        elif re.fullmatch(r"[();|&\n]+", word):
            if not ended and "(" not in word:
                deciders = [[]]
        else:
            deciders[-1].append(word)
    return any(_is_result_of(program, code) for program in deciders)


def _is_result_of(words: list[str], code: int) -> bool:
    while words and _WRAPPERS.fullmatch(words[0]):
        words = words[1:]
    if not words:
        return False
    program = words[0].rsplit("/", 1)[-1]
    if program in _RESULT_ARGUMENTS:
        return code in (1, 3) and any(word in _RESULT_ARGUMENTS[program] for word in words[1:])
    return _RESULT_CODES.get(program) == code


TERM_SECONDS = 0.2
TERMINAL_ROWS, TERMINAL_COLUMNS = 24, 80
POLL_SECONDS = 0.05
# Time for what a command left behind to end by itself.
_ENDING_SECONDS = 0.15
_MAX_REPORT_BYTES = 16_384
Cause = Literal["exit", "time-out", "interrupted"]


class ExitInfo(Value):
    """How a command ended.

    code: exit code, negative for a signal.
    seconds: how long it ran.
    cause: what ended it.
    left: some of its processes still run.
    rest: command lines of processes that it left running; they were ended unless `left`.
    """

    code: int
    seconds: float
    cause: Cause = "exit"
    left: bool = False
    rest: tuple[str, ...] = ()


HandOver = Callable[["RunningProcess", float], bool]


def run_process(
    argv: list[str],
    cwd: Path,
    env: dict[str, str],
    seconds: float,
    cancel: CancelToken,
    buffer: HeadTail,
    inherited: tuple[int, ...] = (),
    hand_over: HandOver | None = None,
    *,
    keep: HandOver | None = None,
    report: socket.socket | None = None,
) -> Generator[str, None, ExitInfo]:
    """Run `argv` to its end; yield output for the screen, and feed all of it to `buffer`.

    inherited: descriptors to pass besides the standard three.
    hand_over: called at the time-out with the process and the time of its start; returns True if it takes over the
    process, which is then not ended.
    keep: called in the same way when the command has ended and left processes running.
    report: tells what the command left running, if it is in the sandbox.
    Closing the generator ends the process too. Raises OSError if it cannot be started.
    """
    started = monotonic()
    screen = OutputFilter()

    def feed(data: bytes) -> None:
        buffer.feed(data)
        screen.feed(data)

    running = RunningProcess(argv, cwd, env, feed, inherited, report=report)
    forget = cancel.on_cancel(running.wake)
    handed_over = False
    try:
        cause: Cause | None = None
        while cause is None and running.left is None:
            if hand_over is not None and not cancel.cancelled and monotonic() >= started + seconds:
                running.drain()
                if handed_over := not running.exited() and hand_over(running, started):
                    break
                hand_over = None
            cause = running.step(started + seconds, cancel.cancelled, POLL_SECONDS)
            if cause is None and (text := screen.take()):
                yield text
        running.drain()
        left = None
        if not handed_over:
            left = running.left or (running.follow() if cause == "exit" and keep is not None else None)
        if text := screen.take(final=True):
            yield text
        seconds = monotonic() - started
        if left is not None:
            handed_over = keep is not None and keep(running, started)
            return ExitInfo(left.code, seconds, left=handed_over, rest=left.names)
        if cause is None:
            return ExitInfo(0, seconds, "time-out", left=True)
        code = running.process.wait()
        return ExitInfo(code, seconds, cause, running.group_is_alive())
    finally:
        forget()
        if not handed_over:
            if running.process.returncode is None:
                running.end()
            running.close()


class LastingThread:
    """A thread that lives as long as the program, and starts processes: a sandbox is killed when its thread ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def run(self, start: Callable[[], T]) -> T:
        """Run in this thread, or in the main one, which lasts as well."""
        if threading.current_thread() is threading.main_thread():
            return start()
        with self._lock:  # a second one would end with its first process
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor

                self._executor = ThreadPoolExecutor(1, "starter")
        return self._executor.submit(start).result()


_STARTER = LastingThread()


def _new_terminal() -> tuple[int, int]:
    """Return our end and the process's end of a new terminal of common size."""
    ours, device = os.openpty()
    termios.tcsetwinsize(device, (TERMINAL_ROWS, TERMINAL_COLUMNS))
    return ours, device


class RunningProcess:
    """A started process with its output pipe, and a way to wake the thread that waits for them.

    feed: receives the output. feed_errors: receives standard error, if it is to be separate.
    stdin: a descriptor to read from.
    terminal: connect it to a new terminal; `type` types into it.
    report: our end of the socket of `keep.bash`, which fills `left`.
    left: what the command left running in the sandbox; see `follow` for one outside.
    spares_daemons: `end` leaves alone what has left the session.
    mark: value in the environment that identifies its descendants on Linux.
    Only `wake` is thread-safe.
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
        terminal: bool = False,
        report: socket.socket | None = None,
    ) -> None:
        self.left: LeftRunning | None = None
        self.spares_daemons = False
        self.in_sandbox = report is not None
        self._report, self._reported = report, b""
        # What outlived the command outside the sandbox; None until it has ended.
        self._strays: Strays | None = None
        # Our end of its terminal; -1 for none.
        self._terminal, device = _new_terminal() if terminal else (-1, -1)
        self._typing = threading.Lock()
        self.mark = os.urandom(8).hex()
        REAPER.expect(self.mark)
        try:
            self.process = _STARTER.run(
                lambda: subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=marked(env, self.mark),
                    stdin=device if terminal else stdin,
                    stdout=device if terminal else subprocess.PIPE,
                    stderr=subprocess.STDOUT if feed_errors is None else subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                    pass_fds=inherited,
                )
            )
        except BaseException:  # leave no process behind; the caller reports the error
            REAPER.give_up(self.mark)
            if terminal:
                os.close(self._terminal)
            raise
        finally:
            if terminal:
                os.close(device)
        REAPER.watch(self.process.pid, self.mark)
        # Outputs that are still open, each with its receiver.
        output = self._terminal if self.process.stdout is None else self.process.stdout.fileno()
        self._outputs = {output: feed}
        if feed_errors is not None and self.process.stderr is not None:
            self._outputs[self.process.stderr.fileno()] = feed_errors
        self._wake_writer, self._wake_reader = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for output in self._outputs:
            os.set_blocking(output, False)
            self._selector.register(output, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        if report is not None:
            report.setblocking(False)
            self._selector.register(report, selectors.EVENT_READ)
        self._pidfd = -1
        self._poll_interval = 0.002
        # If the kernel supports it, the exit itself wakes `read`.
        with suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.process.pid)
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def wake(self) -> None:
        """Make a waiting `read` return. Uses a socket, as a closed descriptor may already belong to another file."""
        with suppress(OSError):
            self._wake_writer.send(b"!")

    @property
    def exit_wakes(self) -> bool:
        """Return True if the exit of the process ends a `read`."""
        return self._pidfd >= 0 or self._strays is not None

    def type(self, data: bytes) -> bool:
        """Type into the terminal; return False if it does not accept all of it, or is closed. Thread-safe."""
        until = monotonic() + TERM_SECONDS
        with self._typing:
            while data and self._terminal >= 0:
                try:
                    data = data[os.write(self._terminal, data) :]
                except BlockingIOError:
                    left = until - monotonic()
                    if left <= 0 or not select.select((), (self._terminal,), (), left)[1]:
                        return False
                except OSError:
                    return False
            return not data

    def redirect(self, feed: Callable[[bytes], None]) -> None:
        """Send the output from now on to another receiver."""
        self._outputs = dict.fromkeys(self._outputs, feed)

    def exited(self) -> bool:
        """Return True if the process ended, and what it left running if that is followed.

        It is not reaped yet, so that its group ID cannot be reused.
        """
        return self._has_ended() and not (self._strays is not None and self._strays.run())

    def _has_ended(self) -> bool:
        if self.process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def step(self, until: float, stop: bool, tick: float = 1.0) -> Cause | None:
        """Read for up to `tick` seconds, less if the exit must be polled; return None while it runs, else why it ended.

        Ends it if `stop` is set, or at the time `until` of `monotonic`.
        """
        if self.exited():
            return "exit"
        left = until - monotonic()
        if not stop and left > 0:
            self.read(min(tick if self.exit_wakes else POLL_SECONDS, left))
            return None
        self.end()
        return "interrupted" if stop else "time-out"

    def read(self, seconds: float) -> None:
        """Read available output, waiting up to `seconds` for output, the exit or a wake-up."""
        if not self._outputs and not self.exit_wakes:
            # The exit must be polled: often at first, then less often.
            seconds = min(seconds, self._poll_interval)
            self._poll_interval = min(self._poll_interval * 1.5, POLL_SECONDS)
        for key, _ in self._selector.select(seconds):
            if key.fd in self._outputs:
                self._read_output(key.fd)
            elif key.fileobj is self._report:
                self._read_report()

    def _read_report(self) -> None:
        assert self._report is not None
        with suppress(OSError):
            data = self._report.recv(65_536)
            self._reported += data
            if not data or self._reported.endswith(b"\n\n") or len(self._reported) > _MAX_REPORT_BYTES:
                self._selector.unregister(self._report)
                code, *names = self._reported.decode("utf-8", "replace").strip().splitlines() or [""]
                if code.isdecimal():
                    self.left = LeftRunning(int(code), tuple(map(sanitize_output, names)))

    def follow(self) -> LeftRunning | None:
        """Look for processes outside the sandbox that the command, which has ended, left running.

        As long as there are any, this process counts as running. Returns None if there are none, or end at once.
        """
        if self.in_sandbox:
            return None
        if self._pidfd >= 0:
            self._selector.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._strays = Strays(self.mark, self.process.pid, self._selector)
        until, found = monotonic() + _ENDING_SECONDS, False
        while (left := until - monotonic()) > 0:
            if found := self._strays.run():
                self.read(left)
            elif self._outputs or self._strays.changing:
                self.read(min(left, POLL_SECONDS if self._outputs else 0.001))
            else:
                break
        if not (found and self._strays.run()):
            return None
        code = self.process.returncode
        if code is None:
            how = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            assert how is not None
            code = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
        return LeftRunning(code, self._strays.names())

    def take_rest(self) -> bool:
        """Return True if only what the command left running is still there, which is then watched to its end."""
        rest = self.left is not None or self._strays is not None
        self.left = None
        if self._strays is not None and not self.group_is_alive():
            # A daemon, which has a session of its own, may outlive the program.
            REAPER.forget(self.process.pid)
        return rest

    def _read_output(self, output: int) -> bool:
        try:
            data = os.read(output, 65_536)
        except BlockingIOError:
            return False
        except OSError as error:
            # EIO: no process has the terminal open any more.
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            self._selector.unregister(output)
            del self._outputs[output]
            return False
        self._outputs[output](data)
        return True

    def drain(self) -> None:
        """Read what is already in the pipe; bounded, as a process may still be writing."""
        until = monotonic() + TERM_SECONDS
        for output in list(self._outputs):
            while output in self._outputs and self._read_output(output) and monotonic() < until:
                pass

    def end(self) -> None:
        """End the group: SIGTERM, a short wait, then SIGKILL; also what has left it but, if spared, daemons."""
        pid = self.process.pid
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
        until = monotonic() + TERM_SECONDS
        # An open pipe means that some member is still shutting down.
        while (self._outputs or not self._has_ended()) and (left := until - monotonic()) > 0:
            self.read(min(left, 0.01) if self._has_ended() else left)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        end_strays(self.mark, pid if self.spares_daemons else 0)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)

    def is_detached(self) -> bool:
        """Return True if only daemons are left of a command."""
        return self._strays is not None and self._strays.detached()

    def group_is_alive(self) -> bool:
        """Return True if members of the group outlived the process."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def close(self, *, strays: bool = False) -> None:
        """Close all descriptors. strays: processes left behind will be ended with the program."""
        REAPER.forget(self.process.pid, strays=strays)
        self._selector.close()
        self._wake_writer.close()
        self._wake_reader.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        if self._strays is not None:
            self._strays.close()
        with self._typing:
            if self._terminal >= 0:
                os.close(self._terminal)
                self._terminal = -1
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


_MAX_SHOWN_BYTES = 8_000


class OutputFilter:
    """Prepares output for the screen: safe text, in portions of limited size and frequency."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending, self._skipped, self._last = b"", 0, 0.0

    def feed(self, data: bytes) -> None:
        """Add bytes; a flood is reduced to the latest."""
        self._pending += data
        if len(self._pending) > _MAX_SHOWN_BYTES:
            self._skipped += len(self._pending) - _MAX_SHOWN_BYTES
            self._pending = self._pending[-_MAX_SHOWN_BYTES:]

    def take(self, final: bool = False) -> str:
        """Return the text to show now, "" for none yet. An incomplete escape sequence is held back."""
        now = monotonic()
        if not self._pending or (now - self._last < POLL_SECONDS and not final):
            return ""
        self._last = now
        data, self._pending = self._pending, b""
        start = data.rfind(b"\x1b", -60)
        if start >= 0 and not final and not any(64 <= b < 127 and b not in b"[]P" for b in data[start + 1 :]):
            data, self._pending = data[:start], data[start:]
        text = sanitize_output(self._decoder.decode(data, final))
        if self._skipped:
            text = f"\n[… {self._skipped:,} bytes not shown …]\n{text}"
            self._skipped = 0
        return text
