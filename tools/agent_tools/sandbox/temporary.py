"""/tmp of a session: one path means one file for sandboxed commands, for commands outside and for the file tools.

In the sandbox, /tmp is a folder of the session, with what others may read of the machine's /tmp mounted read-only, so
that sockets and private files of other programs are absent, also those that appear later. What commands make there is
shared with the machine's /tmp under the same name when a command ends: a file by a hard link; a folder, if a call names
it, is moved out while no command runs, and is a symbolic link meanwhile. So it is an ordinary file or folder for every
other program, and stays after the session. Never shared are links, pipes, sockets and devices, names that are taken,
and names that other programs trust.

An extended attribute marks what is shared. Later sessions may write marked files that no running session has, empty
folders, and folders of the same project; everything else that was there before is read-only.

The same holds for /var/tmp, and for the folder that TMPDIR names.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from agent_tools.record import Value
from agent_tools.sandbox.public_files import RESERVED, Identity, PublicFiles, entries_of, identity

STANDARD = (Path("/tmp"), Path("/var/tmp"))
_MARK = "user.agent.project"
# Beside the session's folder: what commands that must change nothing write to.
READ_ONLY_NAME = "read-only"
_MAX_ADOPTED = 200


class TemporaryMount(Value):
    """A folder for temporary files as commands see it.

    target: its path.
    source: the session's folder that is mounted there.
    shown: entries of the machine's folder that are visible, read-only: files and folders, no links.
    states: their identities.
    """

    target: Path
    source: Path
    shown: tuple[Path, ...] = ()
    states: tuple[Identity, ...] = ()


class _Entry(Value):
    """An entry that the session shares.

    inside: it is in the session's folder: a file under both names, a folder there alone, with a link outside.
    """

    identity: Identity
    folder: bool = False
    inside: bool = False


class TemporaryPlace:
    """A folder of the machine for temporary files, and the session's folder for it, on the same file system."""

    def __init__(self, target: Path, source: Path, project: str) -> None:
        self.target, self.source = target, source
        self._project = project.encode()
        self._entries: dict[str, _Entry] = {}
        # Folders that a call named.
        self._named: set[str] = set()
        # Names in the session's folder that are mount points for entries of the machine.
        self._mount_points: set[str] = set()
        self._paths: dict[str, Path] = {}
        self._public = PublicFiles(target)

    def name_of(self, path: str) -> str:
        """Return the name of the entry that an absolute path is, or is in; "" if it is not in this folder."""
        return path[len(f"{self.target}/") :].partition("/")[0] if path.startswith(f"{self.target}/") else ""

    def is_inside(self, path: str) -> bool:
        """Return True if a path is in the session's folder."""
        return path.startswith(f"{self.source}/")

    def has(self, path: str) -> bool:
        """Return True if a path without links is in an entry of the session."""
        name = self.name_of(path)
        return self.is_inside(path) or (name in self._entries and self._is_unchanged(name))

    def _is_unchanged(self, name: str) -> bool:
        """Return True if no other program has replaced an entry in the machine's folder."""
        entry, state = self._entries[name], _lstat(self.target / name)
        if entry.folder and entry.inside:
            return _is_link_to(self.target / name, self.source / name)
        return state is not None and identity(state) == entry.identity

    def is_free(self, path: str) -> bool:
        """Return True if a path is in an entry that the session could make."""
        name = self.name_of(path)
        return bool(name) and not RESERVED.match(name) and _lstat(self.target / name) is None

    def spelled(self, path: str) -> str:
        """Return the path under which commands know a file of the session's folder."""
        return f"{self.target}{path[len(str(self.source)) :]}" if self.is_inside(path) else path

    def name_in(self, text: str) -> bool:
        """Note the folders that the text of a call names; return True if one was not named before."""
        before = len(self._named)
        for name in _names(self.source):
            found = name not in self._entries and name not in self._named and name in text
            if found and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text):
                self._named.add(name)
        return len(self._named) > before

    def take(self, name: str) -> None:
        """Take an entry that a tool, or a command outside, just made or replaced."""
        entry, state = self._entries.get(name), _lstat(self.target / name)
        if state is None or not _is_shareable(state):
            return
        if entry is None or identity(state) != entry.identity:
            self._entries[name] = _Entry(identity(state), stat.S_ISDIR(state.st_mode))
            self._mark(name)

    def replaced_in(self, command: str) -> None:
        """Take the entries that a command outside may have replaced, as its text names them."""
        for name in [name for name in self._entries if name in command and not self._is_unchanged(name)]:
            self.take(name)

    def enter(self) -> None:
        """Bring the entries of the session into its folder, for a command."""
        for name, entry in list(self._entries.items()):
            try:
                self._bring(name, entry)
            except OSError:
                self._entries.pop(name, None)  # it stays outside, read-only

    def _bring(self, name: str, entry: _Entry) -> None:
        outside, inside = self.target / name, self.source / name
        if not self._is_unchanged(name):
            self._give_up(name, entry)
        elif entry.inside:
            return
        elif entry.folder:
            self._remove_mount_point(name)
            outside.rename(inside)
            self._entries[name] = entry.replace(inside=True)
            outside.symlink_to(inside)
        else:
            _replace_by_link(outside, inside)
            self._entries[name] = entry.replace(inside=True)

    def _give_up(self, name: str, entry: _Entry) -> None:
        """Leave an entry to the program that removed or replaced it in the machine's folder."""
        inside = self.source / name
        self._entries.pop(name)
        mine = _lstat(inside)
        if not entry.folder and mine is not None and identity(mine) == entry.identity:
            inside.unlink()

    def share(self, *, at_rest: bool) -> None:
        """Share what commands made, changed and removed. at_rest: no command of the session runs."""
        for name in {*_names(self.source), *self._entries} - (self._mount_points - self._entries.keys()):
            with suppress(OSError):
                self._share_entry(name, at_rest=at_rest)

    def _share_entry(self, name: str, *, at_rest: bool) -> None:
        mine, entry = _lstat(self.source / name), self._entries.get(name)
        if entry is not None and not entry.inside:
            return
        if entry is not None and not self._is_same_kind(mine, entry):
            # Removed, or replaced by something of another kind.
            self._withdraw(name, entry)
            entry = None
        if mine is None:
            return
        if entry is None:
            self._publish(name, mine, at_rest=at_rest)
        elif entry.folder and at_rest:
            self._withdraw(name, entry)
            self._publish(name, mine, at_rest=True)
        elif not entry.folder:
            self._share_file(name, mine, entry)

    @staticmethod
    def _is_same_kind(mine: os.stat_result | None, entry: _Entry) -> bool:
        return mine is not None and (stat.S_ISDIR if entry.folder else stat.S_ISREG)(mine.st_mode)

    def _share_file(self, name: str, mine: os.stat_result, entry: _Entry) -> None:
        """Share the file anew if a command replaced it by a rename."""
        outside = self.target / name
        replaced = identity(mine) != entry.identity
        if not self._is_unchanged(name) and not (replaced and _lstat(outside) is None):
            self._give_up(name, entry)
        elif replaced:
            _replace_by_link(self.source / name, outside)
            self._entries[name] = entry.replace(identity=identity(mine))
            self._mark(name)

    def _publish(self, name: str, mine: os.stat_result, *, at_rest: bool) -> None:
        outside, inside = self.target / name, self.source / name
        if _lstat(outside) is not None:
            return  # it is another program's
        folder = stat.S_ISDIR(mine.st_mode)
        if RESERVED.match(name) or not _is_shareable(mine) or (folder and name not in self._named):
            return
        if not folder:
            os.link(inside, outside, follow_symlinks=False)
            if not stat.S_ISREG(os.lstat(outside).st_mode):  # a command replaced it meanwhile
                outside.unlink()
                return
        elif at_rest:
            inside.rename(outside)
            if not stat.S_ISDIR(os.lstat(outside).st_mode):  # a checker replaced it meanwhile
                outside.unlink()
                return
        else:
            outside.symlink_to(inside)
        self._entries[name] = _Entry(identity(mine), folder, inside=not (folder and at_rest))
        self._mark(name)

    def _withdraw(self, name: str, entry: _Entry) -> None:
        """Remove our name of an entry from the machine's folder."""
        outside = self.target / name
        state = _lstat(outside)
        ours = (
            _is_link_to(outside, self.source / name) if entry.folder else entry.identity == (state and identity(state))
        )
        if ours:
            outside.unlink()
        self._entries.pop(name)

    def _remove_mount_point(self, name: str) -> None:
        """Remove the empty file or folder that was made to mount something on."""
        inside = self.source / name
        state = _lstat(inside)
        with suppress(OSError):
            if state is not None and stat.S_ISDIR(state.st_mode):
                inside.rmdir()
            elif state is not None and stat.S_ISREG(state.st_mode) and state.st_size == 0:
                inside.unlink()
        if _lstat(inside) is None:
            self._mount_points.discard(name)

    def mount(self) -> TemporaryMount:
        """Return what commands see now: of the machine's folder, read-only, what others may read, too."""
        public = self._public.of_others(self._entries)
        for name in [name for name in self._mount_points - public.keys() if not os.path.lexists(self.target / name)]:
            self._remove_mount_point(name)  # what was mounted there is gone
        # A name that a command took first is the session's.
        new = [n for n in public.keys() - self._mount_points if os.path.lexists(self.source / n)]
        for name in new:
            del public[name]
        self._mount_points |= public.keys()
        return self._showing(self.source, public)

    def read_only_mount(self) -> TemporaryMount:
        """Return what a command sees that must not change anything of the session; it writes to another folder."""
        own = self.source.with_name(READ_ONLY_NAME)
        own.mkdir(exist_ok=True)
        entries = {n: entry.identity for n, entry in self._entries.items() if not (entry.folder and entry.inside)}
        return self._showing(own, self._public.of_others(self._entries) | entries)

    def _showing(self, source: Path, found: dict[str, Identity]) -> TemporaryMount:
        self._paths = paths = {name: self._paths.get(name) or self.target / name for name in found}
        return TemporaryMount(self.target, source, tuple(paths.values()), tuple(found.values()))

    def _mark(self, name: str) -> None:
        """Mark an entry as shared by this project. Some file systems have no attributes."""
        entry = self._entries[name]
        path = self.source / name if entry.folder and entry.inside else self.target / name
        with suppress(OSError, AttributeError):
            os.setxattr(path, _MARK, self._project, follow_symlinks=False)

    def adopt(self) -> None:
        """Take the entries that earlier sessions shared; see above."""
        count = 0
        for name, state in entries_of(self.target):
            path = self.target / name
            with suppress(OSError, AttributeError):
                mark = os.getxattr(path, _MARK, follow_symlinks=False)
                folder = stat.S_ISDIR(state.st_mode)
                ours = mark == self._project or not os.listdir(path) if folder else state.st_nlink == 1  # noqa: PTH208
                if ours and _is_shareable(state) and not RESERVED.match(name) and count < _MAX_ADOPTED:
                    self._entries[name] = _Entry(identity(state), folder)
                    count += 1


