"""Placeholders: what stands in a directory, while a command runs, where a protected path is missing.

A mount needs something to be mounted on, and what is to be kept from being made is not there. So it is made first, in a
form that nothing looks at: an empty directory, or a socket, which git and most programs pass over. The form also tells
that it is ours: what a crash leaves behind is known by it, and removed after the next command.

Commands may run side by side, also of several programs. Whoever runs one holds a shared lock on each directory with
placeholders; the last one out, who gets the lock for itself, removes them. (Removing one that is mounted on would take
the mount away from whoever still needs it.)
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

# What is a directory, of the names that are protected; all others are files. Those of this program are always made as
# directories: `cp -r .` copies these, and fails at a socket or a device.
DIRECTORIES = protected_names.DIRECTORIES | {"hooks", "info"} | set(protected_names.plain_names(protected_names.OWN))
# Git reads `commondir` wherever it is there; a dot says what holds without it.
_COMMON, _SAME = "commondir", b".\n"
# An empty one says nothing.
_OF_WORKTREE = "config.worktree"
_WAIT = 1.0
_CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOENT, errno.ENOTDIR)


class Placeholders:
    """The placeholders of one command. paths: those that are in place, to be mounted over."""

    def __init__(self, wanted: Iterable[Path]) -> None:
        self._wanted = dict(found for path in wanted if (found := _missing(path)))
        self._directories: dict[Path, int] = {}
        self.paths: list[Path] = []
        try:
            self.paths += [path for path, folder in self._wanted.items() if self._hold(path, folder)]
        except OSError as error:
            self.release()
            raise ToolError(
                f"The sandbox cannot keep {error.filename} from being made: {error.strerror}."
                " Ask to run the command outside it."
            ) from None

    def _hold(self, path: Path, folder: bool) -> bool:
        """Make one, if it has to be made; False where nobody could."""
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
        """Give up the placeholders: the last who needs those of a directory removes them."""
        for path, directory in self._directories.items():
            # Upgrading a lock that others share fails and loses it, which comes to the same at this point.
            with suppress(OSError):
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for wanted in self._wanted:
                    if wanted.parent == path:
                        _remove(wanted.name, directory)
            os.close(directory)
        self._directories.clear()


def _lock(directory: int) -> None:
    """Share the lock. Someone who will not let go of it must not hold us up: then nobody tidies, which is all."""
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
    """The first part of a path that is not there (or is a placeholder), and whether it is to be a directory."""
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
        # By way of another name: a git that looks meanwhile must not find it empty.
        draft = f"{name}.{os.urandom(4).hex()}"
        made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o1444, dir_fd=directory)
        try:
            os.write(made, _SAME)
            os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(made)
            os.unlink(draft, dir_fd=directory)


def _is_ours(status: os.stat_result) -> bool:
    """Whether something has the form of a placeholder. The sticky bit means nothing here, and nobody else sets it."""
    mode, size = status.st_mode, status.st_size
    sealed = mode & 0o1222 == 0o1000
    return stat.S_ISSOCK(mode) or (sealed and (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and size in (0, len(_SAME)))))


def _remove(name: str, directory: int) -> None:
    with suppress(OSError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if _is_ours(status):
            # A directory that something was put into stays.
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=directory)
