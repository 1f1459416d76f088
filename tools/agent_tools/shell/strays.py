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
_MAX_ENVIRON_BYTES = 4 << 20
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
    """

    def __init__(self, mark: str, leader: int, selector: selectors.BaseSelector) -> None:
        self._mark, self._leader, self._selector = mark, leader, selector
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
            for pid in _marked(self._mark, self._leader):
                with suppress(AttributeError, OSError):
                    descriptor = os.pidfd_open(pid)
                    self._found[pid] = descriptor
                    self._selector.register(descriptor, selectors.EVENT_READ)
        return bool(self._found)

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


def _marked(mark: str, leader: int) -> Iterator[int]:
    """Yield the processes of a command except the leader of its group."""
    needle = f":{mark}".encode()
    try:
        newest = int(read_start(_PROC / "loadavg", 200).split()[-1])
        candidates = [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdecimal()]
    except (OSError, ValueError, IndexError):
        return
    for pid in candidates:
        # Most processes are older than the command, unless the numbers have started again.
        if pid > leader or (newest < leader and pid != leader):
            with suppress(OSError):
                ours = needle in read_start(_PROC / f"{pid}/environ", _MAX_ENVIRON_BYTES)
                if ours and read_start(_PROC / f"{pid}/comm", 200).strip() not in _SHARED_DAEMONS:
                    yield pid


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
    needle = f":{mark}".encode()
    for _ in range(3):
        found = False
        for entry in _PROC.glob("[0-9]*"):
            with suppress(OSError):
                pid = int(entry.name)
                if needle in read_start(entry / "environ", _MAX_ENVIRON_BYTES) and (
                    not session or _is_in_session(pid, session)
                ):
                    found = True
                    os.kill(pid, signal.SIGKILL)
        if not found:
            return
