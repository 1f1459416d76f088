"""Open and replace a file at a resolved path, without following a link or blocking on a device.

A path is resolved when its call is approved, so it contains no links. A link found later was put there since, and is
an error: `OSError` with ELOOP. Linux checks this in one step with openat2; elsewhere, and if a sandbox forbids openat2,
the folders are opened one by one, each relative to the one before.

A file is replaced atomically: a temporary file in the same directory is synced, then renamed over it. One with other
names (hard links) is written in place.
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

from agent_tools.fs import own_files
from agent_tools.results import ToolError
from agent_tools.text import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_DIRECTORY_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# openat2 has the same number on these machines, as on all newer ones. struct open_how: flags, mode, resolve.
_OPENAT2_MACHINES = frozenset(("x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "loongarch64", "armv7l", "i686"))
_OPENAT2_NUMBER = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_AT_FDCWD = -100


def open_directory(path: Path | str, *, create: bool = False, readable: bool = False) -> int:
    """Open the directory at a resolved path; return a descriptor. Raises OSError.

    create: create missing directories. readable: allow listing its names.
    """
    text = os.fspath(path)
    flags = _DIRECTORY_FLAGS | (os.O_RDONLY if readable else _O_PATH)
    descriptor = _openat2(_AT_FDCWD, text, flags, _NO_SYMLINKS | _NO_MAGICLINKS)
    if descriptor >= 0:
        return descriptor
    if len(os.fsencode(text)) >= os.pathconf("/", "PC_PATH_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return _open_stepwise(os.open("/", _DIRECTORY_FLAGS | _O_PATH), text.split("/"), flags, create)


def open_below(top: int, path: str, *, readable: bool = False) -> int:
    """Open the directory at `place`, relative to the open directory `top`. Raises OSError."""
    flags = _DIRECTORY_FLAGS | (os.O_RDONLY if readable else _O_PATH)
    descriptor = _openat2(top, path or ".", flags, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    if descriptor >= 0:
        return descriptor
    return _open_stepwise(os.dup(top), path.split("/"), flags, create=False)


def lstat_resolved(path: Path | str) -> os.stat_result:
    """Stat a resolved path; its last name may be a link, which is not followed. Raises OSError."""
    folder, _, name = os.fspath(path).rpartition("/")
    directory = open_directory(folder or "/")
    try:
        return os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)


def stat_below(top: int, path: str) -> os.stat_result:
    """Stat the path `place`, relative to the open directory `top`, as `lstat_resolved` does."""
    folder, _, name = path.rpartition("/")
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


def _open_stepwise(here: int, names: list[str], flags: int, create: bool) -> int:
    """Open the directory that the names lead to from `here`, which is closed. Rejects `..`."""
    names = [name for name in names if name not in ("", ".")] or ["."]
    for number, name in enumerate(names, 1):
        how = flags if number == len(names) else _DIRECTORY_FLAGS | _O_PATH
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
    call = _load_openat2()
    if call is None or "\0" in path:
        return -1
    how = b"".join(number.to_bytes(8, sys.byteorder) for number in (flags, 0, resolve))
    return call(directory, os.fsencode(path), how)


@cache
def _load_openat2() -> Callable[[int, bytes, bytes], int] | None:
    if sys.platform != "linux" or os.uname().machine not in _OPENAT2_MACHINES:
        return None
    # Importing all of ctypes takes 3 ms, too much for a short run.
    try:
        from _ctypes import call_function, dlopen, dlsym

        syscall: int = dlsym(dlopen(None, 2), "syscall")  # type: ignore[arg-type]
    except (ImportError, AttributeError, OSError):
        return None

    def call(directory: int, path: bytes, how: bytes) -> int:
        descriptor: int = call_function(syscall, (_OPENAT2_NUMBER, directory, path, how, len(how)))
        return descriptor

    return call


_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_ERROR_TEXTS = {
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
_FOLDER_REPLACED = "its folder was replaced by another one. Nothing was written."


class UnusableFileError(ToolError):
    """A file that the tool cannot use, with advice on what to use instead.

    tools: names of tools that can help, separated by spaces.
    advice: text with {} for those of the tools that are offered.
    shell: the program to run with Bash if none of them is offered.
    """

    def __init__(self, message: str, tools: str = "", advice: str = "", shell: str = "") -> None:
        super().__init__(message)
        self.tools, self.advice, self.shell = tools, advice, shell


def os_error(path: Path | str, error: OSError) -> ToolError:
    """Return the error for an OSError about `path`."""
    reason = _ERROR_TEXTS.get(error.errno or 0) or f"could not be used: {error.strerror or error}"
    # The path may be of any length.
    return ToolError(f"{shorten(str(path), 300)} {reason}.")


def resolved_path_error(path: Path, error: OSError) -> ToolError:
    """Return the error for an OSError about a resolved path."""
    if error.errno != errno.ELOOP:
        return os_error(path, error)
    text = "is a symbolic link now, or lies below one"
    return ToolError(f"{one_line(str(path))} changed after it was checked: it {text}. Nothing was read or written.")


def not_a_file_error(path: Path | str, mode: int) -> UnusableFileError:
    """Return the error for something that is not a regular file, naming what it is."""
    text = f"{one_line(str(path))} is {_describe_kind(mode)}, not a file."
    if stat.S_ISDIR(mode):
        return UnusableFileError(text, "LS Glob", "Use {} to see what is in it.", "ls")
    return UnusableFileError(f"{text} Only regular files can be used here.")


def not_a_directory_error(path: Path | str, mode: int) -> UnusableFileError:
    """Return the error for something that is not a directory, naming what it is."""
    text = f"{one_line(str(path))} is {_describe_kind(mode)}, not a directory."
    if stat.S_ISREG(mode):
        return UnusableFileError(text, "Read", "Use {} to see what is in it.", "cat")
    return UnusableFileError(text, "LS Glob", "Use {} to find the right path.", "ls")


def _too_large_error(path: Path, size: str) -> UnusableFileError:
    return UnusableFileError(
        f"{one_line(str(path))} is too large ({size} bytes).", "Bash", "Use {} with sed, awk or head."
    )


def _describe_kind(mode: int) -> str:
    return next((name for test, name in _FILE_KINDS if test(mode)), "a special file")


def read_file(path: Path, limit: int) -> bytes:
    """Read the regular file at a resolved path.

    Raises ToolError if it is not a regular file, cannot be opened, or has more than `limit` bytes.
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
        raise resolved_path_error(path, error) from None


