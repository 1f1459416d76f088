"""Plan an undo before anything happens: file by file, with what cannot or should not be restored.

States of files, in snapshots and on disk, are compared in one form. Only files that the work changed are considered. A
file is restored without asking if it is still as the work left it; if it was changed since, or if that is uncertain,
the user has to confirm it.

Also lists changed files that git ignores: no snapshot contains them, so they are reported before an undo.
"""

from __future__ import annotations

import calendar
import errno
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from agent_cli.undo.git_store import CACHES, StoreError, oid_of
from agent_cli.undo.left_out import IGNORED, MOVED, NESTED, UNKNOWN, LeftOutRecords, existed_at, group_paths
from agent_cli.undo.manifest import RecordedChange
from agent_cli.undo.scanner import BEHIND_LINK, FileModes, Snapshot, lstat_file, stat_signature
from agent_cli.undo.store import OwnData, Store
from agent_tools.fs.files import open_directory
from agent_tools.fs.safe_files import open_regular
from agent_tools.process.git_tree import split_paths
from agent_tools.record import Value
from agent_tools.text import counted, one_line

_LINK = "120000"
_MAX_BYTES = 2 << 30


class FileState(Value, tag="State"):
    """A file or a link: the object with its content, and its permissions (0 for a link).

    unkept: why its content is not stored; the object is then only a signature that changes with the file.
    """

    oid: str
    mode: int
    link: bool = False
    unkept: str = ""


class AmbiguousStateError(Exception):
    """The object at a path is no comparable file; the message says what it is.

    link: a link that is in the way.
    """

    def __init__(self, text: str, link: str = "") -> None:
        super().__init__(text)
        self.link = link


class FileChange(Value):
    """The change of one file by a series of calls: before, after, and why that is uncertain.

    edited: only calls that name the file changed it. They write a file with several names (hard links) in place.
    late: only a later call than the first recorded it, so an earlier one may have changed it unnoticed if git
        ignores it.
    """

    path: str
    before: FileState | None
    after: FileState | None
    doubt: str = ""
    edited: bool = False
    late: bool = False


# Changed files by absolute path: state before and after.
Differences = dict[str, tuple[FileState | None, FileState | None]]


def combined_changes(store: Store, changes: Sequence[RecordedChange]) -> dict[str, FileChange]:
    """Return the combined effect of changes, in order, on each file; by absolute path. Raises StoreError."""
    return merge_changes(changes, all_differences(store, changes))


def merge_changes(changes: Sequence[RecordedChange], each: Sequence[Differences]) -> dict[str, FileChange]:
    """Combine the effects of changes, in order, on each file."""
    found: dict[str, FileChange] = {}
    for number, (change, differences) in enumerate(zip(changes, each, strict=True)):
        for path, (old, new) in differences.items():
            doubt = "" if change.after is not None else "the program ended while it was being changed"
            known, edited = found.get(path), all(shot.base == "/" for shot in change.before)
            if known is None:
                found[path] = FileChange(path, old, new, doubt, edited, late=number > 0)
                continue
            if not known.doubt and not doubt and known.after != old:
                doubt = "was changed by someone else in between"
            found[path] = known.replace(after=new, doubt=known.doubt or doubt, edited=known.edited and edited)
    return {path: t for path, t in found.items() if t.doubt or t.before != t.after}


def all_differences(store: Store, changes: Sequence[RecordedChange]) -> list[Differences]:
    """Return the differing files of each change. A change without an end is compared with the current state.

    Files that only seem new, as they were ignored or skipped when the turn began, are left out.

    Raises StoreError.
    """
    return _compare(store, changes).each


class _Comparison(Value):
    """What changes did, by absolute path.

    each: the differing files of each change.
    kept: what only seems new, with the reason.
    missing: new files that were looked for one by one, and were not there.
    """

    each: list[Differences]
    kept: dict[str, str]
    missing: frozenset[str]


def _compare(store: Store, changes: Sequence[RecordedChange]) -> _Comparison:
    ends = []
    for change in changes:
        after = change.after if change.after is not None else store.shots(change.named)
        there = {s.base: s for s in after}
        ends.append([(start, there.get(start.base, start)) for start in change.before])
    reader = _Reader(store, [pair for pairs in ends for pair in pairs])
    records = LeftOutRecords(store.git)
    found: list[Differences] = []
    kept: dict[str, str] = {}
    missing: set[str] = set()
    for change, pairs in zip(changes, ends, strict=True):
        merged: Differences = {}
        for start, end in pairs:
            some = reader.differences(start, end)
            new = [path for path, (old, _) in some.items() if old is None]
            if start.base == "/":
                missing.update(new)
                new = []
            record = change.left_out.get(start.base, "")
            for path in new:
                entry, is_certain = records.entry(record, os.path.relpath(path, start.base))
                if entry:
                    del some[path]
                    why = start.skipped.get(entry.rstrip("/"), (IGNORED, ""))[0] if is_certain else UNKNOWN
                    kept[os.path.join(start.base, entry)] = why
            merged |= {path: states for path, states in some.items() if path not in store.own}
        found.append(merged)
    created = {path for differences in found for path, (old, _) in differences.items() if old is None}
    return _Comparison(found, {path: why for path, why in kept.items() if path not in created}, frozenset(missing))


