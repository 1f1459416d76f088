"""What was in a folder when a turn began, but is in no snapshot: ignored and skipped files, other repositories.

A turn may make less ignored (it checks out another branch, removes a .gitignore). The next snapshot then has files that
the one before did not have, and only this record tells them from files that the turn created.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_cli.undo.git_store import Git, StoreError
from agent_tools.fs.safe_files import find_obstacle
from agent_tools.process.child import StuckError, collect
from agent_tools.process.git_tree import join_paths, split_paths

NESTED = "a separate repository"
IGNORED = "ignored by git before the turn"
UNKNOWN = "may have been ignored by git before the turn"
MOVED = "older than the turn, so moved here"
_SECONDS = 5.0
_MAX_BYTES = 16 << 20
_MAX_ENTRIES = 100_000
_CLOSED = re.compile(rb"could not open directory '(.*?)/?': ")
# Paths with a common parent are listed one by one up to this number.
_MAX_SIBLINGS = 5


def list_left_out(git: Git, base: str, index: Path, skipped: Mapping[str, tuple[str, str]]) -> list[str] | None:
    """Return what is in the folder `base` but not in its snapshot, by path relative to the folder; None if unknown.

    A folder ends in a slash, and stands for all below it: git names an ignored folder without its content.

    index, skipped: those of the snapshot.
    """
    words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    try:
        listing = git.start(*words, tree=base, index=index)
        out, err = collect(listing, b"", _SECONDS, _MAX_BYTES, lambda: find_obstacle(base))
    except (StoreError, StuckError, TimeoutError, OverflowError):
        return None
    if listing.returncode:
        return None
    found = _without_partial(split_paths(out))
    for name in _CLOSED.findall(err):
        path = os.fsdecode(name)
        if not os.path.isdir(os.path.join(base, path)):  # noqa: PTH112 - the method raises where a parent is closed
            return None  # a name that git does not print as it is
        found.append(f"{path}/")
    found += [f"{path}/" if why == NESTED else path for path, (why, _) in skipped.items()]
    return found if len(found) <= _MAX_ENTRIES else None


def _without_partial(names: list[str]) -> list[str]:
    """Drop the folders whose content is listed, too: they are not ignored, and may have new files."""
    parents: set[str] = set()
    for name in names:
        parent = name.rstrip("/").rpartition("/")[0]
        while parent and parent not in parents:
            parents.add(parent)
            parent = parent.rpartition("/")[0]
    return [name for name in names if name.rstrip("/") not in parents]


class LeftOutRecords:
    """Looks up paths in the records of turns, each read once."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._read: dict[str, frozenset[str] | None] = {}

    def store(self, found: Iterable[str] | None) -> str:
        """Store a record; return its object, "" if it is unknown. Raises StoreError."""
        return "" if found is None else self._git.keep(join_paths(sorted(found)))

    def entry(self, record: str, path: str) -> tuple[str, bool]:
        """Return the entry that covers a path ("" for none: the path was not there), and whether that is certain."""
        if record not in self._read:
            self._read[record] = self._load(record)
        entries = self._read[record]
        if entries is None:
            return path, False
        if path in entries:
            return path, True
        at = path.find("/")
        while at >= 0:
            if (folder := path[: at + 1]) in entries:
                return folder, True
            at = path.find("/", at + 1)
        return "", True

    def _load(self, record: str) -> frozenset[str] | None:
        if not record:
            return None
        try:
            return frozenset(split_paths(self._git.blob(record)))
        except StoreError:
            return None


def existed_at(path: str, moment: float) -> bool:
    """Return True if a file or link surely existed at a moment, in seconds, under this or another name.

    A folder that is moved leaves the times of its files. A file that is moved has been changed since, but is not new.
    """
    try:
        state = os.lstat(path)
    except OSError:
        return False
    born = getattr(state, "st_birthtime", None) or _birth_time(path)
    return state.st_ctime < moment or (born is not None and born < moment)


_CURRENT_FOLDER, _NO_FOLLOW, _BIRTH = -100, 0x100, 0x800


def _birth_time(path: str) -> float | None:
    """Return when a file was created; None if the system does not know. Python has no other access to it on Linux."""
    import ctypes

    block = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(_CURRENT_FOLDER, os.fsencode(path), _NO_FOLLOW, _BIRTH, block)
    except (OSError, AttributeError):
        return None
    (mask,) = struct.unpack_from("=I", block)
    seconds, parts = struct.unpack_from("=qI", block, 80)
    return seconds + parts / 1e9 if not failed and mask & _BIRTH else None


def group_paths(paths: Iterable[str], base_of: Callable[[str], str]) -> list[str]:
    """Return a short list for many absolute paths: many below one folder become that folder, ending in a slash.

    base_of: returns the session's folder that contains a path.
    """
    groups: dict[str, list[str]] = {}
    for path in sorted(paths):
        base = base_of(path).rstrip("/")
        top = path[len(base) + 1 :].partition("/")
        groups.setdefault(f"{base}/{top[0]}{top[1]}", []).append(path)
    found: list[str] = []
    for top_folder, below in groups.items():
        if len(below) <= _MAX_SIBLINGS or not top_folder.endswith("/"):
            found += below
        else:
            found.append(f"{os.path.commonpath(below)}/")
    return found
