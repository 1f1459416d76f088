"""Private directories and files of the state, and the names of files beside a log."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# Number of copies kept of a damaged session: the first is the oldest, the last is replaced by newer ones.
COPIES = 3


def owner_file(log: Path) -> Path:
    return log.with_suffix(".owner")


def draft_file(log: Path) -> Path:
    return log.with_suffix(".draft")


def fresh_copy(log: Path) -> Path:
    """Return the path a repaired log is written to first; left behind if the process is killed meanwhile."""
    return log.with_name(f"{log.stem}.mending")


def kept_copies(log: Path) -> list[Path]:
    """Return the paths for copies of a damaged log, existing or not."""
    return [log.with_name(f"{log.stem}.damaged-{number}") for number in range(1, COPIES + 1)]


def sync_folder(folder: Path) -> None:
    """Make a created or renamed directory entry survive a power failure, as far as the file system can."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
