"""Open resolved paths by descriptors without following symbolic links.

A path that was resolved when a call was approved has no link in it. One that is found later was put there since, and is
an error: `OSError` with ELOOP. Linux does this in one step with openat2; elsewhere, and where a sandbox forbids that,
the folders are opened one by one, each relative to the one before.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# openat2 has the same number on these machines, as on all newer ones. struct open_how: flags, mode, resolve.
_MACHINES = frozenset(("x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "loongarch64", "armv7l", "i686"))
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_CWD = -100


def open_directory(path: Path | str, *, create: bool = False, listed: bool = False) -> int:
    """Open the directory at a resolved path; return a descriptor. Raises OSError.

    create: create missing directories. listed: open it for listing its names.
    """
    text = os.fspath(path)
    flags = _FOLDER | (os.O_RDONLY if listed else _PATH)
    descriptor = _openat2(_CWD, text, flags, _NO_SYMLINKS | _NO_MAGICLINKS)
    if descriptor >= 0:
        return descriptor
    if len(os.fsencode(text)) >= os.pathconf("/", "PC_PATH_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return _step_by_step(os.open("/", _FOLDER | _PATH), text.split("/"), flags, create)


def open_below(top: int, place: str, *, listed: bool = False) -> int:
    """Open the directory at `place`, relative to the open directory `top`. Raises OSError."""
    flags = _FOLDER | (os.O_RDONLY if listed else _PATH)
    descriptor = _openat2(top, place or ".", flags, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    if descriptor >= 0:
        return descriptor
    return _step_by_step(os.dup(top), place.split("/"), flags, create=False)


def lstat_resolved(path: Path | str) -> os.stat_result:
    """Stat what is at a resolved path; the last name may be a link, which is not followed. Raises OSError."""
    folder, _, name = os.fspath(path).rpartition("/")
    directory = open_directory(folder or "/")
    try:
        return os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)


def state_below(top: int, place: str) -> os.stat_result:
    """Stat what is at `place`, relative to the open directory `top`, as `lstat_resolved` does."""
    folder, _, name = place.rpartition("/")
    if not folder:
        return os.stat(name, dir_fd=top, follow_symlinks=False)
    directory = open_below(top, folder)
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)


def is_at(directory: int, path: Path | str) -> bool:
    """Return True if an open directory is still the one at a resolved path."""
    try:
        now = open_directory(path)
    except OSError:
        return False
    try:
        return os.path.samestat(os.fstat(now), os.fstat(directory))
    finally:
        os.close(now)


def _step_by_step(here: int, names: list[str], flags: int, create: bool) -> int:
    """Open the directory that the names lead to from `here`, which is closed. Rejects `..`."""
    names = [name for name in names if name not in ("", ".")] or ["."]
    for number, name in enumerate(names, 1):
        how = flags if number == len(names) else _FOLDER | _PATH
        try:
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            try:
                below = os.open(name, how, dir_fd=here)
            except FileNotFoundError:
                if not create:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                below = os.open(name, how, dir_fd=here)
            except NotADirectoryError:
                # Some systems report a link this way.
                if stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                raise
        finally:
            os.close(here)
        here = below
    return here


def _openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """Return a descriptor, or -1 if that failed or is unavailable; the slower way then raises the error."""
    call = _caller()
    if call is None or "\0" in path:
        return -1
    how = b"".join(number.to_bytes(8, sys.byteorder) for number in (flags, 0, resolve))
    return call(directory, os.fsencode(path), how)


@cache
def _caller() -> Callable[[int, bytes, bytes], int] | None:
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return None
    # Importing all of ctypes takes 3 ms, too much for a short run.
    try:
        from _ctypes import call_function, dlopen, dlsym

        syscall: int = dlsym(dlopen(None, 2), "syscall")  # type: ignore[arg-type]
    except (ImportError, AttributeError, OSError):
        return None

    def call(directory: int, path: bytes, how: bytes) -> int:
        descriptor: int = call_function(syscall, (_OPENAT2, directory, path, how, len(how)))
        return descriptor

    return call
