"""Folders that only their owner can look into."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the owner alone. Raises OSError."""
    missing = []
    # os.path and not Path: the methods raise in a closed folder.
    while not os.path.isdir(folder):  # noqa: PTH112
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
