"""Open and replace a file at a resolved path, without following a link or blocking on a device.

A path that was resolved when a call was approved has no link in it. One that is found later was put there since, and is
an error: `OSError` with ELOOP. Linux does this in one step with openat2; elsewhere, and where a sandbox forbids that,
the folders are opened one by one, each relative to the one before.

A file is replaced atomically: a temporary file in the same directory is synced, then renamed over it.
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

from agent_tools.results import ToolError
from agent_tools.text import one_line, shorten

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


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_WORDS = {
    errno.ENOENT: "does not exist",
    errno.EACCES: "cannot be used: permission denied",
    errno.EPERM: "cannot be changed: permission denied",
    errno.ENOTDIR: "lies below something that is not a directory",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "is a symbolic link that leads in a circle",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "could not be written, and is unchanged: the disk is full",
    errno.EDQUOT: "could not be written, and is unchanged: the disk quota is used up",
    errno.EROFS: "could not be written: the file system is read-only",
}
_MOVED = "its folder was replaced by another one. Nothing was written."


class UnusableFileError(ToolError):
    """A file that the tool cannot use, and what can.

    tools: names of tools that can help, separated by spaces.
    advice: what to do, with {} for the tools that are offered.
    shell: the program to run with Bash where none of them is.
    """

    def __init__(self, message: str, tools: str = "", advice: str = "", shell: str = "") -> None:
        super().__init__(message)
        self.tools, self.advice, self.shell = tools, advice, shell


def problem(path: Path | str, error: OSError) -> ToolError:
    """Return the error for an OSError about `path`."""
    reason = _WORDS.get(error.errno or 0) or f"could not be used: {error.strerror or error}"
    # A path that the system finds too long may have any length.
    return ToolError(f"{shorten(str(path), 300)} {reason}.")


def failed(path: Path, error: OSError) -> ToolError:
    """Return the error for an OSError about a resolved path, which had no link in it when it was resolved."""
    if error.errno != errno.ELOOP:
        return problem(path, error)
    text = "is a symbolic link now, or lies below one"
    return ToolError(f"{one_line(str(path))} changed after it was checked: it {text}. Nothing was read or written.")


def not_a_file(path: Path | str, mode: int) -> UnusableFileError:
    """Return the error for something that is not a regular file, naming what it is."""
    text = f"{one_line(str(path))} is {_kind(mode)}, not a file."
    if stat.S_ISDIR(mode):
        return UnusableFileError(text, "LS Glob", "Use {} to see what is in it.", "ls")
    return UnusableFileError(f"{text} Only regular files can be used here.")


def not_a_directory(path: Path | str, mode: int) -> UnusableFileError:
    """Return the error for something that is not a directory, naming what it is."""
    text = f"{one_line(str(path))} is {_kind(mode)}, not a directory."
    if stat.S_ISREG(mode):
        return UnusableFileError(text, "Read", "Use {} to see what is in it.", "cat")
    return UnusableFileError(text, "LS Glob", "Use {} to find the right path.", "ls")


def _too_large(path: Path, size: str) -> UnusableFileError:
    return UnusableFileError(
        f"{one_line(str(path))} is too large ({size} bytes).", "Bash", "Use {} with sed, awk or head."
    )


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "a special file")


def read_file(path: Path, limit: int) -> bytes:
    """Read the regular file at a resolved path.

    Raises ToolError if it is no regular file, cannot be opened, or has more than `limit` bytes.
    """
    return _read(open_file(path), path, limit)


def open_file(path: Path) -> int:
    """Open the regular file at a resolved path for reading; return a descriptor. Raises ToolError."""
    try:
        directory = open_directory(path.parent)
        try:
            return _open_in(directory, path)
        finally:
            os.close(directory)
    except OSError as error:
        raise failed(path, error) from None


def exists(path: Path) -> bool:
    """Return True if anything is at a resolved path. Raises ToolError if that cannot be found out."""
    try:
        lstat_resolved(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failed(path, error) from None
    return True


def _open_in(directory: int, path: Path) -> int:
    """Open the regular file with the name of `path` in an open directory; return a descriptor."""
    # Check before opening: opening alone can trigger a device.
    _demand_file(path, os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False).st_mode)
    descriptor = os.open(path.name, _READ, dir_fd=directory)
    try:
        _demand_file(path, os.fstat(descriptor).st_mode)
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def _demand_file(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(mode):
        raise not_a_file(path, mode)


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes from a descriptor and close it. Raises ToolError."""
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise _too_large(path, f"{size:,}")
        parts, left = [], limit + 1
        while left > 0 and (part := os.read(descriptor, min(left, max(size + 1, 65_536)))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        raise problem(path, error) from None
    finally:
        os.close(descriptor)
    if left <= 0:
        raise _too_large(path, f"over {limit:,}")
    return b"".join(parts)


def replace_file(path: Path, data: bytes, before: bytes | None) -> None:
    """Replace the content of the file at a resolved path with `data`, whole or not at all.

    before: the content that the change was made from; None for a file that must not exist yet, whose missing
    directories are created.
    Mode, owner and attributes of an existing file are preserved; a hard link is separated from its other names. Raises
    ToolError if the file has changed since or cannot be written.
    """
    try:
        directory = open_directory(path.parent, create=before is None)
        try:
            old = _same_as(path, before, directory)
            temporary = f".agent-{os.urandom(8).hex()}.tmp"
            try:
                _fill(temporary, directory, data, old, path)
                _same_as(path, before, directory)
                if not is_at(directory, path.parent):
                    raise ToolError(f"{one_line(str(path))} changed after it was checked: {_MOVED}")
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:  # leave no temporary file behind, whatever stopped the write
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            _sync_directory(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise failed(path, error) from None


def remove_file(path: Path, held: bytes) -> None:
    """Remove the file at a resolved path if its content is still `held`. Raises ToolError."""
    try:
        directory = open_directory(path.parent)
        try:
            _same_as(path, held, directory)
            os.unlink(path.name, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise failed(path, error) from None


def remove_empty(path: Path) -> None:
    """Remove the directory at a resolved path if it is empty."""
    with suppress(OSError):
        directory = open_directory(path.parent)
        try:
            os.rmdir(path.name, dir_fd=directory)
        finally:
            os.close(directory)


def changed_meanwhile(path: Path) -> ToolError:
    """Return the error for a file that is not as the change that was to be made expects."""
    return ToolError(f"{one_line(str(path))} changed a moment ago and was left alone. Read it again, then retry.")


def _same_as(path: Path, before: bytes | None, directory: int) -> os.stat_result | None:
    """Stat the file and check that its content is `before`; for None, that it is missing. Raises ToolError."""
    try:
        old = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None:
        _demand_file(path, old.st_mode)
    same = (old is None) == (before is None)
    if same and old is not None and before is not None:
        # Leave room for what was appended meanwhile: report that as a change, not as a file that is too large.
        room = len(before) + (1 << 20)
        same = old.st_size == len(before) and _read(_open_in(directory, path), path, room) == before
    if not same:
        raise changed_meanwhile(path)
    if old is not None and not os.access(path.name, os.W_OK, dir_fd=directory):
        read_only = os.fstatvfs(directory).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "not writable")
    return old


def _fill(name: str, directory: int, data: bytes, old: os.stat_result | None, path: Path) -> None:
    """Write a synced file `name` with `data` and the mode, owner and attributes of the old file."""
    descriptor = os.open(name, _CREATE, 0o666 if old is None else 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if old is not None:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(OSError):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            if hasattr(os, "listxattr"):
                with suppress(OSError):
                    _copy_attributes(path, directory, descriptor)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_attributes(path: Path, directory: int, new: int) -> None:
    old = _open_in(directory, path)
    try:
        for key in os.listxattr(old):
            os.setxattr(new, key, os.getxattr(old, key))
    finally:
        os.close(old)


def _sync_directory(directory: int) -> None:
    """Sync the directory so that the rename is durable; ignored where the file system does not support it."""
    with suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
