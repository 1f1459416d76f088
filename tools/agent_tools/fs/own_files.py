"""Files that this program itself writes under protected names, such as a rule saved in a project's settings.

The watch for protected names that commands create (`sandbox.watch`) leaves these where they are. They are recognized by
path and content, also by other processes of the same user.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from agent_tools.fs import protected_names
from agent_tools.fs.safe_files import acquire, open_regular, private_folder, read_regular, write_atomic

# Contents of one path that are remembered.
_MAX_REMEMBERED = 50
_MAX_RECORD_BYTES = 1 << 14


class _OwnFiles:
    """What this process wrote. folder: shared with other processes of this user; None for this process only."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.written: dict[str, list[str]] = {}
        self.lock = _thread.RLock()
        self.depth = 0


_own = _OwnFiles()


def share_in(folder: Path) -> None:
    """Share the record of written files with other processes of this user, in a private folder."""
    _own.folder = folder


def shared_folder() -> Path | None:
    """Return the folder that the processes of this user share; None if there is none."""
    return _own.folder


@contextmanager
def writing(path: Path, data: bytes) -> Iterator[None]:
    """Announce that this program gives a file this content, which the block does; does nothing for usual names."""
    if not _protected_parts().intersection(path.parts):
        yield
        return
    with exclusive():
        _remember(str(path), data)
        yield


def write_own(path: Path, data: bytes, mode: int = 0o600, *, keep: bool = False) -> None:
    """Write a file atomically, as `write_atomic` does, and announce it. Raises OSError."""
    with writing(path, data):
        write_atomic(path, data, mode, keep=keep)


def is_own(path: str, data: bytes) -> bool:
    """Return True if this program wrote that content to that path."""
    digest = _digest(data)
    return digest in _own.written.get(path, ()) or digest in _recorded(path)


@contextmanager
def exclusive() -> Iterator[None]:
    """Keep files with protected names from being written, and from being moved away, by others meanwhile."""
    with _own.lock:
        lock = _take_lock() if not _own.depth else -1
        _own.depth += 1
        try:
            yield
        finally:
            _own.depth -= 1
            if lock >= 0:
                os.close(lock)


def _take_lock() -> int:
    """Return the descriptor of the lock that processes share; -1 if there is none."""
    if _own.folder is not None:
        with suppress(OSError):
            private_folder(_own.folder)
            lock = open_regular(_own.folder / "lock", os.O_RDWR | os.O_CREAT)
            acquire(lock)
            return lock
    return -1


def _remember(path: str, data: bytes) -> None:
    digest = _digest(data)
    known = [*_recorded(path), *_own.written.get(path, ())]
    kept = [*(d for d in dict.fromkeys(known) if d != digest), digest][-_MAX_REMEMBERED:]
    _own.written[path] = kept
    if (record := _record(path)) is not None:
        with suppress(OSError):
            write_atomic(record, "\n".join(kept).encode("ascii"), sync=False)


def _recorded(path: str) -> list[str]:
    record = _record(path)
    if record is not None:
        with suppress(OSError, ValueError):
            return read_regular(record, _MAX_RECORD_BYTES).decode("ascii").split()
    return []


def _record(path: str) -> Path | None:
    return _own.folder / "written" / _digest(os.fsencode(path)) if _own.folder is not None else None


def _digest(data: bytes) -> str:
    from hashlib import sha256  # loads OpenSSL, which most runs do not need

    return sha256(data).hexdigest()


@cache
def _protected_parts() -> frozenset[str]:
    """Return the first parts of protected names."""
    names = (*protected_names.PROJECT_NAMES, *protected_names.HOME_NAMES)
    return frozenset([name.partition("/")[0] for name in names])
