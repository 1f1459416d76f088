"""Opening and replacing one file at a resolved path, without ever following a link or waiting on a device.

The path is the one that was decided about: a link that was put on the way since is an error, not a way out (see
`nofollow.py`). A file is replaced whole: a temporary file in the same directory, synced, then renamed over it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.nofollow import is_at, lstat_resolved, open_directory
from agent_tools.results import ToolError
from agent_tools.text import one_line, shorten

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
_MOVED = "another folder is in the place of its own. Nothing was written."


class UnusableFileError(ToolError):
    """tools: the names of those that can help, with blanks between. advice: what to do, {} in their place."""

    def __init__(self, message: str, tools: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.tools, self.advice = tools, advice


def problem(path: Path | str, error: OSError) -> ToolError:
    """An operating system's error as a sentence about `path`."""
    said = _WORDS.get(error.errno or 0) or f"could not be used: {error.strerror or error}"
    # A path that the system finds too long may have any length.
    return ToolError(f"{shorten(str(path), 300)} {said}.")


def failed(path: Path, error: OSError) -> ToolError:
    """An operating system's error about a resolved path, which held no link when it was resolved."""
    if error.errno != errno.ELOOP:
        return problem(path, error)
    said = "is a symbolic link now, or lies below one"
    return ToolError(f"{one_line(str(path))} changed after it was checked: it {said}. Nothing was read or written.")


def not_a_file(path: Path | str, mode: int) -> UnusableFileError:
    """The error for something that is no regular file, saying what it is."""
    said = f"{one_line(str(path))} is {_kind(mode)}, not a file."
    if stat.S_ISDIR(mode):
        return UnusableFileError(said, "LS Glob", "Use {} to see what is in it.")
    return UnusableFileError(f"{said} Only regular files can be used here.")


def not_a_directory(path: Path | str, mode: int) -> UnusableFileError:
    """The error for something that is no directory, saying what it is."""
    said = f"{one_line(str(path))} is {_kind(mode)}, not a directory."
    if stat.S_ISREG(mode):
        return UnusableFileError(said, "Read", "Use {} to see what is in it.")
    return UnusableFileError(said, "LS Glob", "Use {} to find the right path.")


def _too_large(path: Path, size: str) -> UnusableFileError:
    return UnusableFileError(
        f"{one_line(str(path))} is too large ({size} bytes).", "Bash", "Use {} with sed, awk or head."
    )


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "a special file")


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a regular file at a resolved path.

    Raises ToolError for anything that is not one, cannot be opened, or has more than `limit` bytes.
    """
    return _read(open_file(path), path, limit)


def open_file(path: Path) -> int:
    """A descriptor for reading the regular file at a resolved path. Raises ToolError for anything else."""
    try:
        directory = open_directory(path.parent)
        try:
            return _open_in(directory, path)
        finally:
            os.close(directory)
    except OSError as error:
        raise failed(path, error) from None


def exists(path: Path) -> bool:
    """Whether anything is at a resolved path. Raises ToolError where that cannot be seen."""
    try:
        lstat_resolved(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failed(path, error) from None
    return True


def _open_in(directory: int, path: Path) -> int:
    """A descriptor for reading the regular file that has the name of `path` in an open directory."""
    # Looked at before it is opened: opening alone can set a device off.
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
    """The bytes behind a descriptor, which is closed, at most `limit`. Raises ToolError."""
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
    """Make `data` the content of the file at a resolved path, whole or not at all.

    before: the content that the change was made from; None for a file that must not exist yet, whose missing
    directories are made. Mode, owner and attributes of an existing file are kept; a hard link is parted from its
    other names. Raises ToolError where the file holds something else by now or cannot be written.
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
            except BaseException:  # no temporary file stays behind, whatever stopped the write; the caller tells it
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            _sync_directory(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise failed(path, error) from None


def remove_file(path: Path, held: bytes) -> None:
    """Remove the file at a resolved path, which must still hold `held`. Raises ToolError."""
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
    """Remove the directory at a resolved path if nothing is in it."""
    with suppress(OSError):
        directory = open_directory(path.parent)
        try:
            os.rmdir(path.name, dir_fd=directory)
        finally:
            os.close(directory)


def _same_as(path: Path, before: bytes | None, directory: int) -> os.stat_result | None:
    """The state of the file, which must hold `before`, or of nothing where that is None. Raises ToolError."""
    try:
        old = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None:
        _demand_file(path, old.st_mode)
    same = (old is None) == (before is None)
    if same and old is not None and before is not None:
        # Room for what is added meanwhile: that is a change too, and no file that is too large.
        room = len(before) + (1 << 20)
        same = old.st_size == len(before) and _read(_open_in(directory, path), path, room) == before
    if not same:
        raise ToolError(f"{one_line(str(path))} changed a moment ago and was left alone. Read it again, then retry.")
    if old is not None and not os.access(path.name, os.W_OK, dir_fd=directory):
        read_only = os.fstatvfs(directory).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "not writable")
    return old


def _fill(name: str, directory: int, data: bytes, old: os.stat_result | None, path: Path) -> None:
    """A new synced file `name` that holds `data` and has the mode, owner and attributes of the old one."""
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
    """Make the rename itself last. A file system that cannot do that has done what it can."""
    with suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
