"""Create folders that only their owner can open, and write files atomically."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to the owner only. Raises OSError."""
    missing = []
    # os.path, not Path: its methods raise in a folder without access.
    while not os.path.isdir(folder):  # noqa: PTH112
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, keep: bool = False, sync: bool = True) -> None:
    """Write a file atomically: at any time it has either the old or the new content. Raises OSError.

    mode: permissions of the file.
    keep: preserve the permissions of an existing file; `mode` is for a new one.
    sync: flush to disk before returning.
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
            # A placeholder of the sandbox while a command runs: an empty directory.
            path.rmdir()
        os.rename(temporary, path)  # noqa: PTH104 - crash tests intercept os.rename
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
