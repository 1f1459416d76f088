"""Whether files that a search found are those of the tree that it was allowed to look through.

ripgrep lists folders and opens files by name. While it runs, another process can put a link in the place of a folder
or a file, and what is found then lies elsewhere. Every such change leaves a new time on a folder of the way.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agent_tools.nofollow import open_below, state_below

# Clocks of file systems may differ from ours by this much, or tick so slowly.
_LEEWAY = 2_000_000_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Which file or folder it is, and when it, or what it holds, was last changed: no program can set that time.
_Mark = tuple[int, int, int]


class Steady:
    """Tells which of the names below an open directory have led to the same files ever since this was made."""

    def __init__(self, top: int) -> None:
        self.top = top
        self._since = time.time_ns() - _LEEWAY

    def files(self, names: Iterable[str]) -> set[str]:
        """Those of the relative paths that lead to regular files by way of folders that have not changed."""
        wanted = list(names)
        # Twice: what is on the way is only proved while all above it is.
        first, again = self._marks(wanted), self._marks(wanted)
        old = {place for place, mark in first.items() if again.get(place) == mark and mark[2] < self._since}
        return {name for name in wanted if name in first and old >= _way(name)}

    @contextmanager
    def opened(self, names: Mapping[bytes, str]) -> Iterator[dict[int, bytes]]:
        """Descriptors of the regular files at relative paths, without following links; of those that there are."""
        files: dict[int, bytes] = {}
        try:
            for key, name in names.items():
                with suppress(OSError):
                    files[_open(self.top, name)] = key
            yield files
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _marks(self, names: Iterable[str]) -> dict[str, _Mark]:
        marks: dict[str, _Mark] = {}
        for place in dict.fromkeys(part for name in names for part in (*sorted(_way(name)), name)):
            with suppress(OSError):
                state = state_below(self.top, place) if place else os.fstat(self.top)
                if stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode):
                    marks[place] = state.st_dev, state.st_ino, state.st_ctime_ns
        return marks


def _way(name: str) -> set[str]:
    """The folders that lead to a relative path, with "" for the one where it begins."""
    parts = name.split("/")
    return {"/".join(parts[:n]) for n in range(len(parts))}


def _open(top: int, name: str) -> int:
    folder, _, last = name.rpartition("/")
    directory = open_below(top, folder)
    try:
        if not stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.open(last, _READ, dir_fd=directory)
    finally:
        os.close(directory)