def exists(path: Path) -> bool:
    """Return True if a resolved path exists. Raises ToolError if that cannot be determined."""
    try:
        lstat_resolved(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise resolved_path_error(path, error) from None
    return True


def _open_in(directory: int, path: Path) -> int:
    """Open the regular file with the name of `path` in an open directory; return a descriptor."""
    # Check before opening: opening alone can trigger a device.
    _require_file(path, os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False).st_mode)
    descriptor = os.open(path.name, _READ_FLAGS, dir_fd=directory)
    try:
        _require_file(path, os.fstat(descriptor).st_mode)
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def _require_file(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(mode):
        raise not_a_file_error(path, mode)


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes from a descriptor and close it. Raises ToolError."""
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise _too_large_error(path, f"{size:,}")
        parts, left = [], limit + 1
        while left > 0 and (part := os.read(descriptor, min(left, max(size + 1, 65_536)))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        raise os_error(path, error) from None
    finally:
        os.close(descriptor)
    if left <= 0:
        raise _too_large_error(path, f"over {limit:,}")
    return b"".join(parts)


def replace_file(path: Path, data: bytes, before: bytes | None) -> None:
    """Replace the content of the file at a resolved path with `data`, whole or not at all.

    A file with several names (hard links) is written in place, as most editors do, so that all names have the new
    content. If that fails, the old content is written back.

    before: its expected content; None for a file that must not exist yet, whose missing directories are created.

    Mode, owner and attributes of an existing file are preserved. Raises ToolError if the file has changed since or
    cannot be written.
    """
    with own_files.writing(path, data):
        _replace(path, data, before)


def _replace(path: Path, data: bytes, before: bytes | None) -> None:
    try:
        directory = open_directory(path.parent, create=before is None)
        try:
            old = _check_unchanged(path, before, directory)
            if old is not None and old.st_nlink > 1 and before is not None:
                if not is_at(directory, path.parent):
                    raise ToolError(f"{one_line(str(path))} changed after it was checked: {_FOLDER_REPLACED}")
                write_in_place(path.name, directory, data, before)
                return
            temporary = f".agent-{os.urandom(8).hex()}.tmp"
            try:
                _write_temporary(temporary, directory, data, old, path)
                _check_unchanged(path, before, directory)
                if not is_at(directory, path.parent):
                    raise ToolError(f"{one_line(str(path))} changed after it was checked: {_FOLDER_REPLACED}")
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:  # leave no temporary file behind, whatever stopped the write
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            _sync_directory(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise resolved_path_error(path, error) from None


def write_in_place(name: str, directory: int, data: bytes, before: bytes) -> None:
    """Overwrite a regular file of an open directory, which keeps its other names. Raises OSError.

    before: its content, which is written back if the new one does not fit.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        try:
            _fill(descriptor, data)
        except BaseException:
            with suppress(OSError):
                _fill(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _fill(descriptor: int, data: bytes) -> None:
    """Give an open file exactly this content. The end is cut off last, to leave room for the old content."""
    view, at = memoryview(data), 0
    while at < len(data):
        at += os.pwrite(descriptor, view[at:], at)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def remove_file(path: Path, expected: bytes) -> None:
    """Remove the file at a resolved path if its content is still `expected`. Raises ToolError."""
    try:
        directory = open_directory(path.parent)
        try:
            _check_unchanged(path, expected, directory)
            os.unlink(path.name, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise resolved_path_error(path, error) from None


def remove_empty(path: Path) -> None:
    """Remove the directory at a resolved path if it is empty."""
    with suppress(OSError):
        directory = open_directory(path.parent)
        try:
            os.rmdir(path.name, dir_fd=directory)
        finally:
            os.close(directory)


def changed_meanwhile_error(path: Path) -> ToolError:
    """Return the error for a file that no longer has the expected content."""
    return ToolError(f"{one_line(str(path))} changed a moment ago and was left alone. Read it again, then retry.")


def _check_unchanged(path: Path, before: bytes | None, directory: int) -> os.stat_result | None:
    """Stat the file and check that its content is `before`; for None, that it is missing. Raises ToolError."""
    try:
        old = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None:
        _require_file(path, old.st_mode)
    same = (old is None) == (before is None)
    if same and old is not None and before is not None:
        # Allow for appended data: report it as a change, not as a file that is too large.
        limit = len(before) + (1 << 20)
        same = old.st_size == len(before) and _read(_open_in(directory, path), path, limit) == before
    if not same:
        raise changed_meanwhile_error(path)
    if old is not None and not os.access(path.name, os.W_OK, dir_fd=directory):
        read_only = os.fstatvfs(directory).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "not writable")
    return old


def _write_temporary(name: str, directory: int, data: bytes, old: os.stat_result | None, path: Path) -> None:
    """Write a synced file `name` with `data` and the mode, owner and attributes of the old file."""
    descriptor = os.open(name, _CREATE_FLAGS, 0o666 if old is None else 0o600, dir_fd=directory)
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
