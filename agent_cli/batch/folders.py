"""The folder of a running batch, which is removed when the batch ends, or by the next one after a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_tools.fs.safe_files import open_regular, private_folder

LOCK = ".lock"


class RunFolder:
    """A folder in the state folder for this process alone. Those of processes that were killed are removed first."""

    def __init__(self, state: Path) -> None:
        """Make the folder. Raises OSError."""
        parent = state / "batches"
        private_folder(parent)
        with _held(parent):
            _remove_left(parent)
            self.path = Path(tempfile.mkdtemp(dir=parent)).resolve()
            self._lock = try_lock(self.path)

    def close(self) -> None:
        """Remove it, and what a process that was killed shortly before this one began has still written at its end."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        with suppress(OSError), _held(self.path.parent):
            _remove_left(self.path.parent)


def _remove_left(parent: Path) -> None:
    """Remove the folders that no process has."""
    for folder in parent.iterdir():
        if folder.is_dir() and (lock := try_lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def try_lock(folder: Path) -> int | None:
    """Lock a folder for as long as the descriptor is open; return None if another process has it, or it is gone."""
    try:
        descriptor = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _held(parent: Path) -> Iterator[None]:
    """Wait until no other process makes or removes folders."""
    descriptor = open_regular(parent / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
