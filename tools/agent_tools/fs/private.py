"""Folders that only their owner can look into, and files of the user's and ours that are written whole."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, keep: bool = False, sync: bool = True) -> None:
    """Write a whole file in place of an old one: it is the one or the other at any time. Raises OSError.

    mode: its permissions; with `keep` only those of a new file, and an old one's stay. sync: it is on the disk then.
    """
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, _NEW, mode)
        with os.fdopen(descriptor, "wb") as file:
            if keep:
                with suppress(FileNotFoundError):
                    if stat.S_ISREG(before := path.stat().st_mode):
                        os.fchmod(descriptor, stat.S_IMODE(before))
            file.write(data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        with suppress(OSError):
            # A placeholder of the sandbox, where a command runs at the moment: an empty directory.
            path.rmdir()
        os.rename(temporary, path)  # noqa: PTH104 - one name for what tests of crashes stop at
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
