"""Run helper programs (git, ripgrep, parsers, clipboards) with limits on time, output and memory.

Commands of the user run by `shell/process.py` with the settings of Bash. Memory is limited by RLIMIT_DATA, which counts
allocated memory: RLIMIT_AS would include files mapped by git and ripgrep, and memory that Go and Node reserve without
using it. It is set on the running process, as nothing may run between fork and exec in a program with threads;
on systems without support for that (macOS), memory is not limited.
"""

from __future__ import annotations

import _signal as signal  # `signal` makes enumerations, which costs a one-shot run a millisecond
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from agent_tools.lazy import lazy_imports
from agent_tools.record import Value

if TYPE_CHECKING:
    import subprocess

with lazy_imports():
    from agent_tools.process import reaper

# More than git or ripgrep needs for the largest repositories; a .gitignore of gigabytes makes them use all memory.
MAX_MEMORY_BYTES = 2 << 30
MAX_OUTPUT_BYTES = 16 << 20
_MAX_ERROR_BYTES = 1 << 20
_POLL_SECONDS = 0.005
# A program that runs longer may be stuck.
STUCK_SECONDS = 2.0


class StuckError(Exception):
    """The process waits for something that never happens; the message says what."""


def stop_signals() -> tuple[int, ...]:
    """Return the signals that stop a run: INT, TERM, and HUP unless it is ignored, as nohup has it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if ignored else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_stop_signals(call: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the number of each stop signal while the block runs."""
    before = {number: signal.signal(number, lambda number, frame: call(number)) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# A signal to the whole process group comes a second time from the process outside a stage.
_SAME_SECONDS = 0.5


class StopSignals:
    """The stop signals interrupt a run, so that its result is still printed; a second one ends the process.

    caught: the first one; 0 for none.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self.caught = 0
        self._at = 0.0

    def __enter__(self) -> None:
        self._watch = on_stop_signals(self._on_signal)
        self._watch.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._watch.__exit__(*exc)

    def _on_signal(self, number: int) -> None:
        again = number == self.caught != signal.SIGINT and time.monotonic() < self._at + _SAME_SECONDS
        if again:
            return
        if self.caught:
            os._exit(128 + number)
        self.caught, self._at = number, time.monotonic()
        self._interrupt()


class CompletedChild(Value):
    """Exit code and output of a program. code: negative for a signal."""

    code: int
    out: bytes
    err: bytes


class ChildOutput:
    """The output of a process. cause: "" if it ended by itself, else "time-out", "output" or what it is waiting for."""

    def __init__(self, out: bytes, err: bytes, cause: str) -> None:
        self.out, self.err, self.cause = out, err, cause


class BriefChild:
    """A program that ends soon by itself, started without the module subprocess, which costs 3 ms to import.

    It has what `collect` needs of a `Popen`: no input, two pipes, a group of its own. Raises OSError.
    """

    stdin = None

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        # Before anything may fail; no other file is inherited.
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(err, "rb", 0)
        self.returncode: int | None = None
        try:
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, out_end, 1),
                    (os.POSIX_SPAWN_DUP2, err_end, 2),
                ],
                setpgroup=0,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except BaseException:
            self.stdout.close()
            self.stderr.close()
            raise
        finally:
            os.close(out_end)
            os.close(err_end)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Return the exit code once it has ended."""
        code = self._reap(0)
        return 0 if code is None else code

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                pid, status = self.pid, 0  # somebody else has waited for it, as with Popen
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def start_child(
    argv: list[str],
    *,
    env: Mapping[str, str] | None = None,
    memory: int | None = MAX_MEMORY_BYTES,
    brief: bool = False,
    **popen_options: Any,
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group, unless `popen_options`, options of Popen, changes that. Raises OSError.

    env: all its variables; None for ours.
    memory: limit in bytes, or None.
    brief: it ends soon by itself, so the reaper need not watch it.
    """
    import subprocess  # 8 ms; most runs start nothing

    group = {} if popen_options.keys() & {"start_new_session", "process_group"} else {"process_group": 0}
    start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen if brief else reaper.REAPER.popen
    process = start(argv, env=os.environ if env is None else env, **(group | popen_options))
    if memory is not None:
        limit_memory(process.pid, memory)
    return process


def limit_memory(pid: int, most: int) -> None:
    """Limit the memory of a process and of its future children, if the system supports it."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))


def run_child(
    argv: list[str],
    *,
    seconds: float,
    feed: bytes = b"",
    most: int = MAX_OUTPUT_BYTES,
    memory: int | None = MAX_MEMORY_BYTES,
    **popen_options: Any,
) -> CompletedChild:
    """Run a program to its end. popen_options: options of Popen, such as `cwd` and `env`.

    Raises OSError if it cannot be started, TimeoutError, and OverflowError for more than `most` bytes of output; its
    whole group is then killed.
    """
    import subprocess

    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    pipes["stdin"] = subprocess.PIPE if feed else subprocess.DEVNULL
    process = start_child(argv, memory=memory, **(pipes | popen_options))
    out, err = collect(process, feed, seconds, most)
    return CompletedChild(process.returncode, out, err)


def collect(
    process: subprocess.Popen[bytes] | BriefChild,
    feed: bytes,
    seconds: float,
    most: int,
    stuck: Callable[[], str] | None = None,
) -> tuple[bytes, bytes]:
    """Return standard output and standard error of a process, once it has ended. See `read_until_exit`.

    Raises TimeoutError, OverflowError for more than `most` bytes, and StuckError.
    """
    done = read_until_exit(process, feed, seconds, most, stuck)
    if done.cause == "time-out":
        raise TimeoutError
    if done.cause == "output":
        raise OverflowError
    if done.cause:
        raise StuckError(done.cause)
    return done.out, done.err


def read_until_exit(
    process: subprocess.Popen[bytes] | BriefChild,
    feed: bytes,
    seconds: float,
    most: int,
    stuck: Callable[[], str] | None = None,
) -> ChildOutput:
    """Read a process, the leader of its group, until it ends; it never outlives this call.

    most: limit of standard output in bytes; only the first MB of standard error is returned.
    stuck: called once if it takes long; returns what it may be waiting for, or "".
    """
    import selectors

    now = time.monotonic()
    until, check_at = now + seconds, now + STUCK_SECONDS if stuck else float("inf")
    parts: dict[Any, list[bytes]] = {process.stdout: [], process.stderr: []}
    sizes = dict.fromkeys(parts, 0)
    left, cause = memoryview(feed), ""
    try:
        with selectors.DefaultSelector() as ready:
            for stream in parts:
                if stream is not None:
                    ready.register(stream, selectors.EVENT_READ)
            if left and process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                ready.register(process.stdin, selectors.EVENT_WRITE)
            elif process.stdin is not None:
                process.stdin.close()
            while ready.get_map() and not cause:
                now = time.monotonic()
                if now >= check_at and stuck is not None:
                    check_at, cause = float("inf"), stuck()
                elif now >= until:
                    cause = "time-out"
                for key, _ in ready.select(max(min(until, check_at) - now, 0)) if not cause else ():
                    if key.fileobj is process.stdin:
                        with suppress(BrokenPipeError):
                            left = left[os.write(key.fd, left[: 1 << 16]) :]
                            if left:
                                continue
                        ready.unregister(key.fileobj)
                        process.stdin.close()
                    elif part := os.read(key.fd, 1 << 16):
                        sizes[key.fileobj] += len(part)
                        if key.fileobj is process.stdout or sizes[key.fileobj] <= _MAX_ERROR_BYTES:
                            parts[key.fileobj].append(part)
                        if sizes[process.stdout] > most:
                            cause = "output"
                    else:
                        ready.unregister(key.fileobj)
        if not cause and not _has_ended(process, max(until - time.monotonic(), 0.1)):
            cause = "time-out"
    finally:
        if process.poll() is None:
            kill_group(process, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
    return ChildOutput(b"".join(parts[process.stdout]), b"".join(parts[process.stderr]), cause)


def _has_ended(process: subprocess.Popen[bytes] | BriefChild, seconds: float) -> bool:
    """Wait for a process whose output has ended; return True if it ends within the time.

    Where the system can wake us we do not leave it to Popen, which sleeps longer than most programs need to end.
    """
    import selectors

    until = time.monotonic() + seconds
    if process.poll() is None and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            fd = os.pidfd_open(process.pid)
            try:
                with selectors.DefaultSelector() as ended:
                    ended.register(fd, selectors.EVENT_READ)
                    ended.select(seconds)
            finally:
                os.close(fd)
    while process.poll() is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return process.poll() is not None


def kill_group(process: subprocess.Popen[bytes] | BriefChild, number: int) -> None:
    """Send a signal to a process that has not been waited for, and to its group if it leads one."""
    with suppress(OSError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
