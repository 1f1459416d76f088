"""The temporary folder of a session's sandbox, and cleanup of folders left by a crash."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

_PREFIX = "agent-sandbox-"


class Folder:
    """A folder that is removed by `close`, when the program ends, or by the next program that creates one.

    Its lock marks it as in use.
    """

    def __init__(self) -> None:
        parent = Path(os.path.realpath(tempfile.gettempdir()))
        remove_left(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Also if the program ends without closing its sessions.
        self.close = weakref.finalize(self, _end, self.path, self._lock)


def _end(path: Path, lock: int) -> None:
    _remove(path)
    os.close(lock)


def remove_left(parent: Path) -> None:
    """Remove the folders of this user that are not locked."""
    with suppress(OSError):
        for entry in list(os.scandir(parent)):
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_left(Path(entry.path))


def _remove_if_left(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder. Work directories of layers have mode 0 and must be made accessible first."""
    for here, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            with suppress(OSError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.chmod(path, 0o700)  # noqa: PTH101 - names of any bytes
    shutil.rmtree(folder, ignore_errors=True)