def restore_folders(target: Path, source: Path) -> None:
    """Put the folders that a session left in its folder, because it was killed, back into the machine's."""
    for name in _names(source):
        with suppress(OSError):
            mine = os.lstat(source / name)
            if stat.S_ISDIR(mine.st_mode) and _is_link_to(target / name, source / name):
                (target / name).unlink()
                (source / name).rename(target / name)


class TemporaryFiles:
    """The temporary files of a session. Thread-safe.

    private: folders whose files are not shared: commands see only their own, which end with the session.
    """

    def __init__(self, places: Iterable[TemporaryPlace], private: Iterable[TemporaryMount] = ()) -> None:
        # Inner folders first.
        self._places = tuple(sorted(places, key=lambda place: -len(place.target.parts)))
        self._private = tuple(private)
        self._running = 0
        self._lock = threading.RLock()
        for place in self._places:
            place.adopt()

    def _place(self, path: Path | str) -> TemporaryPlace | None:
        """Return the place that a path without links is in."""
        return next((p for p in self._places if p.name_of(str(path)) or p.is_inside(str(path))), None)

    def owns(self, path: Path | str) -> bool:
        """Return True if a path without links is a temporary file of the session."""
        with self._lock:
            place = self._place(path)
            return place is not None and place.has(str(path))

    def is_free(self, path: Path | str) -> bool:
        """Return True if a path that does not exist would be a temporary file of the session."""
        place = self._place(path)
        return place is not None and place.is_free(str(path))

    def wrote(self, path: Path | str) -> None:
        """Take what a tool, or a command outside, just wrote at a path that was free or the session's."""
        with self._lock:
            place = self._place(path)
            if place is not None and (name := place.name_of(str(path))) and not place.is_inside(str(path)):
                place.take(name)
                if self._running:
                    place.enter()

    def spelled(self, path: Path | str) -> str:
        """Return the path under which commands know a temporary file; other paths unchanged."""
        place = self._place(path)
        return str(path) if place is None else place.spelled(str(path))

    def name_in(self, text: str) -> None:
        """Share what the text of a call names: a command, or the path of a file."""
        with self._lock:
            for place in self._places:
                if place.name_in(text) or self._running:
                    place.share(at_rest=not self._running)

    def follow(self, command: str) -> Callable[[], None]:
        """Return a function to call when a command that starts outside now has ended.

        It takes what the command made, or replaced, under a name in its text.
        """
        targets = (re.escape(str(place.target)) for place in self._places)
        named = (m[0] for target in targets for m in re.finditer(rf"{target}/[\w.@+=,-]+", command))
        free = [path for path in dict.fromkeys(named) if self.is_free(path)]

        def ended() -> None:
            with self._lock:
                for path in free:
                    self.wrote(path)
                for place in self._places:
                    place.replaced_in(command)
                self.name_in(command)

        return ended

    def enter(self) -> None:
        """Prepare for a command that starts in the sandbox; `leave` follows when it has ended."""
        with self._lock:
            self._running += 1
            for place in self._places:
                if self._running > 1:
                    place.share(at_rest=False)
                place.enter()

    def leave(self) -> None:
        """Share what the command made."""
        with self._lock:
            self._running -= 1
            for place in self._places:
                place.share(at_rest=not self._running)

    def mounts(self) -> tuple[TemporaryMount, ...]:
        """Return what commands see now."""
        with self._lock:
            return (*(place.mount() for place in self._places), *self._private)

    def read_only_mounts(self) -> tuple[TemporaryMount, ...]:
        """Return what commands see that must change nothing: they write to folders that no other command sees."""
        with self._lock:
            return (*self._private, *(place.read_only_mount() for place in self._places))

    def close(self) -> None:
        """Share what can be shared for the last time."""
        with self._lock:
            self._running = 0
            for place in self._places:
                place.share(at_rest=True)


