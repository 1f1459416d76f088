"""Find who wrote a line: follow it back through the snapshots of all sessions to the call that added it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agent_cli.checkpoints.manifest import Manifest, RecordedChange, RecordedTurn, read_history
from agent_cli.checkpoints.scanner import Snapshot
from agent_cli.checkpoints.store import Store
from agent_tools.edit.diff import changes
from agent_tools.record import Value


class Written(Value):
    """The call that wrote a line, with its turn and session."""

    session: str
    turn: RecordedTurn
    change: RecordedChange


def blame_line(store: Store, path: str, line: int, lines: list[str]) -> Written | None:
    """Return the call that wrote a line (from 1) of a file with the given lines; None if no call of ours did.

    Raises StoreError.
    """
    at, newer = line - 1, lines
    for written, before, after in reversed(list(_versions(store, path))):
        left = _same(after, newer, at)
        if left is None:
            return None
        found = _same(before, after, left)
        if found is None:
            return written
        at, newer = found, before
    return None


def _same(old: list[str], new: list[str], at: int) -> int | None:
    """Return the position of a new line in the old text; None if it is not in it."""
    moved = 0
    for i1, i2, j1, j2 in changes(old, new):
        if j1 <= at < j2:
            return None
        if j2 <= at:
            moved += (i2 - i1) - (j2 - j1)
    return at + moved


def _versions(store: Store, path: str) -> Iterator[tuple[Written, list[str], list[str]]]:
    """Yield each call that changed the file, in order, with the file's lines before and after it."""
    calls: list[Written] = []
    for file in (store.where.folder / "sessions").glob("*.records"):
        story = read_history(Manifest(file).read())
        for change in story.changes:
            if change.after is not None and change.turn in story.turns and change.turn not in story.undone:
                calls.append(Written(file.stem, story.turns[change.turn], change))
    calls.sort(key=lambda c: c.change.time)
    wanted: list[str] = []
    for call in calls:
        wanted += [_object(call.change.before, path), _object(call.change.after or (), path)]
    feed = "".join(f"{name}\n" for name in wanted).encode("utf-8", "surrogateescape")
    rows = store.git.run("cat-file", "--batch-check=%(objectname)", feed=feed).decode("utf-8", "replace").splitlines()
    oids = [row if len(row) == 40 else "" for row in rows]
    texts = store.git.blobs({oid for oid in oids if oid})
    for call, old, new in zip(calls, oids[0::2], oids[1::2], strict=False):
        if old != new and new:
            yield call, _lines(texts.get(old, b"")), _lines(texts.get(new, b""))


def _object(shots: tuple[Snapshot, ...], path: str) -> str:
    """Return git's name for a file of a snapshot."""
    # A named file is also in its folder's snapshot, unless that folder was not scanned.
    for shot in sorted(shots, key=lambda s: s.base == "/"):
        if path.startswith(f"{shot.base.rstrip('/')}/") and "\n" not in path:
            return f"{shot.tree}:{os.path.relpath(path, shot.base)}"
    return "nothing"


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines(keepends=True)
