"""Keeps the state around each call that may change files: what the engine's seam for that is given.

A call that only writes named files costs a look at these; a command, or another program's tool, a look at the folders.
What goes wrong here is said once, and never stops a turn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence

from agent_cli.core.messages import Message, by_person, typed
from agent_cli.snapshots.git import StoreError, TooManyFilesError
from agent_cli.snapshots.named import Named, target_files
from agent_cli.snapshots.records import After, Before, RecordedTurn
from agent_cli.snapshots.scan import LARGEST_STATE, NESTED, Shot, look_at_file
from agent_cli.snapshots.store import Store, Where
from agent_tools.base import Effect
from agent_tools.clipping import counted, shorten
from agent_tools.private import write_whole
from agent_tools.regular import read_regular

_MOST_SKIPPED = 500
_LISTED = 5


class Recorder:
    """Records one session. redact: takes secrets out of what is written in words. model: the name of who works."""

    def __init__(self, where: Where, redact: Callable[[str], str], model: Callable[[], str]) -> None:
        self._where = where
        self._redact = redact
        self._model = model
        self._store: Store | None = None
        self._turn = RecordedTurn(0, "", 0, "", "")
        self._written = -1
        self._new = True
        self._open: dict[str, tuple[Before, bool]] = {}
        self._said: set[str] = set()
        self._folders = True

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed. Raises StoreError."""
        if self._store is None:
            self._store = Store(self._where)
        return self._store

    @property
    def number(self) -> int | None:
        """The number of the running or latest turn; None where it changed nothing."""
        return self._written if self._written >= 0 else None

    def turn(self, history: Sequence[Message], *, new: bool) -> None:
        """A turn begins, or goes on, with this history."""
        # What the program added since, as context of hooks or a nudge, neither begins a turn nor names it.
        at, text = next(((n, typed(m.text)) for n, m in reversed([*enumerate(history)]) if by_person(m)), (0, ""))
        self._turn = RecordedTurn(0, shorten(self._redact(" ".join(text.split())), 200), at, "", _now())
        self._written, self._new = -1, new

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> list[str]:
        """Keep the state before a call; what a user should know about that."""
        whole = self._folders and any(e.kind in ("run", "call") for e in effects)
        try:
            store = self.store
            with store.locked():
                named = self._named(effects, cwd)
                files = self._all_named(named) if whole else list(named.files)
                shots = store.shots() if whole else ()
                loose = store.loose(files) if whole else files
                if loose:
                    shots = (*shots, *store.shots(loose, whole=False))
                if named.history and shots:
                    store.keep_whole(shots)
                kept = tuple(_short(s) for s in shots)
                record = Before(0, call, tool, self._redact(summary), kept, store.head(), _now(), tuple(loose))
                record = record.but(turn=self._turn_number())
                store.manifest.add(record)
                self._open[call] = (record, whole)
            return self._untold(shots)
        except TooManyFilesError as error:
            self._folders = False
            said = f"From now on an undo has only the files that are written or named: {error}."
            return [said, *self.before(call, tool, summary, effects, cwd)]
        except (StoreError, OSError) as error:
            return self._once(f"This call cannot be undone: {error}.")

    def after(self, call: str) -> list[str]:
        """Keep the state after a call that `before` was told of."""
        before, whole = self._open.pop(call, (None, False))
        if before is None:
            return []
        try:
            store = self.store
            with store.locked():
                shots = store.shots(before.named, whole=whole)
                store.pin(before.shots, shots)
                shots = tuple(_short(s) for s in shots)
                store.manifest.add(After(call, tuple(s for s in shots if s not in before.shots), store.head()))
            return self._untold(shots)
        except (StoreError, OSError) as error:
            return self._once(f"What {before.tool} changed is not certain to be undone: {error}.")

    def facts(self, effects: Sequence[Effect], cwd: str) -> tuple[str, ...]:
        """For a question: whether what a destructive command takes can be got back by an undo."""
        home, bounds = self._where.home, self._where.bounds
        from agent_cli.permission.destructive import dangers
        from agent_cli.permission.shell import analyse

        if not any(dangers(analyse(e.target, cwd, home)) for e in effects if e.kind == "run"):
            return ()
        try:
            named = self._named(effects, cwd)
            missing = [*named.history, *(f"{folder} ({why})" for folder, why in named.short), *named.elsewhere]
            states = [(p, state.st_size) for p in named.files if (state := look_at_file("/", p))]
            large = [p for p, size in states if size > bounds.file]
            missing += [f"{p} (too large)" for p in self.store.untracked(large)]
        except StoreError as error:
            return (f"undo: nothing of this can be brought back: {error}",)
        if not missing:
            return ("undo: a copy is saved first, and /undo restores it",)
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        return (f"undo cannot bring back: {', '.join(missing[:_LISTED])}{more}",)

    def _named(self, effects: Iterable[Effect], cwd: str) -> Named:
        roots = tuple(str(r) for r in self._where.roots)
        found = target_files(effects, cwd, self._where.home, roots, self._where.bounds)
        files, short = list(found.files), []
        for folder, why in found.short:
            # Of a large folder the snapshot has what git tracks, and only the rest is to be named.
            more = self.store.untracked_below(folder)
            short += [(folder, why)] if more is None else []
            files += more or []
        return found.but(files=tuple(files), short=tuple(short))

    def _all_named(self, named: Named) -> list[str]:
        """The named files, and the ignored ones that a `git clean` would take."""
        return [*named.files, *(p for folder in named.cleans for p in self.store.ignored(folder))]

    def _turn_number(self) -> int:
        """The number of the running turn, written down when it changes something for the first time."""
        if self._written >= 0:
            return self._written
        turns = [r for r in self.store.manifest.read() if isinstance(r, RecordedTurn)]
        last = turns[-1] if turns else None
        if last is not None and not self._new and last.messages == self._turn.messages:
            self._written = last.turn
            return self._written
        self._written = last.turn + 1 if last else 1
        self.store.manifest.add(self._turn.but(turn=self._written, model=self._model()))
        return self._written

    def _untold(self, shots: Iterable[Shot]) -> list[str]:
        """Which files no snapshot has, once in a project."""
        file = self._where.folder / "told.json"
        try:
            told = set(json.loads(read_regular(file, LARGEST_STATE)))
        except (OSError, ValueError, TypeError):
            told = set()
        new = {os.path.join(s.base, p): why for s in shots for p, (why, _) in s.skipped.items()}
        new = {path: why for path, why in new.items() if path not in told}
        if not new:
            return []
        write_whole(file, json.dumps(sorted(told | set(new))).encode("ascii"), sync=False)
        root = str(self._where.roots[0])
        names = [f"{os.path.relpath(p, root)} ({why})" for p, why in new.items()]
        what = counted(len(new), "repository" if all(w == NESTED for w in new.values()) else "file")
        what = what.replace("repositorys", "repositories")
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return [f"Not kept for an undo: {what}: {', '.join(names[:_LISTED])}{more}."]

    def _once(self, text: str) -> list[str]:
        if text in self._said:
            return []
        self._said.add(text)
        return [text]


def _short(shot: Shot) -> Shot:
    if len(shot.skipped) <= _MOST_SKIPPED:
        return shot
    return shot.but(skipped=dict(list(shot.skipped.items())[:_MOST_SKIPPED]))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
