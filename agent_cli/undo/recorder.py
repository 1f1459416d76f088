"""Record the state around each call that may change files (the engine's `ChangeObserver`).

A call that only writes named files costs a stat of these; a command, or another program's tool, a scan of the folders.
Errors are reported once and never stop a turn.

Also finds the files that a call names in addition to its folder's snapshot: those that it writes or would destroy.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from agent_cli.kernel.messages import Message, is_user_message
from agent_cli.undo.git_store import Row, StoreError, TooManyFilesError
from agent_cli.undo.left_out import NESTED
from agent_cli.undo.manifest import After, Before, RecordedTurn
from agent_cli.undo.scanner import MAX_LISTED_BELOW, MAX_STATE_BYTES, SizeLimits, Snapshot, lstat_file
from agent_cli.undo.store import OwnData, Store, StoreConfig
from agent_tools.base import Effect
from agent_tools.edit.diff import unified
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff
from agent_tools.text import counted, shorten, utc_stamp

if TYPE_CHECKING:
    from agent_cli.policy.programs.danger import Danger
    from agent_cli.policy.shell.words import SimpleCommand

with lazy_imports():  # an edit needs none of what knows commands
    from agent_cli.policy import destructive, lost_files, operands
    from agent_cli.policy.shell import analysis as shell_analysis

_MAX_NAMED = 200
_WALK_SECONDS = 0.3
_FILE_DANGERS = ("delete", "tree", "overwrite", "attributes")
# Files of a command's changes that are named, and of which the lines are counted if there are no more.
_MAX_CHANGED, _MAX_COUNTED, _MAX_COUNTED_BYTES = 100, 30, 1_000_000
_OWN = "agent's own data"
_ELSEWHERE = {
    "stash": "stash entries", "branch": "branches", "ref": "branches and tags", "push": "pushes", "unpush": "pushes",
    "history": "git's own data", "unknown": "git's own data",
}  # fmt: skip


class NamedPaths(Value):
    """Absolute paths that a call names.

    files: to be stored.
    unlisted: folders whose files are not listed, each with the reason.
    elsewhere: targets that a command destroys and that are not files.
    cleans: folders in which a `git clean` deletes ignored files.
    history: deleted parts of git's own folders.
    """

    files: tuple[str, ...] = ()
    unlisted: tuple[tuple[str, str], ...] = ()
    elsewhere: tuple[str, ...] = ()
    cleans: tuple[str, ...] = ()
    history: tuple[str, ...] = ()


def target_files(effects: Iterable[Effect], cwd: str, where: StoreConfig) -> NamedPaths:
    """Return what the effects of a call name. Never raises, even for a command that cannot be parsed."""
    roots, bounds, own = tuple(str(r) for r in where.roots), where.bounds, where.own
    files: dict[str, None] = {}
    unlisted: dict[str, str] = {}
    elsewhere: list[str] = []
    cleans: list[str] = []
    history: list[str] = []
    for effect in effects:
        if effect.kind == "write":
            files[effect.target] = None
        elif effect.kind == "run":
            analysis = shell_analysis.analyse(effect.target, cwd, where.home)
            found = destructive.dangers(analysis)
            for part in analysis.parts:
                for path in (*_words(part, roots), *_moved_files(part, bounds, own)):
                    files[path] = None
            for danger in found:
                if danger.kind in _ELSEWHERE:
                    elsewhere.append(_ELSEWHERE[danger.kind])
                elif danger.kind == "clean":
                    places = danger.part.cwds or ()
                    cleans += places if {"x", "X"} & danger.flags else ()
                    if any(own.below(os.path.normpath(os.path.join(place, danger.folder))) for place in places):
                        unlisted[own.folder] = _OWN
                elif danger.kind in _FILE_DANGERS:
                    for folder in _unpacked(danger, files):
                        unlisted[folder] = "files of an archive whose names are not known"
                    for target in _targets(danger):
                        below, why, gits = _files_below(target, bounds, own)
                        deletes = danger.kind in ("delete", "tree") and not _is_selective(danger)
                        history += gits if deletes else []
                        if deletes and (target in own or own.below(target)) and os.path.lexists(own.folder):
                            unlisted[own.folder] = _OWN
                        if why:
                            unlisted[target] = why
                        files.update(dict.fromkeys(below))
    grouped = (tuple(dict.fromkeys(found)) for found in (elsewhere, cleans, history))
    return NamedPaths(tuple(f for f in files if f not in own), tuple(unlisted.items()), *grouped)


def _words(part: SimpleCommand, roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the files in the session's folders that a simple command names, and all files that it redirects to."""
    words = [w for w in part.words[1:] if not w.why and not w.pattern]
    written = [r.target for r in part.redirects if not r.why and r.kind not in ("read", "network")]
    for start in part.cwds or ():
        for word in islice(words, _MAX_NAMED):
            text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
            path = os.path.normpath(os.path.join(start, text)) if text and "\0" not in text else ""
            if path and any(path.startswith(f"{r.rstrip('/')}/") for r in roots) and _is_file(path):
                yield _real(path)
        for target in written:
            path = _real(os.path.normpath(os.path.join(start, target)))
            if target and "\0" not in target and not path.startswith(("/dev/", "/proc/")) and not _is_folder(path):
                yield path


