"""Real faults: file systems that are full or read-only, a user without rights; and what every answer has to be.

A file system is mounted in a mount namespace of the test's own thread, which nobody else sees and which leaves
nothing behind however the test ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shlex
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agent_tools.base import ToolError
from agent_tools.fs.safe_files import read_start
from tests.support.fork_server import ROOT
from tests.support.tool_bench import Bench

NOBODY = 65534
MOST_MEMORY = 120_000_000
WAY_BACK_SECONDS = 10.0
_NEW_MOUNTS = 0x20000
_PRIVATE = (1 << 18) | 16384
_READ_ONLY, _REMOUNT = 1, 32


# By fault: what makes it, and what each tool answers.
FaultTable = Mapping[str, tuple[Callable[[Bench], str], Mapping[str | tuple[str, ...], str]]]


def table_cases(table: FaultTable) -> list[Any]:
    """The cells of a table, as parameters of a test: what makes the fault, the tool, its answer."""
    return [
        pytest.param(fault, tool, words, id=f"{name}-{tool}")
        for name, (fault, row) in table.items()
        for tools, words in row.items()
        for tool in ([tools] if isinstance(tools, str) else tools)
    ]


class HungError(BaseException):
    """A call took too long. Not an `Exception`, so that no handler treats it as an error of a tool."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise HungError in the block after `seconds`, also where it waits in the kernel."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HungError(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run the block as a user who owns nothing; only needed for root."""
    if os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getgid()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    # The saved ids stay root's, so that there is a way back.
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        # The prompts are read when they are needed, as from a checkout below a folder of `mktemp -d`.
        if not os.access(ROOT / "prompts" / "system.md", os.R_OK):
            pytest.skip(f"NOT TESTED: {ROOT} is in a folder that only root may enter")
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(group, group, group)
        os.setgroups(groups)


@contextmanager
def own_mounts() -> Iterator[None]:
    """A mount namespace of this thread's own. Skips the test where there can be none."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root on Linux can mount a file system")
    here, way_back = Path.cwd(), os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_MOUNTS) != 0:
            pytest.skip(f"NOT TESTED: no mount namespace here: {os.strerror(ctypes.get_errno())}")
        try:
            _mount("none", Path("/"), "", _PRIVATE, "")
            yield
        finally:
            _go_back(libc, way_back)
            os.chdir(here)
    finally:
        os.close(way_back)


def _go_back(libc: ctypes.CDLL, namespace: int) -> None:
    """Enter the mount namespace behind a descriptor again. Raises OSError.

    setns(2) answers EINVAL while anything shares this thread's working directory; a thread that was joined still does
    for a moment, and so does a reader of /proc.
    """
    end = time.monotonic() + WAY_BACK_SECONDS
    while libc.setns(namespace, _NEW_MOUNTS) != 0:
        number = ctypes.get_errno()
        if number != errno.EINVAL or time.monotonic() > end:
            raise OSError(number, os.strerror(number))
        time.sleep(0.001)


def mount_small(folder: Path, size: str) -> None:
    """Mount a file system of `size`, as "64k", on a folder. Skips the test where that cannot be done."""
    folder.mkdir(exist_ok=True)
    _mount("tmpfs", folder, "tmpfs", 0, f"size={size}")


def make_read_only(folder: Path) -> None:
    """Remount a folder read-only."""
    _mount("tmpfs", folder, "tmpfs", _REMOUNT | _READ_ONLY, "")


def fill(folder: Path) -> Path:
    """Fill a file system to its last byte; return the file that does."""
    rest = folder / ".rest"
    with rest.open("wb", buffering=0) as file:
        for piece in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(bytes(piece))
            except OSError:
                continue
    return rest


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [word.encode() for word in (source, str(target), kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        pytest.skip(f"NOT TESTED: mounting is refused here: {os.strerror(ctypes.get_errno())}")


def calls(path: str) -> dict[str, dict[str, Any]]:
    """For each tool that takes a path, a call about this one."""
    return {
        "Read": {"file_path": path},
        "Write": {"file_path": path, "content": "new\n"},
        "Edit": {"file_path": path, "old_string": "old", "new_string": "new"},
        "MultiEdit": {"file_path": path, "edits": [{"old_string": "old", "new_string": "new"}]},
        "NotebookRead": {"notebook_path": path},
        "NotebookEdit": {"notebook_path": path, "cell_id": "cell-0", "new_source": "new"},
        "Glob": {"pattern": "*", "path": path},
        "Grep": {"pattern": "old", "path": path},
        "LS": {"path": path},
        "Bash": {"command": f"wc -c < {shlex.quote(path)}", "timeout": 400},
    }


WRITERS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
READERS = ("Read", "NotebookRead")
FOLDERS = ("Glob", "LS")


def outcome(bench: Bench, tool: str, arguments: dict[str, Any], *, seconds: float = 10) -> tuple[bool, str]:
    """Whether a call worked, and what the model reads; whatever came of it has to be fit for a model.

    It answers in time and in little memory, shows no trace of Python, and leaves everything but the file that it
    wrote as it was.
    """
    before = state(bench.root)
    start = _memory(reset=True)
    with within(seconds):
        try:
            result = bench(tool, **arguments)
            worked, text = not result.is_error, result.text
        except ToolError as error:
            worked, text = False, str(error)
            assert "\n" not in text or "nothing was changed" in text, "an error is one sentence or two"
    assert _memory() - start < MOST_MEMORY
    assert len(text) < (200_000 if worked else 3_000)
    assert not re.search(r"Traceback|Errno|os error|File \"|<class|Error\(", text), text[:999]
    after = state(bench.root)
    if worked and tool in WRITERS:
        changed = {name for name in before | after if before.get(name) != after.get(name)}
        assert len([name for name in changed if stat.S_ISREG(after[name][0])]) <= 1, "no temporary file stays"
    else:
        assert after == before, "an error, or a look, changes nothing"
    return worked, text


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """The mode, size and beginning of everything below a folder."""
    found = {}
    for directory, below, names in os.walk(folder):
        for name in (*below, *names):
            path = f"{directory}/{name}"
            here = os.lstat(path)
            plain = stat.S_ISREG(here.st_mode) and os.access(path, os.R_OK)
            found[path] = here.st_mode, here.st_size, read_start(path, 999) if plain else b""
    return found


def _memory(*, reset: bool = False) -> int:
    """The most bytes that this process has had in memory, since it was reset; no end of them where that is refused."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        found = Path("/proc/self/status").read_text()
    except OSError:
        return sys.maxsize if reset else 0
    return int(found.split("VmHWM:")[1].split()[0]) * 1024
