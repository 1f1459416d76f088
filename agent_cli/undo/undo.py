"""Undo and redo a session's work: select the turns, plan the changes, carry them out.

An undo is recorded like any work, with the state around it, so that `redo` can undo it, too.

Each file is restored atomically, after a final check, and never through a link.

A line is blamed by following it back through the snapshots of all sessions to the call that added it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from agent_cli.kernel.run_environment import UsageError
from agent_cli.undo.git_store import StoreError
from agent_cli.undo.left_out import LeftOutRecords
from agent_cli.undo.manifest import (
    CheckpointHistory,
    Manifest,
    RecordedChange,
    RecordedTurn,
    Undone,
    read_history,
)
from agent_cli.undo.scanner import SizeLimits, Snapshot
from agent_cli.undo.store import Store, capture, temporary_name
from agent_cli.undo.undo_plan import (
    AmbiguousStateError,
    FileChange,
    FileState,
    Item,
    Plan,
    all_differences,
    combined_changes,
    current_state,
    make_plan,
    merge_changes,
    summed,
)
from agent_tools.edit.diff import changed_ranges, unified
from agent_tools.fs import own_files
from agent_tools.fs.files import is_at, open_directory, remove_empty, write_in_place
from agent_tools.fs.safe_files import open_regular
from agent_tools.record import Value
from agent_tools.results import Diff
from agent_tools.text import utc_stamp


class BlamedCall(Value):
    """The call that wrote a line, with its turn and session."""

    session: str
    turn: RecordedTurn
    change: RecordedChange


def _map_line(old: list[str], new: list[str], at: int) -> int | None:
    """Return the position of a new line in the old text; None if it is not in it."""
    moved = 0
    for i1, i2, j1, j2 in changed_ranges(old, new):
        if j1 <= at < j2:
            return None
        if j2 <= at:
            moved += (i2 - i1) - (j2 - j1)
    return at + moved


def _versions(store: Store, path: str) -> Iterator[tuple[BlamedCall, list[str], list[str]]]:
    """Yield each call that changed the file, in order, with the file's lines before and after it."""
    calls: list[BlamedCall] = []
    for file in (store.where.folder / "sessions").glob("*.records"):
        story = read_history(Manifest(file).read())
        for change in story.changes:
            if change.after is not None and change.turn in story.turns and change.turn not in story.undone:
                calls.append(BlamedCall(file.stem, story.turns[change.turn], change))
    calls.sort(key=lambda c: c.change.time)
    wanted: list[str] = []
    for call in calls:
        wanted += [_object(call.change.before, path), _object(call.change.after or (), path)]
    feed = "".join(f"{name}\n" for name in wanted).encode("utf-8", "surrogateescape")
    rows = store.git.run("cat-file", "--batch-check=%(objectname)", feed=feed).decode("utf-8", "replace").splitlines()
    oids = [row if len(row) == 40 else "" for row in rows]
    texts = store.git.blobs({oid for oid in oids if oid})
    records = LeftOutRecords(store.git)
    for call, old, new in zip(calls, oids[0::2], oids[1::2], strict=False):
        if old != new and new and (old or not _was_left_out(records, call.change, path)):
            yield call, _lines(texts.get(old, b"")), _lines(texts.get(new, b""))


def _was_left_out(records: LeftOutRecords, change: RecordedChange, path: str) -> bool:
    """Return True if a file was there when the turn of a change began, although the snapshot then lacks it."""
    shot = _shot_of(change.before, path)
    record = "" if shot is None or shot.base == "/" else change.left_out.get(shot.base, "")
    return bool(record) and records.entry(record, os.path.relpath(path, shot.base if shot else "/")) != ("", True)


def _shot_of(shots: tuple[Snapshot, ...], path: str) -> Snapshot | None:
    """Return the snapshot that has a file, if there is one."""
    # A named file is also in its folder's snapshot, unless that folder was not scanned.
    for shot in sorted(shots, key=lambda s: s.base == "/"):
        if path.startswith(f"{shot.base.rstrip('/')}/"):
            return shot
    return None


def _object(shots: tuple[Snapshot, ...], path: str) -> str:
    """Return git's name for a file of a snapshot."""
    shot = _shot_of(shots, path)
    return "nothing" if shot is None or "\n" in path else f"{shot.tree}:{os.path.relpath(path, shot.base)}"


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines(keepends=True)