def _moved_files(part: SimpleCommand, bounds: SizeLimits, own: OwnData) -> Iterator[str]:
    """Yield the files that `mv` takes from their place, as far as they can be listed: it may be an ignored place."""
    named = [w for w in part.words[1:] if not w.text.startswith("-")] if part.program == "mv" else []
    for start in part.cwds or ():
        for word in named[:-1][:_MAX_NAMED]:
            for operand in operands.resolve_word(word, start):
                yield from _files_below(operand.entry, bounds, own)[0]


def _targets(danger: Danger) -> Iterator[str]:
    for start in danger.part.cwds or ():
        for target in danger.targets(os.path.normpath(os.path.join(start, danger.folder))):
            yield from dict.fromkeys((target.entry, target.path))


def _unpacked(danger: Danger, files: dict[str, None]) -> Iterator[str]:
    """Add the files that copies and archives may replace; yield the folders of archives that are not known."""
    for start in danger.part.cwds or ():
        cwd = os.path.normpath(os.path.join(start, danger.folder))
        files.update(dict.fromkeys(_real(path) for path in lost_files.brought_files(danger, cwd) if _is_file(path)))
        yield from (folder for _, folder in lost_files.unknown_archives(danger, cwd) if folder)


def _is_selective(danger: Danger) -> bool:
    """Return True if only some of what is below is deleted, as by a `find` with conditions."""
    return danger.selective or (danger.find is not None and danger.find[0].narrow)


def _files_below(target: str, bounds: SizeLimits, own: OwnData) -> tuple[list[str], str, list[str]]:
    """Return the files at and below a path (links not followed), why the list is incomplete, and git's own folders."""
    if ".git" in target.split("/"):
        return [], "", [target] if os.path.lexists(target) else []
    if not _is_folder(target):
        return ([_real(target)] if os.path.lexists(target) else []), "", []
    found: list[str] = []
    gits: list[str] = []
    size = 0
    until = time.monotonic() + _WALK_SECONDS
    for here, folders, names in os.walk(target):
        gits += [os.path.join(here, f) for f in folders if f == ".git"]
        folders[:] = [f for f in folders if f != ".git" and os.path.join(here, f) != own.folder]
        for name in names:
            path = os.path.join(here, name)
            try:
                size += os.lstat(path).st_size
            except OSError:
                continue
            found.append(_real(path))
        if len(found) > MAX_LISTED_BELOW:
            return [], f"more than {counted(MAX_LISTED_BELOW, 'file')}", gits
        if size > bounds.total:
            return [], f"more than {bounds.total / 1e6:.0f} MB", gits
        if time.monotonic() > until:
            return [], "too many to look through", gits
    return found, "", gits


