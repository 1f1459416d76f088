"""Processes that outlive a command outside the sandbox: found by a mark in their environment. Only Linux tells."""

from __future__ import annotations

import os
import select
import selectors
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.safe_files import read_start
from agent_tools.record import Value
from agent_tools.text import sanitize_output, shorten

_PROC = Path("/proc")
# The process whose children are the threads of the kernel.
_KERNEL_NUMBER = 2
# So many numbers after a command's are tried one by one; listing all processes takes as long for a few hundred.
_MAX_NUMBERS = 200
# Processes that are named.
_MAX_NAMED = 5
_MAX_NAME_CHARS = 200
# Programs that serve the user's other programs too, and that one of these starts when it needs them.
_SHARED_DAEMONS = frozenset(
    b"gpg-agent keyboxd dirmngr scdaemon ssh-agent git-credential- dbus-daemon dbus-broker dconf-service".split()
)


class LeftRunning(Value):
    """What a command left running when it ended.

    code: its exit code, negative for a signal.
    names: command lines of some of the processes.
    """

    code: int
    names: tuple[str, ...]


class Strays:
    """What a command left running, without the daemons that other programs of the user share.

    mark, leader: of the command. selector: is woken when a process ends.

    changing: a process had no environment, as at the moment in which it becomes another program, or ended just now.
    """

    def __init__(self, mark: str, leader: int, selector: selectors.BaseSelector) -> None:
        self._mark, self._leader, self._selector = mark, leader, selector
        self.changing = False
        self._ended: set[int] = set()
        # Descriptors by process.
        self._found: dict[int, int] = {}

    def run(self) -> bool:
        """Return True while there are any."""
        for pid, descriptor in list(self._found.items()):
            if select.select((descriptor,), (), (), 0)[0]:
                self._selector.unregister(descriptor)
                os.close(descriptor)
                del self._found[pid]
        if not self._found:
            self._look()
        return bool(self._found)

    def _look(self) -> None:
        self.changing = False
        for pid in _newer(self._leader):
            try:
                environ = _environ(pid)
                if not environ:
                    self.changing |= self._has_just_ended(pid) or _is_changing(pid, self._leader)
                elif _is_marked(environ, self._mark) and _program(pid) not in _SHARED_DAEMONS:
                    descriptor = os.pidfd_open(pid)
                    self._found[pid] = descriptor
                    self._selector.register(descriptor, selectors.EVENT_READ)
            except (FileNotFoundError, ProcessLookupError):
                # It ended while this looked, and may have started another just before, as a daemon does.
                self.changing |= pid not in self._ended
                self._ended.add(pid)
            except (AttributeError, OSError, ValueError):
                continue

    def _has_just_ended(self, pid: int) -> bool:
        """Return True the first time that a process is seen to have ended."""
        ended = read_start(_PROC / f"{pid}/stat", 1_000).rpartition(b")")[2].split()[0] in b"ZX"
        if not ended or pid in self._ended:
            return False
        self._ended.add(pid)
        return True

    def names(self) -> tuple[str, ...]:
        """Return the command lines of some."""
        return tuple(filter(None, map(_command_line, sorted(self._found))))[:_MAX_NAMED]

    def detached(self) -> bool:
        """Return True if each has a session of its own, as a daemon has."""
        return bool(self._found) and not any(_is_in_session(pid, self._leader) for pid in list(self._found))

    def close(self) -> None:
        """Stop watching them."""
        for descriptor in self._found.values():
            os.close(descriptor)
        self._found = {}


def _processes() -> Iterator[int]:
    """Yield the processes that there are; none where there is no /proc."""
    with suppress(OSError):
        yield from map(int, filter(str.isdecimal, os.listdir(_PROC)))  # noqa: PTH208 - text, not paths


def _newer(leader: int) -> Iterator[int]:
    """Yield the processes, and maybe threads, that were started after a leader of a group.

    The kernel gives numbers in order. One that ends unseen may have started another before, whose number is higher.
    """
    tried = leader
    while 0 <= (last := _last_number()) - leader <= _MAX_NUMBERS:
        if tried >= last:
            return
        while tried < last:
            tried += 1
            if os.path.exists(f"{_PROC}/{tried}"):  # noqa: PTH110 - three times as fast
                yield tried
    # There are many; or the numbers have started again, so that any process may be newer.
    begun_again = 0 <= last < leader
    yield from (pid for pid in _processes() if pid > tried or (begun_again and pid < leader))


def _last_number() -> int:
    """Return the number that was given last to a process or thread; -1 if that is not known."""
    try:
        with open(f"{_PROC}/loadavg", "rb", buffering=0) as file:
            return int(file.read(200).split()[-1])
    except (OSError, ValueError, IndexError):
        return -1


def _environ(pid: int) -> bytes:
    # Not as files that others may have made: that takes three times as long.
    with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
        return file.readall()


def _is_marked(environ: bytes, mark: str) -> bool:
    return f":{mark}".encode() in environ


def _program(pid: int) -> bytes:
    return read_start(_PROC / f"{pid}/comm", 200).strip()


def _is_changing(pid: int, leader: int) -> bool:
    """Return True for a process without an environment that may be about to become another program.

    It is in the leader's group; or, as it may have left that just before, it has no command line either, as a kernel
    thread (a child of process 2), which is none.
    """
    state, parent, group = read_start(_PROC / f"{pid}/stat", 1_000).rpartition(b")")[2].split()[:3]
    if state in b"ZX" or int(parent) == _KERNEL_NUMBER:
        return False
    return int(group) == leader or not read_start(_PROC / f"{pid}/cmdline", 1)


def _command_line(pid: int) -> str:
    with suppress(OSError):
        words = read_start(_PROC / f"{pid}/cmdline", 4 * _MAX_NAME_CHARS).decode("utf-8", "replace")
        return shorten(sanitize_output(words.replace("\0", " ").strip()), _MAX_NAME_CHARS)
    return ""


def _is_in_session(pid: int, leader: int) -> bool:
    try:
        return os.getsid(pid) == leader
    except OSError:
        return False


def end_strays(mark: str, session: int = 0) -> None:
    """Kill the processes of a command, also those that have left its group. Needs /proc.

    session: if not 0, only those in this session: others are daemons.
    """
    for _ in range(3):
        found = False
        for pid in _processes():
            with suppress(OSError):
                if _is_marked(_environ(pid), mark) and (not session or _is_in_session(pid, session)):
                    found = True
                    os.kill(pid, signal.SIGKILL)
        if not found:
            return
