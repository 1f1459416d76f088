"""Verify that files found by a search belong to the tree that it was allowed to search.

ripgrep lists folders and opens files by name. While it runs, another process can replace a folder or a file with a link
that leads elsewhere. Every such change updates the change time of a folder on the path.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agent_tools.fs.nofollow import open_below

# File system clocks may be off from ours, or coarse, by this many nanoseconds.
_LEEWAY = 2_000_000_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Identity of a folder and its ctime, which no program can set.
_Mark = tuple[int, int, int]


class Steady:
    """Checks which names below an open directory have led to the same files since this object was created."""

    def __init__(self, top: int) -> None:
        self.top = top
        self._since = time.time_ns() - _LEEWAY

    def files(self, names: Iterable[str]) -> set[str]:
        """Return the relative paths that lead to regular files through folders that have not changed."""
        below: dict[str, list[str]] = {}
        for name in names:
            below.setdefault(name.rpartition("/")[0], []).append(name)
        ways = {folder: _way(folder) for folder in below}
        places = dict.fromkeys(place for way in ways.values() for place in way)
        # Twice: a folder is verified only if all folders above it have stayed unchanged.
        first = {place: self._mark(place) for place in places}
        there = {folder: self._regular(folder, some) for folder, some in below.items()}
        again = {place: self._mark(place) for place in places}
        old = {place for place, mark in first.items() if mark and mark == again[place] and mark[2] < self._since}
        return {name for folder, some in there.items() if old.issuperset(ways[folder]) for name in some}

    @contextmanager
    def opened(self, names: Mapping[bytes, str]) -> Iterator[dict[int, bytes]]:
        """Open the regular files among relative paths without following links; yield descriptor to name, in batches."""
        files: dict[int, bytes] = {}
        try:
            for key, name in names.items():
                with suppress(OSError):
                    files[_open(self.top, name)] = key
            yield files
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _mark(self, place: str) -> _Mark | None:
        """Return the mark of a folder; None if it does not exist or a link leads to it."""
        with suppress(OSError):
            directory = open_below(self.top, place)
            state = os.fstat(directory)
            os.close(directory)
            return state.st_dev, state.st_ino, state.st_ctime_ns
        return None

    def _regular(self, folder: str, names: list[str]) -> list[str]:
        """Return the names in a folder that are regular files."""
        found = []
        with suppress(OSError):
            directory = open_below(self.top, folder)
            for name in names:
                with suppress(OSError):
                    state = os.stat(name[len(folder) + 1 if folder else 0 :], dir_fd=directory, follow_symlinks=False)
                    found += [name] if stat.S_ISREG(state.st_mode) else []
            os.close(directory)
        return found


def _way(folder: str) -> list[str]:
    """Return the folders that lead to a relative path, itself included, starting with ""."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]


def _open(top: int, name: str) -> int:
    folder, _, last = name.rpartition("/")
    directory = open_below(top, folder)
    try:
        if not stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.open(last, _READ, dir_fd=directory)
    finally:
        os.close(directory)
