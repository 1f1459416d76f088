"""Temporary files that a killed undo leaves behind: recorded before they are created, removed later.

A restore holds the store's lock, and so does the removal of leftovers.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_tools.fs.nofollow import open_directory
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import open_regular, read_regular

_NOTE, LOCK = "restoring", "lock"
_LARGEST = 64 << 20


@contextmanager
def temporary_name(store: Path, folders: Iterable[str]) -> Iterator[str]:
    """Yield a name for temporary files in these folders; leftovers of that name are removed at the next start at the
    latest.

    store: the folder of the store.
    """
    name = f".agent-{os.urandom(8).hex()}.tmp"
    note = {"name": name, "folders": sorted(set(folders))}
    # On a full disk an undo is worth more than a record of it.
    with suppress(OSError):
        write_whole(store / _NOTE, json.dumps(note).encode("ascii"))
    try:
        yield name
    finally:
        with suppress(OSError):
            (store / _NOTE).unlink()


def remove_leftovers(store: Path) -> None:
    """Remove the leftovers of a killed undo. Called under the store's lock."""
    try:
        note = json.loads(read_regular(store / _NOTE, _LARGEST))
        name, folders = str(note["name"]), [str(f) for f in note["folders"]]
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        name, folders = "", []
    if re.fullmatch(r"\.agent-[0-9a-f]{16}\.tmp", name):
        for folder in folders:
            with suppress(OSError, ValueError):
                directory = open_directory(Path(folder))
                try:
                    os.unlink(name, dir_fd=directory)
                finally:
                    os.close(directory)
    (store / _NOTE).unlink(missing_ok=True)


def remove_at_start(store: Path) -> None:
    """Remove leftovers at the start, unless another process uses the store."""
    if not os.path.lexists(store / _NOTE):
        return
    with suppress(OSError):
        descriptor = open_regular(store / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_leftovers(store)
        finally:
            os.close(descriptor)