class _Reader:
    """Reads trees and permissions of a store, each once.

    pairs: the snapshots that will be compared.
    """

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
            full = os.path.join(start.base, path)
            was, left = found.get(full, (None, None))
            behind_link = end.skipped.get(path, ("",))[0] == BEHIND_LINK
            pair = (_unkept(start, path) or was, left if behind_link else _unkept(end, path) or left)
            if pair[0] != pair[1]:
                found[full] = pair
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
    """Return a stand-in for a file that a snapshot skipped; None for other files and for nested repositories."""
    why, mark = shot.skipped.get(path, ("", ""))
    return FileState(f"~{mark}", 0, unkept=why) if mark else None


def _state(path: str, mode: str, oid: str, modes: FileModes) -> FileState | None:
    if mode == "000000":
        return None
    return FileState(oid, 0, link=True) if mode == _LINK else FileState(oid, modes.of(path, mode == "100755"))


def current_state(path: str) -> FileState | None:
    """Return the current state of an absolute path, without following links; None for nothing.

    Raises AmbiguousStateError.
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
        if state.st_size > _MAX_BYTES:
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
    """Return None if a folder in the path is missing.

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


_SCAN_SECONDS = 0.5


def changed_ignored(store: Store, since: float) -> list[str]:
    """Return ignored files, and folders (ending in a slash), that changed after a time, but no caches.

    The paths are absolute.
    """
    found: list[str] = []
    until = time.monotonic() + _SCAN_SECONDS
    for base, scanner in store.scanners.items():
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        try:
            out = store.git.run(*words, tree=base, index=scanner.index)
        except StoreError:
            continue
        paths = [os.path.join(base, name) for name in split_paths(out) if Path(name).name not in CACHES]
        found += [path for path in paths if _changed(path, since, until, store.own)]
    return found


def _changed(path: str, since: float, until: float, own: OwnData) -> bool:
    """Return True if something at or below a path changed after a time, or if checking that takes too long."""
    try:
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode):
            return state.st_ctime >= since
        for here, folders, names in os.walk(path):
            if here.rstrip("/") in own:
                folders.clear()
                continue
            places = [here, *(os.path.join(here, name) for name in names)]
            if any(os.lstat(p).st_ctime >= since for p in places) or time.monotonic() > until:
                return True
    except OSError:
        pass
    return False


Kind = Literal["ready", "ask", "lost", "kept"]
_MAX_LISTED = 10


class Item(Value):
    """One file of a plan.

    want: its target state.
    now: its current state.
    kind: it can be restored ("ready"), only if the user confirms ("ask"), or not at all ("lost"); or it is not known
        to be created by the work and stays ("kept"): a file, or a folder with all below (the path ends in a slash).
    why: for all but the first. edited: see `FileChange`.
    """

    path: str
    want: FileState | None
    now: FileState | None
    kind: Kind
    why: str = ""
    edited: bool = False

    @property
    def verb(self) -> str:
        if self.kind == "kept":
            return "keep"
        if self.want is None:
            return "delete"
        return "create again" if self.now is None else "change back"

    def described(self, root: str) -> str:
        """Describe it in one line, with the reason if it is not simply restored."""
        name = one_line(self.path.removeprefix(f"{root}/"))
        return f"{self.verb}: {name}" + (f" ({self.why})" if self.why else "")


