"""States of files, in snapshots and on disk, in one comparable form."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent_cli.checkpoints.git_store import StoreError, oid_of
from agent_cli.checkpoints.manifest import RecordedChange
from agent_cli.checkpoints.scanner import FileModes, Snapshot
from agent_cli.checkpoints.store import Store
from agent_tools.fs.nofollow import open_directory
from agent_tools.fs.safe_read import open_regular
from agent_tools.record import Value

_LINK = "120000"
_LARGEST = 2 << 30


class FileState(Value, tag="State"):
    """A file or a link: the object with its content, and its permissions (0 for a link).

    unkept: why its content is not stored; the object is then only a signature that changes with the file.
    """

    oid: str
    mode: int
    link: bool = False
    unkept: str = ""


class AmbiguousStateError(Exception):
    """The object at a path is no comparable file; the message says what it is. link: a link that is in the way."""

    def __init__(self, text: str, link: str = "") -> None:
        super().__init__(text)
        self.link = link


class FileChange(Value):
    """The change of one file by a series of calls: before, after, and why that is uncertain.

    late: a call after the first was the first to have it, so an earlier one may have changed it unseen if git ignores
    it.
    """

    path: str
    before: FileState | None
    after: FileState | None
    doubt: str = ""
    late: bool = False


# Changed files by absolute path: state before and after.
Differences = dict[str, tuple[FileState | None, FileState | None]]


def touched(store: Store, changes: Sequence[RecordedChange]) -> dict[str, FileChange]:
    """Return the combined effect of changes, in order, on each file; by absolute path. Raises StoreError."""
    return merge_changes(changes, all_differences(store, changes))


def merge_changes(changes: Sequence[RecordedChange], each: Sequence[Differences]) -> dict[str, FileChange]:
    """Combine the effects of changes, in order, on each file."""
    found: dict[str, FileChange] = {}
    for number, (change, differences) in enumerate(zip(changes, each, strict=True)):
        for path, (old, new) in differences.items():
            doubt = "" if change.after is not None else "the program ended while it was being changed"
            known = found.get(path)
            if known is None:
                found[path] = FileChange(path, old, new, doubt, late=number > 0)
                continue
            if not known.doubt and not doubt and known.after != old:
                doubt = "was changed by someone else in between"
            found[path] = known.replace(after=new, doubt=known.doubt or doubt)
    return {path: t for path, t in found.items() if t.doubt or t.before != t.after}


def all_differences(store: Store, changes: Sequence[RecordedChange]) -> list[Differences]:
    """Return the differing files of each change. A change without an end is compared with the present state.

    Raises StoreError.
    """
    ends = []
    for change in changes:
        after = change.after if change.after is not None else store.shots(change.named)
        there = {s.base: s for s in after}
        ends.append([(start, there.get(start.base, start)) for start in change.before])
    reader = _Reader(store, [pair for pairs in ends for pair in pairs])
    found: list[Differences] = []
    for pairs in ends:
        merged: Differences = {}
        for start, end in pairs:
            merged |= reader.differences(start, end)
        found.append(merged)
    return found


class _Reader:
    """Reads trees and permissions of a store, each once. pairs: the snapshots that will be compared."""

    def __init__(self, store: Store, pairs: Iterable[tuple[Snapshot, Snapshot]] = ()) -> None:
        self._store = store
        self._rows = store.git.differences((start.tree, end.tree) for start, end in pairs)
        self._modes: dict[str, FileModes] = {}

    def differences(self, start: Snapshot, end: Snapshot) -> Differences:
        """Return the files of a folder that differ between two snapshots. Raises StoreError."""
        old, new = self.modes(start.perms), self.modes(end.perms)
        found: Differences = {}
        for path, mode, mode2, oid, oid2 in self._rows.get((start.tree, end.tree), ()):
            found[os.path.join(start.base, path)] = (_state(path, mode, oid, old), _state(path, mode2, oid2, new))
        for path in start.skipped.keys() | end.skipped.keys():
            place = os.path.join(start.base, path)
            was, left = found.get(place, (None, None))
            pair = (_unkept(start, path) or was, _unkept(end, path) or left)
            if pair[0] != pair[1]:
                found[place] = pair
        if start.perms == end.perms:
            return found
        # If the usual permissions differ, any file may have changed.
        odd = sorted(old.odd.keys() | new.odd.keys()) if old.usual == new.usual else None
        for path, state in self.entries(end, odd).items():
            if os.path.join(start.base, path) in found:
                continue
            runs = bool(state.mode & 0o100)
            pair = (state.replace(mode=old.of(path, runs)), state.replace(mode=new.of(path, runs)))
            if pair[0] != pair[1]:
                found[os.path.join(start.base, path)] = pair
        return found

    def entries(self, shot: Snapshot, paths: Iterable[str] | None) -> dict[str, FileState]:
        """Return the states of some files of a tree, or of all. Raises StoreError."""
        names = [""] if paths is None else list(paths)
        found = {}
        for at in range(0, len(names), 500):
            some = names[at : at + 500] if paths is not None else ()
            out = self._store.git.run("ls-tree", "-r", "-z", shot.tree, "--", *some)
            for row in out.split(b"\0"):
                if row:
                    head, _, name = row.partition(b"\t")
                    mode, _, oid = head.decode("ascii").split()
                    path = os.fsdecode(name)
                    if (state := _state(path, mode, oid, self.modes(shot.perms))) is not None:
                        found[path] = state
        return found

    def modes(self, oid: str) -> FileModes:
        if oid not in self._modes:
            try:
                self._modes[oid] = FileModes.from_json(json.loads(self._store.git.blob(oid)))
            except (StoreError, ValueError, LookupError, TypeError):
                self._modes[oid] = FileModes((0o644, 0o755), {})
        return self._modes[oid]


def _unkept(shot: Snapshot, path: str) -> FileState | None:
    """Return a stand-in for a file that a snapshot skipped; None for other files, and for nested repositories."""
    why, mark = shot.skipped.get(path, ("", ""))
    return FileState(f"~{mark}", 0, unkept=why) if mark else None


def snapshot_entry(store: Store, shot: Snapshot, path: str) -> FileState | None:
    """Return the state of one file of a snapshot, by absolute path. Raises StoreError."""
    relative = os.path.relpath(path, shot.base)
    return _Reader(store).entries(shot, [relative]).get(relative)


def _state(path: str, mode: str, oid: str, modes: FileModes) -> FileState | None:
    if mode == "000000":
        return None
    return FileState(oid, 0, link=True) if mode == _LINK else FileState(oid, modes.of(path, mode == "100755"))


def current_state(path: str) -> FileState | None:
    """Return the state of an absolute path now, without following links; None for nothing. Raises
    AmbiguousStateError.
    """
    folder, name = os.path.split(path)
    try:
        directory = open_directory(Path(folder))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return _through_link(folder)
        raise AmbiguousStateError(f"its folder cannot be looked into: {error.strerror}") from None
    try:
        state = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):
            return FileState(oid_of(os.fsencode(os.readlink(name, dir_fd=directory))), 0, link=True)
        if stat.S_ISDIR(state.st_mode):
            raise AmbiguousStateError("a folder is there")
        if not stat.S_ISREG(state.st_mode):
            raise AmbiguousStateError("something other than a file is there")
        if state.st_size > _LARGEST:
            raise AmbiguousStateError("too large to be compared")
        descriptor = open_regular(name, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            return FileState(oid_of(file.read()), stat.S_IMODE(state.st_mode))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AmbiguousStateError(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(directory)


def _through_link(folder: str) -> FileState | None:
    """Return None if a folder on the way is missing.

    Raises AmbiguousStateError if a link or a file is in its place.
    """
    here = folder
    while here != os.path.dirname(here):  # noqa: PTH120
        if os.path.islink(here):  # noqa: PTH114
            raise AmbiguousStateError(f"{here} is a link now", here)
        if os.path.lexists(here):
            return None
        here = os.path.dirname(here)  # noqa: PTH120
    return None
