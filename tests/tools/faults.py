"""Real faults: file systems that are full or read-only, a user without rights, and a limit on time and memory.

A file system is mounted in a mount namespace of the test's own thread, which nobody else sees and which leaves
nothing behind however the test ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

NOBODY = 65534
_NEW_MOUNTS = 0x20000
_PRIVATE = (1 << 18) | 16384
_READ_ONLY, _REMOUNT = 1, 32


class Hung(BaseException):
    """A call took longer than it may. No `Exception`, so that nothing takes it for an error of a tool."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End what runs inside with Hung after `seconds`, also where it waits in the kernel."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hung(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be a user who owns nothing; root only. Any other user is one already."""
    if os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getgid()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    # The saved ids stay root's, so that there is a way back.
    os.setresuid(NOBODY, NOBODY, 0)
    try:
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
            assert libc.setns(way_back, _NEW_MOUNTS) == 0
            os.chdir(here)
    finally:
        os.close(way_back)


def mount_small(folder: Path, size: str) -> None:
    """Mount a file system of `size`, as "64k", on a folder. Skips the test where that cannot be done."""
    folder.mkdir(exist_ok=True)
    _mount("tmpfs", folder, "tmpfs", 0, f"size={size}")


def make_read_only(folder: Path) -> None:
    """Nothing can be written any more to what is mounted on a folder."""
    _mount("tmpfs", folder, "tmpfs", _REMOUNT | _READ_ONLY, "")


def fill(folder: Path) -> Path:
    """Use up the last byte of a file system. Returns the file that does."""
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