def _real(path: str) -> str:
    """Return the path with links in its folders resolved, but not a link at its end."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH120


def _is_file(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


_MAX_SKIPPED = 500
_MAX_LISTED = 5


class Recorder:
    """Records one session.

    redact: removes secrets from recorded text.
    model: returns the label of the active model.
    """

    def __init__(self, where: StoreConfig, redact: Callable[[str], str], model: Callable[[], str]) -> None:
        self._where = where
        self._redact = redact
        self._model = model
        self._store: Store | None = None
        self._turn = RecordedTurn(0, "", 0, "", "")
        self._recorded_number = -1
        self._new = True
        self._open: dict[str, tuple[Before, bool]] = {}
        # The differing files of the latest command, by folder.
        self._changed: dict[str, dict[str, list[Row]]] = {}
        self._warned: set[str] = set()
        self._folders = True
        self._first = True

    @property
    def store(self) -> Store:
        """The store, opened on first use. Raises StoreError."""
        if self._store is None:
            self._store = Store(self._where)
        return self._store

    @property
    def number(self) -> int | None:
        """The number of the running or latest turn; None if it changed nothing."""
        return self._recorded_number if self._recorded_number >= 0 else None

    def turn(self, history: Sequence[Message], *, new: bool, agent: bool = False) -> None:
        """Start or resume a turn with this history. agent: it is that of a sub-agent in the background."""
        # Messages that the program added, such as hook context or a nudge, do not begin or name a turn.
        at, text = next(((n, m.words) for n, m in reversed([*enumerate(history)]) if is_user_message(m)), (0, ""))
        self._turn = RecordedTurn(0, shorten(self._redact(" ".join(text.split())), 200), at, "", utc_stamp(), agent)
        self._recorded_number, self._new, self._first = -1, new, True

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> list[str]:
        """Record the state before a call; return warnings for the user."""
        whole = self._folders and any(e.kind in ("run", "call") for e in effects)
        try:
            store = self.store
            with store.locked():
                named = self._named(effects, cwd)
                files = self._all_named(named) if whole else list(named.files)
                shots = store.shots() if whole else ()
                unversioned = store.unversioned(files) if whole else files
                if unversioned:
                    shots = (*shots, *store.shots(unversioned, whole=False))
                if named.history and shots:
                    store.copy_all(shots)
                left_out = store.record_left_out(shots) if whole and self._first else {}
                kept = tuple(_truncate_skipped(s) for s in shots)
                record = Before(
                    0, call, tool, self._redact(summary), kept, store.head(), utc_stamp(), tuple(unversioned), left_out
                )
                record = record.replace(turn=self._turn_number())
                store.manifest.add(record)
                self._first = self._first and not whole
                self._open[call] = (record, whole)
            return self._warn_skipped(shots)
        except TooManyFilesError as error:
            self._folders = False
            text = f"From now on undo covers only files that tools write or commands name: {error}."
            return [text, *self.before(call, tool, summary, effects, cwd)]
        except (StoreError, OSError) as error:
            return self._once(f"This call cannot be undone: {error}.")

    def after(self, call: str) -> list[str]:
        """Record the state after a call for which `before` was called; return warnings for the user."""
        before, whole = self._open.pop(call, (None, False))
        if before is None:
            return []
        try:
            store = self.store
            with store.locked():
                shots = store.shots(before.named, whole=whole)
                differing = store.pin(before.shots, shots, whole=whole)
                shots = tuple(_truncate_skipped(s) for s in shots)
                if whole:
                    self._changed = {call: differing}
                store.manifest.add(After(call, tuple(s for s in shots if s not in before.shots), store.head()))
            return self._warn_skipped(shots)
        except (StoreError, OSError) as error:
            return self._once(f"What {before.tool} changed may not be undone completely: {error}.")

    def changed(self, call: str) -> list[Diff]:
        """Return the files that differ in the folders since before a command; of many only the names, to a limit."""
        rows = [(base, row) for base, found in self._changed.pop(call, {}).items() for row in found]
        try:
            oids = {oid for _, row in rows for oid in row[3:] if oid.strip("0")}
            texts = self.store.git.blobs(oids) if 0 < len(rows) <= _MAX_COUNTED else {}
        except StoreError:
            return []
        found = {}
        for base, (path, mode, mode2, oid, oid2) in rows[:_MAX_CHANGED]:
            old, new = (texts.get(each, b"") for each in (oid, oid2))
            plain = len(old) + len(new) <= _MAX_COUNTED_BYTES and b"\0" not in old + new
            lines = unified(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"))[1:] if plain else (0, 0)
            created, deleted = mode == "000000", mode2 == "000000"
            # A file that the command names is in two snapshots.
            full = os.path.join(base, path)
            found[full] = Diff(full, "", *lines, created=created, deleted=deleted)
        return list(found.values())

    def after_earlier(self, start: str) -> None:
        """Record the state after calls that other processes began and nobody ended, whose ID begins with `start`."""
        try:
            records = self.store.manifest.read()
        except StoreError:
            return
        ended = {record.call for record in records if isinstance(record, After)}
        begun = {record.call: record for record in records if isinstance(record, Before)}
        for call, record in begun.items():
            if call.startswith(start) and call not in ended:
                self._open[call] = (record, any(shot.base != "/" for shot in record.shots))
                self.after(call)

    def facts(self, effects: Sequence[Effect], cwd: str) -> tuple[str, ...]:
        """Return facts for an approval question: whether an undo can restore what a command destroys."""
        home, bounds = self._where.home, self._where.bounds
        runs = (shell_analysis.analyse(e.target, cwd, home) for e in effects if e.kind == "run")
        # What services lose is said with the loss.
        found = [danger for run in runs for danger in destructive.dangers(run) if danger.kind != "service"]
        if not found:
            return ()
        try:
            named = self._named(effects, cwd)
            missing = [*named.history, *(f"{folder} ({why})" for folder, why in named.unlisted), *named.elsewhere]
            states = [(p, state.st_size) for p in named.files if (state := lstat_file("/", p))]
            large = [p for p, size in states if size > bounds.file]
            missing += [f"{p} (too large)" for p in self.store.untracked(large)]
        except StoreError as error:
            return (f"undo: nothing of this can be restored: {error}",)
        if not missing and any(d.part.cwds is None or any(word.why for word in d.words) for d in found):
            return ("undo restores files of the project that are not ignored, and nothing else of this",)
        if not missing:
            return ("undo: a copy is saved first, and /undo restores it",)
        more = f" and {len(missing) - _MAX_LISTED} more" if len(missing) > _MAX_LISTED else ""
        return (f"undo cannot restore: {', '.join(missing[:_MAX_LISTED])}{more}",)

    def _named(self, effects: Iterable[Effect], cwd: str) -> NamedPaths:
        found = target_files(effects, cwd, self._where)
        files, unlisted = list(found.files), []
        for folder, why in found.unlisted:
            # The snapshot of a large folder contains what git tracks; only the rest has to be named.
            more = self.store.untracked_below(folder) if why != _OWN else None
            unlisted += [(folder, why)] if more is None else []
            files += more or []
        return found.replace(files=tuple(files), unlisted=tuple(unlisted))

    def _all_named(self, named: NamedPaths) -> list[str]:
        """Return the named files, and the ignored ones that a `git clean` would delete."""
        return [*named.files, *(p for folder in named.cleans for p in self.store.ignored(folder))]

    def _turn_number(self) -> int:
        """Return the number of the running turn, recorded with its first change."""
        if self._recorded_number >= 0:
            return self._recorded_number
        turns = self.store.manifest.latest_turns()
        last = next(turns, None)
        mine = last if last is None or not last.agent else next((turn for turn in turns if not turn.agent), None)
        if mine is not None and not self._new and mine.messages == self._turn.messages:
            self._recorded_number = mine.turn
            return self._recorded_number
        self._recorded_number = last.turn + 1 if last else 1
        self.store.manifest.add(self._turn.replace(turn=self._recorded_number, model=self._model()))
        return self._recorded_number

    def _warn_skipped(self, shots: Iterable[Snapshot]) -> list[str]:
        """Return a warning about files that are in no snapshot, once per project."""
        file = self._where.folder / "told.json"
        try:
            mentioned = set(json.loads(read_regular(file, MAX_STATE_BYTES)))
        except (OSError, ValueError, TypeError):
            mentioned = set()
        new = {os.path.join(s.base, p): why for s in shots for p, (why, _) in s.skipped.items()}
        new = {path: why for path, why in new.items() if path not in mentioned}
        if not new:
            return []
        write_atomic(file, json.dumps(sorted(mentioned | set(new))).encode("ascii"), sync=False)
        root = str(self._where.roots[0])
        names = [f"{os.path.relpath(p, root)} ({why})" for p, why in new.items()]
        what = counted(len(new), "repository" if all(w == NESTED for w in new.values()) else "file")
        what = what.replace("repositorys", "repositories")
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        return [f"Not covered by undo: {what}: {', '.join(names[:_MAX_LISTED])}{more}."]

    def _once(self, text: str) -> list[str]:
        if text in self._warned:
            return []
        self._warned.add(text)
        return [text]


def _truncate_skipped(shot: Snapshot) -> Snapshot:
    if len(shot.skipped) <= _MAX_SKIPPED:
        return shot
    return shot.replace(skipped=dict(list(shot.skipped.items())[:_MAX_SKIPPED]))