def temporary_targets(folder: str) -> tuple[Path, ...]:
    """Return the machine's folders for temporary files. folder: the value of TMPDIR."""
    found = [path for path in STANDARD if path.is_dir() and not path.is_symlink()]
    own = Path(os.path.realpath(folder)) if folder.startswith("/") else None
    if own is not None and own not in found and own != Path("/") and own.is_dir():
        found.append(own)
    return tuple(found)


def hides(path: str, mounts: Iterable[TemporaryMount], opened: Iterable[Path]) -> bool:
    """Return True if an existing path is in a temporary folder of the machine, and commands do not see it.

    opened: paths that they see for other reasons.
    """
    real = Path(os.path.realpath(path))
    inner = [m for m in mounts if real.is_relative_to(m.target) and real != m.target]
    if not inner:
        return False
    mount = max(inner, key=lambda m: len(m.target.parts))
    name = real.relative_to(mount.target).parts[0]
    if any(real.is_relative_to(o) or o.is_relative_to(real) for o in (*mount.shown, *opened)):
        return False
    mine, there = _lstat(mount.source / name), _lstat(mount.target / name)
    return there is not None and (mine is None or identity(mine) != identity(there))


def _is_link_to(path: Path, target: Path) -> bool:
    with suppress(OSError):
        return str(path.readlink()) == str(target)
    return False


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - names
    return []


def _is_shareable(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode))


def _replace_by_link(existing: Path, name: Path) -> None:
    """Give an existing file a second name atomically, instead of the file that has it."""
    draft = name.with_name(f".agent-{os.urandom(8).hex()}")
    os.link(existing, draft, follow_symlinks=False)
    try:
        if not stat.S_ISREG(os.lstat(draft).st_mode):
            raise OSError("not a regular file")
        draft.rename(name)
    finally:
        # A rename between two names of one file leaves both.
        with suppress(OSError):
            draft.unlink()