# Number of contents in memory at once.
_BATCH_SIZE = 32


def restore_files(store: Store, items: Sequence[Item]) -> dict[str, str]:
    """Restore the files of a plan. Return the paths that failed, with the reason. Remove folders that become empty."""
    failed: dict[str, str] = {}
    folders = (os.path.split(i.path)[0] for i in items if i.want is not None)
    with temporary_name(store.where.folder, folders) as temporary:
        _carry_out(store, items, temporary, failed)
    return failed


def _carry_out(store: Store, items: Sequence[Item], temporary: str, failed: dict[str, str]) -> None:
    # First remove what is in the way of a folder or file, deepest first.
    for item in sorted((i for i in items if i.want is None), key=lambda i: i.path, reverse=True):
        _try(failed, item, lambda item: _remove(store, item))
    wanted = sorted((i for i in items if i.want is not None), key=lambda i: i.path)
    for at in range(0, len(wanted), _BATCH_SIZE):
        some = wanted[at : at + _BATCH_SIZE]
        contents = store.git.blobs({i.want.oid for i in some if i.want is not None})
        for item in some:
            _try(failed, item, lambda item: _write(item, contents, temporary))  # noqa: B023 - called at once


def _try(failed: dict[str, str], item: Item, act: Callable[[Item], None]) -> None:
    try:
        if current_state(item.path) != item.now:
            failed[item.path] = "changed a moment ago"
            return
    except AmbiguousStateError as error:
        if item.want is None or str(error) != "a folder is there":
            failed[item.path] = str(error)
            return
    try:
        act(item)
    except (OSError, StoreError, AmbiguousStateError) as error:
        failed[item.path] = getattr(error, "strerror", None) or str(error)


def _remove(store: Store, item: Item) -> None:
    folder, name = os.path.split(item.path)
    directory = open_directory(Path(folder))
    try:
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)
    bases = {Path(base) for base in store.scanners}
    here = Path(folder)
    while here not in bases and any(here.is_relative_to(base) for base in bases):
        remove_empty(here)
        if os.path.lexists(here):
            break
        here = here.parent


def _write(item: Item, contents: dict[str, bytes], temporary: str) -> None:
    want = item.want
    assert want is not None
    folder, name = os.path.split(item.path)
    if item.now is not None and item.now.replace(mode=want.mode) == want:
        _set_mode(folder, name, want.mode)
        return
    if want.oid not in contents:
        raise AmbiguousStateError("its content is no longer in the store")
    data = contents[want.oid]
    with own_files.writing(Path(item.path), data):
        _replace(item, want, data, temporary)


