"""Plan an undo before anything happens: file by file, with what cannot or should not be restored.

Only files that the work changed are considered. A file is restored without a question if it is still as the work left
it; if somebody changed it since, or that is uncertain, the user has to confirm that file.

Also lists changed files that git ignores: no snapshot has them, so they are reported before an undo.
"""

from __future__ import annotations

import calendar
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agent_cli.checkpoints.file_state import AmbiguousStateError, FileChange, FileState, current_state, touched
from agent_cli.checkpoints.git_store import StoreError
from agent_cli.checkpoints.manifest import RecordedChange
from agent_cli.checkpoints.scanner import NESTED, look_at_file, stat_signature
from agent_cli.checkpoints.store import Store
from agent_tools.record import Value
from agent_tools.text import counted, one_line

_SECONDS = 0.5


def changed_ignored(store: Store, since: float) -> list[str]:
    """Return ignored files, and folders with files, that changed after a time; absolute paths, folders with a slash."""
    found: list[str] = []
    until = time.monotonic() + _SECONDS
    for base, scanner in store.scanners.items():
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        try:
            out = store.git.run(*words, tree=base, index=scanner.index)
        except StoreError:
            continue
        for name in out.split(b"\0"):
            path = os.path.join(base, os.fsdecode(name))
            if name and _changed(path, since, until):
                found.append(path)
    return found


def _changed(path: str, since: float, until: float) -> bool:
    """Return True if something at or below a path changed after a time, as far as the time limit allows to check."""
    try:
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode):
            return state.st_ctime >= since
        for here, _, names in os.walk(path):
            places = [here, *(os.path.join(here, name) for name in names)]
            if any(os.lstat(p).st_ctime >= since for p in places) or time.monotonic() > until:
                return True
    except OSError:
        pass
    return False


Kind = Literal["ready", "ask", "lost"]
_LISTED = 10


class Item(Value):
    """One file of a plan.

    want: its target state.
    now: its present state.
    kind: it can be restored ("ready"), only if the user confirms ("ask"), or not ("lost").
    why: for the latter two.
    """

    path: str
    want: FileState | None
    now: FileState | None
    kind: Kind
    why: str = ""

    @property
    def verb(self) -> str:
        if self.want is None:
            return "delete"
        return "create again" if self.now is None else "change back"


class Plan(Value):
    """The files by path, and notes on what else is not restored."""

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
        found = touched(store, changes)
        wanted = [t.before.oid for t in found.values() if t.before is not None]
        there = store.git.have(wanted)
        items = [i for t in found.values() if (i := _item(t, there, found)) is not None]
        items = [_if_redoable(i, store.where.bounds.total) for i in items]
        return Plan(tuple(sorted(items, key=lambda i: i.path)), tuple(_notes(store, changes, found)))


def _if_redoable(item: Item, most: int) -> Item:
    """Return the item; it needs confirmation if its present content could not be stored for a redo."""
    state = look_at_file("/", item.path) if item.kind == "ready" and item.now is not None else None
    if state is None or state.st_size <= most:
        return item
    return item.replace(kind="ask", why="too large for redo to restore")


def _stands(t: FileChange) -> bool:
    """Return True if a file is still as the work left it."""
    try:
        return current_state(t.path) == t.after
    except AmbiguousStateError:
        return False


def _item(t: FileChange, there: dict[str, int], found: dict[str, FileChange]) -> Item | None:
    try:
        now = current_state(t.path)
    except AmbiguousStateError as error:
        # A file became a folder, or its folder a link: it can be restored once what the work left there is removed.
        above = found.get(error.link)
        gives_way = above is not None and above.before is None and not above.doubt and _stands(above)
        gives_way = gives_way or str(error) == "a folder is there"
        if t.after is None and gives_way and t.before is not None and not t.doubt and t.before.oid in there:
            return Item(t.path, t.before, None, "ready")
        return Item(t.path, t.before, None, "lost", str(error))
    left = t.after
    state = look_at_file("/", t.path)
    if state is not None:
        mark = f"~{stat_signature(state)}"
        if t.before is not None and t.before.oid == mark:
            return None
        left = now if left is not None and left.oid == mark else left
    if t.before is not None and t.before.unkept:
        return Item(t.path, t.before, now, "lost", f"was not kept: {t.before.unkept}")
    if now == t.before:
        return None
    same = now is not None and t.before is not None and now.oid == t.before.oid
    if t.before is not None and t.before.oid not in there and not same:
        return Item(t.path, t.before, now, "lost", "its content is no longer in the store")
    if t.doubt:
        return Item(t.path, t.before, now, "ask", t.doubt)
    if now != left:
        how = "deleted" if now is None else "created anew" if t.after is None else "changed"
        return Item(t.path, t.before, now, "ask", f"was {how} since")
    return Item(t.path, t.before, now, "ready")


def _near(path: str, store: Store) -> str:
    root = f"{store.where.roots[0]}/"
    return path.removeprefix(root)


def _listed(names: Sequence[str], store: Store) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(_near(n, store) for n in names[:_LISTED]) + more


def _notes(store: Store, changes: Sequence[RecordedChange], found: Mapping[str, FileChange]) -> Iterable[str]:
    """Describe what is not a file of the folders and stays as it is."""
    first = next((c.heads[0] for c in changes if c.heads[0] != c.heads[1]), "")
    if first:
        yield f"the branch's commit is not changed back (it was {first[:10]}; see git reflog)"
    began = min((c.time for c in changes if c.time), default="")
    if began and any(s.base != "/" for c in changes for s in c.before):
        names = changed_ignored(store, calendar.timegm(time.strptime(began, "%Y-%m-%dT%H:%M:%SZ")))
        if others := [n for n in names if n not in found]:
            yield f"ignored by git, changed since, and not restored: {_listed(others, store)}"
        if late := [n for n in names if n in found and found[n].late and found[n].before is not None]:
            yield f"ignored by git, and restored only to its state when a call first named it: {_listed(late, store)}"
    if nested := sorted({p for c in changes for s in c.before for p, (why, _) in s.skipped.items() if why == NESTED}):
        yield f"nested repositories are not covered: {', '.join(nested[:_LISTED])}"
    if not store.scanners:
        yield "only files that were written or named are covered here: this folder is not a project"


def describe_plan(items: Sequence[Item], root: str) -> list[str]:
    """Describe the files of a plan, one line each, with the reason if they are not simply restored."""
    lines = []
    for item in items:
        name = one_line(os.path.relpath(item.path, root) if item.path.startswith(f"{root}/") else item.path)
        lines.append(f"{item.verb}: {name}" + (f" ({item.why})" if item.why else ""))
    return lines


def summed(work: Mapping[str, FileChange]) -> str:
    """Summarize changes of files: "3 files created, 2 modified"; "" for none."""
    found = [t for t in work.values() if t.before != t.after]
    created = sum(t.before is None for t in found)
    deleted = sum(t.after is None for t in found)
    modified = len(found) - created - deleted
    parts = [(created, "created"), (modified, "modified"), (deleted, "deleted")]
    told = [(n, word) for n, word in parts if n]
    if not told:
        return ""
    first, *rest = told
    return ", ".join([f"{counted(first[0], 'file')} {first[1]}", *(f"{n} {word}" for n, word in rest)])
