"""A damaged log written anew: its good records as they are, in their order; the file as it was is kept beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agent_cli.session.lines import in_order, open_log, read
from agent_cli.session.private import fresh_copy, kept_copies, sync_folder


def mend(log: Path) -> tuple[str, int]:
    """Put a log of good records in place of a damaged one, which the caller holds locked.

    Returns the name of the copy of what was there, and a descriptor of the new file, locked as the old one is.
    Raises OSError, with everything as it was.
    """
    fresh = fresh_copy(log)
    with suppress(FileNotFoundError):
        fresh.unlink()
    fd = _make(fresh)
    try:
        with open_log(log) as source, os.fdopen(os.dup(fd), "wb") as target:
            for line in in_order(list(read(source))):
                target.write(line.raw + b"\n")
        os.fsync(fd)
        _lock(fd)
        kept = _keep(log)
        os.rename(fresh, log)  # noqa: PTH104 - one name for what tests of crashes stop at
    except OSError:
        os.close(fd)
        with suppress(OSError):
            fresh.unlink()
        raise
    sync_folder(log.parent)
    return kept.name, fd


def _keep(log: Path) -> Path:
    names = kept_copies(log)
    kept = next((name for name in names if not os.path.lexists(name)), names[-1])
    with suppress(FileNotFoundError):
        kept.unlink()
    try:
        os.link(log, kept)
    except OSError:
        # A file system without links.
        with open_log(log) as source, os.fdopen(_make(kept), "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    return kept


def _make(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _lock(fd: int) -> None:
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
