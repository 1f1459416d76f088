"""Placeholders for missing protected paths while a command runs.

A mount needs a mount point, but a path that must not be created does not exist. So it is created first, in a form that
programs ignore: an empty directory, or a socket, which git and most programs skip. The form also identifies it as ours:
placeholders left by a crash are recognized by it, and removed after the next command.

Commands may run in parallel, also those of several programs. Each holds a shared lock on every directory with
placeholders; the last one, which can get an exclusive lock, removes them. (Removing a placeholder that is mounted on
would remove the mount for other commands.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from agent_tools.fs import protected_names
from agent_tools.results import ToolError

# Protected names that are directories; all others are files. Those of this program are always created as directories:
# `cp -r .` copies these, but fails at a socket or a device.
DIRECTORIES = protected_names.DIRECTORIES | {"hooks", "info"} | set(protected_names.plain_names(protected_names.OWN))
# Git reads `commondir` if it exists; a dot has the same effect as no file.
_COMMON, _SAME = "commondir", b".\n"
# An empty file has no effect.
_OF_WORKTREE = "config.worktree"
_WAIT = 1.0
_CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOENT, errno.ENOTDIR)


class Placeholders:
    """The placeholders of one command. paths: those in place, to be mounted over."""

    def __init__(self, wanted: Iterable[Path]) -> None:
        self._wanted = dict(found for path in wanted if (found := _missing(path)))
        self._directories: dict[Path, int] = {}
        self.paths: list[Path] = []
        try:
            self.paths += [path for path, folder in self._wanted.items() if self._hold(path, folder)]
        except OSError as error:
            self.release()
            raise ToolError(
                f"The sandbox cannot keep {error.filename} from being created: {error.strerror}."
                " Ask to run the command outside it."
            ) from None

    def _hold(self, path: Path, folder: bool) -> bool:
        """Create a placeholder if needed; return False if nothing could be created there anyway."""
        directory = self._directories.get(path.parent)
        try:
            if directory is None:
                directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._directories[path.parent] = directory
                _lock(directory)
            _make(path.name, folder, directory)
        except FileExistsError:
            return True
        except OSError as error:
            if error.errno in _CLOSED and not os.access(path.parent, os.W_OK):
                return False
            raise OSError(error.errno, error.strerror, str(path)) from None
        return True

    def release(self) -> None:
        """Release the placeholders; the last user of those in a directory removes them."""
        for path, directory in self._directories.items():
            # Upgrading a lock that others share fails and loses it, which makes no difference at this point.
            with suppress(OSError):
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for wanted in self._wanted:
                    if wanted.parent == path:
                        _remove(wanted.name, directory)
            os.close(directory)
        self._directories.clear()


def _lock(directory: int) -> None:
    """Acquire a shared lock. Don't block on a lock that is never released; skip cleanup instead."""
    until = monotonic() + _WAIT
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            if monotonic() > until:
                return
            sleep(0.005)
        else:
            return


def _missing(path: Path) -> tuple[Path, bool] | None:
    """Return the first missing component of a path (or a placeholder), and whether it must be a directory."""
    found = None
    for place in (path, *path.parents):
        try:
            if not _is_ours(os.lstat(place)):
                return found
        except FileNotFoundError:
            pass
        except OSError:
            return None
        found = place, place != path or path.name in DIRECTORIES
    return found


def _make(name: str, folder: bool, directory: int) -> None:
    if folder:
        os.mkdir(name, 0o1555, dir_fd=directory)
    elif name == _OF_WORKTREE:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o1444, dir_fd=directory))
    elif name != _COMMON:
        os.mknod(name, stat.S_IFSOCK | 0o600, dir_fd=directory)
    else:
        # Rename it into place: a git that runs meanwhile must not find it empty.
        draft = f"{name}.{os.urandom(4).hex()}"
        made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o1444, dir_fd=directory)
        try:
            os.write(made, _SAME)
            os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(made)
            os.unlink(draft, dir_fd=directory)


def _is_ours(status: os.stat_result) -> bool:
    """Return True if a file has the form of a placeholder. The sticky bit has no effect here and is otherwise unset."""
    mode, size = status.st_mode, status.st_size
    sealed = mode & 0o1222 == 0o1000
    return stat.S_ISSOCK(mode) or (sealed and (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and size in (0, len(_SAME)))))


def _remove(name: str, directory: int) -> None:
    with suppress(OSError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if _is_ours(status):
            # A directory that is not empty stays.
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=directory)