def _replace(item: Item, want: FileState, data: bytes, temporary: str) -> None:
    folder, name = os.path.split(item.path)
    directory = open_directory(Path(folder), create=True)
    try:
        with suppress(FileNotFoundError):
            there = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(there.st_mode):
                os.rmdir(name, dir_fd=directory)
            elif item.edited and there.st_nlink > 1 and stat.S_ISREG(there.st_mode) and not want.link:
                with os.fdopen(open_regular(name, dir_fd=directory), "rb") as file:
                    before = file.read()
                write_in_place(name, directory, data, before)
                if stat.S_IMODE(there.st_mode) != want.mode:
                    _set_mode(folder, name, want.mode)
                return
        try:
            _make(temporary, directory, want, data)
            if not is_at(directory, folder):
                raise AmbiguousStateError("changed a moment ago")
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:  # leave no temporary file behind on any error; the caller reports it
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _set_mode(folder: str, name: str, mode: int) -> None:
    directory = open_directory(Path(folder))
    try:
        descriptor = open_regular(name, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _make(name: str, directory: int, want: FileState, data: bytes) -> None:
    if want.link:
        os.symlink(os.fsdecode(data), name, dir_fd=directory)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, want.mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MAX_SHOWN_BYTES = 1_000_000


class Step(Value):
    """A turn that changed something, for a list.

    undone: it is currently undone.
    """

    turn: RecordedTurn
    changes: tuple[RecordedChange, ...]
    undone: bool


def _from_message(story: CheckpointHistory, messages: int) -> list[int]:
    way: list[RecordedTurn] = []
    for turn in story.turns.values():
        while way and way[-1].messages >= turn.messages:
            way.pop()
        way.append(turn)
    first = next((t.turn for t in way if t.messages >= messages), None)
    return [n for n in story.turns if first is not None and n >= first]


P = ParamSpec("P")
T = TypeVar("T")


def _for_users(method: Callable[Concatenate[UndoManager, P], T]) -> Callable[Concatenate[UndoManager, P], T]:
    """Let a method raise UsageError where the snapshots cannot be used."""

    @wraps(method)
    def run(manager: UndoManager, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return method(manager, *args, **named)
        except StoreError as error:
            raise UsageError(f"The snapshots cannot be used: {error}.") from None

    return run


class UndoManager:
    """Undo and redo in one session. Its methods raise UsageError if the snapshots cannot be used, except where they say
    StoreError.

    restored: is called with the paths that an undo or redo has restored.
    """

    def __init__(self, store: Store, restored: Callable[[Sequence[str]], object] = lambda paths: None) -> None:
        self.store, self._restored = store, restored

    @_for_users
    def story(self) -> CheckpointHistory:
        return read_history(self.store.manifest.read())

    def steps(self) -> list[Step]:
        """Return the turns that changed something, in order."""
        story = self.story()
        found = []
        for number, turn in story.turns.items():
            changes = tuple(c for c in story.changes if c.turn == number)
            if changes:
                found.append(Step(turn, changes, number in story.undone))
        return found

    @_for_users
    def latest(self) -> int | None:
        """Return the turn that a plain undo selects: the latest with changes that is not undone; None without one.

        If no turn has any, it is the latest whose plan keeps something, so that the user sees that.
        """
        standing = [step.turn.turn for step in reversed(self.steps()) if not step.undone]
        changed = next((number for number in standing if self.summed([number])), None)
        return changed or next((number for number in standing if not self.plan([number]).empty), None)

    def from_message(self, messages: int) -> list[int]:
        """Return the turns after the first `messages` messages of the current history."""
        return _from_message(self.story(), messages)

    @_for_users
    def standing(self) -> tuple[dict[str, FileChange], list[str]]:
        """Return what all turns together changed, by absolute path, without what is undone; and the commits that were
        checked out meanwhile.
        """
        changes = self.changes(step.turn.turn for step in self.steps())
        heads = dict.fromkeys(head for c in changes for head in c.heads if head)
        with self.store.locked():
            return combined_changes(self.store, changes), list(heads)

    def changes(self, turns: Iterable[int]) -> list[RecordedChange]:
        """Return the changes of the turns, in order, without undone ones."""
        story, wanted = self.story(), set(turns)
        return [c for c in story.changes if c.turn in wanted and c.turn not in story.undone]

    @_for_users
    def plan(self, turns: Iterable[int]) -> Plan:
        """Plan the undo of turns."""
        return make_plan(self.store, self.changes(turns))

    @_for_users
    def summed(self, turns: Iterable[int]) -> str:
        """Summarize the changes of turns; "" for none."""
        with self.store.locked():
            return summed(combined_changes(self.store, self.changes(turns)))

    @_for_users
    def summed_since(self, counts: Sequence[int]) -> list[str]:
        """Summarize the changes since the history had so many messages, for each count."""
        story = self.story()
        standing = [c for c in story.changes if c.turn not in story.undone]
        with self.store.locked():
            work = list(zip(standing, all_differences(self.store, standing), strict=True))
        found = []
        for count in counts:
            turns = set(_from_message(story, count))
            since = [pair for pair in work if pair[0].turn in turns]
            found.append(summed(merge_changes([c for c, _ in since], [d for _, d in since])))
        return found

    @_for_users
    def undo(self, turns: Sequence[int], items: Sequence[Item], *, part: bool = False) -> dict[str, str]:
        """Restore files. Return those that failed, with the reason. Raises UsageError if nothing was done.

        part: the rest of a single turn's changes stays, and can be undone later.
        """
        standing = tuple(n for n in turns if n not in self.story().undone)
        if part and len(standing) == 1:
            return self._carry_out("undo", (), items, -1, standing[0])
        return self._carry_out("undo", standing, items, -1)

    @_for_users
    def blame(self, path: str, line: int, lines: list[str]) -> BlamedCall | None:
        """Return the call that wrote a line (from 1) of a file with the given lines; None if none of ours did."""
        at, newer = line - 1, lines
        for written, before, after in reversed(list(_versions(self.store, path))):
            left = _map_line(after, newer, at)
            if left is None:
                return None
            found = _map_line(before, after, left)
            if found is None:
                return written
            at, newer = found, before
        return None

    def revert(self, calls: Collection[str], root: str) -> str:
        """Undo some calls of a running turn as far as that needs no question. Return what happened, as text.

        Raises StoreError if nothing was done. `redo` reverts it; the turn can still be undone as a whole.
        """
        plan = make_plan(self.store, self._changes_by(calls))
        ready = plan.of("ready")
        failed = self._carry_out("undo", (), ready, -1)
        done = [i for i in ready if i.path not in failed]
        lines = [f"Restored: {'; '.join(i.described(root) for i in done)}." if done else "No file was restored."]
        if left := plan.of("ask", "lost", "kept"):
            lines.append(f"Not restored: {'; '.join(i.described(root) for i in left)}.")
        lines += [f"Not restored: {path}: {why}." for path, why in failed.items()]
        return " ".join([*lines, *(f"Note: {note}." for note in plan.notes)])

    def _changes_by(self, calls: Collection[str]) -> list[RecordedChange]:
        """Return the changes of some calls of the latest turn, without undone ones."""
        story = self.story()
        here = max(story.turns, default=0)
        return [c for c in story.changes if c.turn == here and c.call in calls and c.turn not in story.undone]

    @_for_users
    def redo_plan(self) -> tuple[int, Plan] | None:
        """Return the latest undo that can be reverted, and the plan for it; None for none."""
        story = self.story()
        if not story.open_undos:
            return None
        number = story.open_undos[-1]
        op = story.ops[number]
        return number, make_plan(self.store, [RecordedChange(0, "", "undo", "", op.before, op.after)])

    @_for_users
    def redo(self, number: int, items: Sequence[Item]) -> dict[str, str]:
        """Revert an undo. Works like `undo`."""
        op = self.story().ops[number]
        return self._carry_out("redo", op.turns, items, number, op.part)

    def _carry_out(
        self, kind: str, turns: tuple[int, ...], items: Sequence[Item], of: int, part: int = 0
    ) -> dict[str, str]:
        if not items:
            return {}
        store = self.store
        everything = SizeLimits(store.where.bounds.total, store.where.bounds.total)
        paths = [i.path for i in items]
        with store.locked():
            before = capture(store.git, paths, everything)
            failed = restore_files(store, items)
            after = capture(store.git, paths, everything)
            now = utc_stamp()
            if len(failed) < len(items):
                store.manifest.add(Undone(kind, turns, (before,), (after,), of, now, part))
        self._restored([path for path in paths if path not in failed])
        return failed

    @_for_users
    def diffs(self, turns: Iterable[int]) -> list[Diff]:
        """Return the recorded changes of turns to each file."""
        return self._diffs(self.changes(turns))

    def diffs_of(self, calls: Collection[str], root: str) -> list[Diff]:
        """Return the changes of some calls of a running turn, with paths relative to `root`. Raises StoreError."""
        return [d.replace(path=d.path.removeprefix(f"{root}/")) for d in self._diffs(self._changes_by(calls))]

    def _diffs(self, changes: Sequence[RecordedChange]) -> list[Diff]:
        with self.store.locked():
            found = combined_changes(self.store, changes)
            return [self._diff(t) for t in sorted(found.values(), key=lambda t: t.path)]

    def _diff(self, t: FileChange) -> Diff:
        old, new = self._text(t.before), self._text(t.after)
        if old is None or new is None:
            return Diff(t.path, "(no text)", created=t.before is None)
        patch, added, removed = unified(old, new)
        if not patch and t.before and t.after:
            patch = f"(permissions: {t.before.mode:o} -> {t.after.mode:o})"
        if t.after is None:
            patch = f"(deleted)\n{patch}"
        return Diff(t.path, patch, added, removed, t.before is None)

    def _text(self, state: FileState | None) -> str | None:
        if state is None:
            return ""
        try:
            data = self.store.git.blob(state.oid)
            return None if len(data) > _MAX_SHOWN_BYTES or b"\0" in data else data.decode("utf-8")
        except (StoreError, UnicodeDecodeError):
            return None