class Plan(Value):
    """The files by path, and notes about what is not restored."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Item, ...]:
        return tuple(i for i in self.items if i.kind in kinds)

    @property
    def empty(self) -> bool:
        return not self.items


def make_plan(store: Store, changes: Sequence[RecordedChange]) -> Plan:
    """Plan the return to the state before the changes, which are in order. Raises StoreError."""
    with store.locked():
        compared = _compare(store, changes)
        found = merge_changes(changes, compared.each)
        wanted = [t.before.oid for t in found.values() if t.before is not None]
        there = store.git.have(wanted)
        items = [i for t in found.values() if (i := _plan_file(t, there, found)) is not None]
        items = [_if_redoable(i, store.where.bounds.total) for i in items]
        moved = _moved_here([i for i in items if i.path not in compared.missing], changes, found)
        items = [i for i in items if i.path not in moved] + _kept_items(store, compared.kept | moved)
        return Plan(tuple(sorted(items, key=lambda i: i.path)), tuple(_notes(store, changes, found)))


def _moved_here(
    items: Iterable[Item], changes: Sequence[RecordedChange], found: Mapping[str, FileChange]
) -> dict[str, str]:
    """Return the files to delete that are older than the work, and whose content the undo restores nowhere else.

    They were moved here, from a place that no snapshot covers.
    """
    began = min((_seconds(c.time) for c in changes if c.time), default=0.0)
    restored = {t.before.oid for t in found.values() if t.before is not None}
    new = [item for item in items if item.want is None and item.now is not None and item.now.oid not in restored]
    return {item.path: MOVED for item in new if existed_at(item.path, began)}


def _seconds(stamp: str) -> float:
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


def _kept_items(store: Store, kept: Mapping[str, str]) -> list[Item]:
    """Return items for what is kept, by path with the reason; many of one folder are one item."""
    bases = sorted((f"{s.base.rstrip('/')}/" for s in store.scanners.values()), key=len, reverse=True)
    items = []
    for why in sorted(set(kept.values())):
        paths = [path for path, reason in kept.items() if reason == why and os.path.lexists(path.rstrip("/"))]
        for path in group_paths(paths, lambda p: next((b for b in bases if p.startswith(b)), "/")):
            items.append(Item(path, None, None, "kept", why))
    return items


def _if_redoable(item: Item, most: int) -> Item:
    """Require confirmation for a file whose current content could not be stored for a redo."""
    state = lstat_file("/", item.path) if item.kind == "ready" and item.now is not None else None
    if state is None or state.st_size <= most:
        return item
    return item.replace(kind="ask", why="too large for redo to restore")


def _is_unchanged(t: FileChange) -> bool:
    """Return True if a file is still as the work left it."""
    try:
        return current_state(t.path) == t.after
    except AmbiguousStateError:
        return False


def _plan_file(t: FileChange, there: dict[str, int], found: dict[str, FileChange]) -> Item | None:
    try:
        now = current_state(t.path)
    except AmbiguousStateError as error:
        # A file became a folder, or its folder a link: it can be restored once what replaced it is removed.
        above = found.get(error.link)
        gives_way = above is not None and above.before is None and not above.doubt and _is_unchanged(above)
        gives_way = gives_way or str(error) == "a folder is there"
        if t.after is None and gives_way and t.before is not None and not t.doubt and t.before.oid in there:
            return Item(t.path, t.before, None, "ready")
        return Item(t.path, t.before, None, "lost", str(error))
    left = t.after
    state = lstat_file("/", t.path)
    if state is not None:
        mark = f"~{stat_signature(state)}"
        if t.before is not None and t.before.oid == mark:
            return None
        left = now if left is not None and left.oid == mark else left
    if t.before is not None and t.before.unkept:
        return Item(t.path, t.before, now, "lost", f"was not saved: {t.before.unkept}")
    if now == t.before:
        return None
    same = now is not None and t.before is not None and now.oid == t.before.oid
    if t.before is not None and t.before.oid not in there and not same:
        return Item(t.path, t.before, now, "lost", "its content is no longer in the store")
    if t.doubt:
        return Item(t.path, t.before, now, "ask", t.doubt)
    if now != left:
        how = "deleted" if now is None else "created again" if t.after is None else "changed"
        return Item(t.path, t.before, now, "ask", f"was {how} since", t.edited)
    return Item(t.path, t.before, now, "ready", edited=t.edited)


def _near(path: str, store: Store) -> str:
    root = f"{store.where.roots[0]}/"
    return path.removeprefix(root)


def _listed(names: Sequence[str], store: Store) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(_near(n, store) for n in names[:_MAX_LISTED]) + more


def _notes(store: Store, changes: Sequence[RecordedChange], found: Mapping[str, FileChange]) -> Iterable[str]:
    """Describe what is not a file in the folders and is not restored."""
    first = next((c.heads[0] for c in changes if c.heads[0] != c.heads[1]), "")
    if first:
        yield f"the commit of the branch is not reset (it was {first[:10]}; see git reflog)"
    began = min((c.time for c in changes if c.time), default="")
    if began and any(s.base != "/" for c in changes for s in c.before):
        names = changed_ignored(store, _seconds(began))
        if others := [n for n in names if n not in found]:
            yield f"ignored by git, changed since, and not restored: {_listed(others, store)}"
        if late := [n for n in names if n in found and found[n].late and found[n].before is not None]:
            yield f"ignored by git, and restored only to its state when a call first named it: {_listed(late, store)}"
    if nested := sorted({p for c in changes for s in c.before for p, (why, _) in s.skipped.items() if why == NESTED}):
        yield f"nested repositories are not covered: {', '.join(nested[:_MAX_LISTED])}"
    if not store.scanners:
        yield "only files that were written or named are covered here: this folder is not a project"


def summed(work: Mapping[str, FileChange]) -> str:
    """Summarize changes of files: "3 files created, 2 modified"; "" for none."""
    found = [t for t in work.values() if t.before != t.after]
    created = sum(t.before is None for t in found)
    deleted = sum(t.after is None for t in found)
    modified = len(found) - created - deleted
    parts = [(created, "created"), (modified, "modified"), (deleted, "deleted")]
    counts = [(n, word) for n, word in parts if n]
    if not counts:
        return ""
    first, *rest = counts
    return ", ".join([f"{counted(first[0], 'file')} {first[1]}", *(f"{n} {word}" for n, word in rest)])
