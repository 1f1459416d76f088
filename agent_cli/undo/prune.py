"""Limit the size of the store: remove what is old, then the oldest of the rest until it is small enough.

Ages are measured in time that passed while the program watched, so that a changed clock removes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agent_cli.undo.manifest import After, Before, Manifest, Record, RecordedTurn, Undone
from agent_cli.undo.scanner import MAX_STATE_BYTES, Snapshot
from agent_cli.undo.store import Store
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import to_json

# The most that a clock jump, or a long pause, can add to an age.
MAX_STEP_SECONDS = 3 * 86_400
_MAX_BYTES = 64 << 20


class IdleTimes:
    """The ages of items by name, stored in a file between runs.

    now: the clock, in seconds.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._path, self._now = path, now
        self._lived = 0.0
        # By name: the time of the last change, and the accumulated time at that point.
        self._seen: dict[str, tuple[float, float]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            kept = json.loads(read_regular(path, _MAX_BYTES))
            self._lived = float(kept["lived"]) + min(max(now - float(kept["at"]), 0.0), MAX_STEP_SECONDS)
            self._seen = {str(name): (float(t), float(lived)) for name, (t, lived) in kept["seen"].items()}

    def seconds(self, name: str, changed: float) -> float:
        """Return how long an item that was last changed at this time has been idle."""
        if name not in self._seen or self._seen[name][0] != changed:
            self._seen[name] = (changed, self._lived)
        return self._lived - self._seen[name][1]

    def save(self, there: Collection[str]) -> None:
        """Store the ages of the items that exist. Raises OSError."""
        seen = {name: found for name, found in self._seen.items() if name in there}
        data = {"at": self._now, "lived": self._lived, "seen": seen}
        write_atomic(self._path, json.dumps(data).encode("ascii"), sync=False)


DAY_SECONDS = 86_400
_MARK = "pruned"


def is_due(folder: Path, most: int, now: float) -> bool:
    """Return True if a store has not been pruned for a day, or is too large."""
    try:
        # A clock that was ahead and was corrected must not delay pruning until then.
        return abs(now - os.stat(folder / _MARK).st_mtime) > DAY_SECONDS or folder_size(folder) > most  # noqa: PTH116
    except OSError:
        return True


def folder_size(folder: Path) -> int:
    """Return the bytes of all files below a folder; 0 if it does not exist."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(here, name)).st_size
    return total


def prune(store: Store, days: float, most: int, now: float) -> None:
    """Remove sessions and other projects that were idle for `days`, then the oldest work until the store has at most
    `most` bytes. Raises StoreError.
    """
    folder = store.where.folder
    with store.locked():
        # A new store has too little to pack.
        is_new = not os.path.lexists(folder / _MARK)
        idle = IdleTimes(folder / _MARK, now)
        there = []
        for path in _manifests(folder):
            with suppress(OSError):
                if idle.seconds(path.name, path.stat().st_mtime) > days * DAY_SECONDS:
                    path.unlink()
                else:
                    there.append(path.name)
        there += _prune_others(folder, days, idle)
        idle.save(there)
        if not is_new:
            _pack(store)
        while folder_size(folder) > most and _drop_oldest(folder):
            _pack(store)
        if folder_size(folder) > most:
            # Only the current state of the project is left.
            for left in (*folder.glob("index-*"), *_loose_and_packed(store.git.home)):
                left.unlink(missing_ok=True)


def _prune_others(folder: Path, days: float, idle: IdleTimes) -> Iterator[str]:
    """Remove the stores of projects that were idle for `days`; yield the names of the others.

    folder: the store in use.
    """
    for other in sorted(folder.parent.iterdir()):
        with suppress(OSError):
            if other == folder:
                continue
            changed = max(p.stat().st_mtime for p in (other, *_manifests(other)))
            if idle.seconds(f"../{other.name}", changed) > days * DAY_SECONDS:
                shutil.rmtree(other)
            else:
                yield f"../{other.name}"


def _manifests(folder: Path) -> list[Path]:
    """Return the manifests of sessions, oldest first."""
    found = []
    for path in (folder / "sessions").glob("*.records"):
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found)]


def _drop_oldest(folder: Path) -> bool:
    """Remove a session, or the older half of the only one. Return False if nothing is left to remove."""
    paths = _manifests(folder)
    if not paths:
        return False
    if len(paths) > 1:
        paths[0].unlink()
        return True
    records = Manifest(paths[0]).read()
    turns = sorted({r.turn for r in records if isinstance(r, RecordedTurn)})
    if len(turns) < 2:
        paths[0].unlink()
        return True
    kept = set(turns[len(turns) // 2 :])
    calls = {r.call for r in records if isinstance(r, Before) and r.turn in kept}
    left = [s for r in records if (s := _shrink(r, kept, calls)) is not None]
    lines = [json.dumps(to_json(r), separators=(",", ":")) for r in left]
    write_atomic(paths[0], "".join(f"{line}\n" for line in lines).encode("ascii"), sync=False)
    return True


def _shrink(record: Record, turns: set[int], calls: set[str]) -> Record | None:
    """Return what remains of a record, or None."""
    match record:
        case After(call=call):
            return record if call in calls else None
        case Undone(turns=undone, part=part):
            # A redo refers to its undo by position, so no record may be removed.
            whose = {*undone, part} - {0}
            return record if not whose or whose & turns else record.replace(before=(), after=())
        case _:
            return record if record.turn in turns else None


def _pack(store: Store) -> None:
    """Pack all objects that are needed, and delete the others."""
    wanted = sorted({oid for oid in _roots(store.where.folder) if oid})
    git = store.git
    there = git.have(wanted)
    words = ("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin")
    feed = "\n".join([*there, ""]).encode()
    found = git.run(*words, feed=feed, seconds=600).decode("ascii").split() if there else []
    local = git.have([*found, *there], local=True)
    old = list(_loose_and_packed(git.home))
    new = git.pack(local, local=True) if local else ""
    for path in old:
        if not new or new not in path.name:
            with suppress(OSError):
                path.unlink()


def _roots(folder: Path) -> Iterator[str]:
    for path in folder.glob("index-*.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            known = json.loads(read_regular(path, MAX_STATE_BYTES))
            yield from (str(known["tree"]), str(known["perms"]))
    for path in _manifests(folder):
        for record in Manifest(path).read():
            shots: tuple[Snapshot, ...] = ()
            match record:
                case Before(shots=shots):
                    yield from record.left_out.values()
                case After(shots=shots):
                    pass
                case Undone(before=before, after=after):
                    shots = (*before, *after)
                case _:
                    continue
            yield from (oid for s in shots for oid in (s.tree, s.perms))


def _loose_and_packed(home: Path) -> Iterator[Path]:
    yield from home.glob("objects/[0-9a-f][0-9a-f]/*")
    yield from home.glob("objects/pack/*")
