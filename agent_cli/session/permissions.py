"""Folders and files of the state that only their owner can read, and what lies beside a log."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# So many copies of one session are kept; the last makes room for a newer one, the first is the nearest to what was.
COPIES = 3


def owner_file(log: Path) -> Path:
    return log.with_suffix(".owner")


def draft_file(log: Path) -> Path:
    return log.with_suffix(".draft")


def fresh_copy(log: Path) -> Path:
    """What a damaged log is written anew as; it is left behind where the process is killed meanwhile."""
    return log.with_name(f"{log.stem}.mending")


def kept_copies(log: Path) -> list[Path]:
    """The names that copies of a damaged log have, whether they are there or not."""
    return [log.with_name(f"{log.stem}.damaged-{number}") for number in range(1, COPIES + 1)]


def sync_folder(folder: Path) -> None:
    """Make sure that a name just made, or changed, in a folder is there after a power cut, as far as it can be."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
