"""Watch for protected names that do not exist, while commands run that could create them.

A mount can only protect what exists, and whatever is created as a mount point is seen by every program. So a missing
name is left missing; when it appears, what nobody knows (`appeared`) is moved away at once, and once more when the
command has ended. While git changes the work tree, nothing is moved: its files are known only when it is done.

Settings and the like are read through `steady.read_steadily`, so that nothing takes effect in the moment before it is
moved, also in other processes of this user: they find the names that are watched for in a folder that they share.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agent_tools.fs import own_files
from agent_tools.fs.safe_files import acquire, open_regular, private_folder, read_regular
from agent_tools.sandbox import appeared
from agent_tools.sandbox.appeared import Appeared
from agent_tools.sandbox.conditions import RECORDS, ChangingSettingsError, Moved
from agent_tools.sandbox.inotify import Inotify

T = TypeVar("T")
# Seconds that git may take to change a work tree while a command runs.
GIT_SECONDS = 60.0
# Seconds between checks while git is busy, and where the kernel does not report changes.
_BUSY_SECONDS, _POLL_SECONDS = 0.02, 0.2
# Times that names are examined anew because something changed meanwhile.
_MAX_ROUNDS = 20
# Seconds that a reader waits for what appeared to be moved.
_READER_SECONDS = 5.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_RECORD_BYTES = 1 << 20
Names = Mapping[Path, frozenset[str]]


class Watched:
    """The names that one command must not create."""

    def __init__(self, watch: Watch, names: Names) -> None:
        self._watch = watch
        self.names = names
        self._moved: list[Moved] = []
        self._reported = 0

    def concerns(self, moved: Moved) -> bool:
        path = str(moved.path)
        for root, names in self.names.items():
            below = path.removeprefix(f"{root}/")
            if below != path and any(f"{below}/".startswith(f"{n}/") or n.startswith(f"{below}/") for n in names):
                return True
        return False

    def add(self, moved: Moved) -> None:
        if moved not in self._moved:
            self._moved.append(moved)

    def take(self) -> tuple[Moved, ...]:
        """Return what was moved since the last call."""
        found = tuple(self._moved[self._reported :])
        self._reported += len(found)
        return found

    @property
    def renamed(self) -> tuple[Moved, ...]:
        """What was only renamed in its place, as it could not be copied to another file system."""
        return tuple(moved for moved in self._moved if moved.why and moved.to != moved.path)

    def finish(self, moved: Moved, now: Moved) -> None:
        """Replace what was only renamed by what has become of it, or report that as well."""
        place = self._moved.index(moved)
        if place < self._reported:
            self._moved.append(now)
        else:
            self._moved[place] = now

    def close(self) -> None:
        """Check for the last time, after the command has ended."""
        self._watch.end(self)


class Watch:
    """The running commands of this process, and a thread that reacts to what appears. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._live: list[Watched] = []
        self._inotify: Inotify | None = None
        self._thread: threading.Thread | None = None
        self._wake_reader, self._wake_writer = -1, -1
        # The workspaces by the numbers of their watches, and the numbers of their own directories.
        self._roots: dict[int, Path] = {}
        self._tops: dict[Path, int] = {}
        # Workspaces in which git is busy, and since when.
        self._busy: dict[Path, float] = {}
        self._record = _Record()

    def begin(self, missing: Iterable[tuple[Path, str]]) -> Watched:
        """Watch for missing names, each of a workspace, until the result is closed."""
        names: dict[Path, set[str]] = {}
        for root, name in missing:
            names.setdefault(root, set()).add(name)
        with self._lock:
            for root in names:
                self._sweep(root)
                # What another running command must not create is not to be left alone for having just been created.
                names[root] |= self._names(root)
                top = _open(root)
                if top >= 0:
                    for name in appeared.present(top, names[root])[0]:
                        appeared.remove_leftover(top, name)
                    os.close(top)
            watched = Watched(self, {root: frozenset(found) for root, found in names.items()})
            self._live.append(watched)
            self._record.publish(self._all_names())
            self._ensure_thread()
            for root in names:
                # Also starts to watch its directory.
                self._sweep(root, initial=True)
        return watched

    def end(self, watched: Watched) -> None:
        with self._lock:
            if watched not in self._live:
                return
            for root in watched.names:
                alone = not any(root in other.names for other in self._live if other is not watched)
                self._sweep(root, final=alone)
            for moved in watched.renamed:
                self._finish(watched, moved)
            self._live.remove(watched)
            for root in watched.names:
                if not self._names(root):
                    self._forget(root)
            self._record.publish(self._all_names())

    def _finish(self, watched: Watched, moved: Moved) -> None:
        """Try once more to move what was still being written, for example, when it could only be renamed."""
        root = next((root for root in watched.names if moved.to.is_relative_to(root)), None)
        top = _open(root) if root is not None else -1
        if root is None or top < 0:
            return
        with suppress(OSError):
            folder = _new_folder()
            if now := appeared.finish_move(top, root, moved, folder):
                watched.finish(moved, now)
            with suppress(OSError):
                folder.rmdir()  # if it could not be moved
        os.close(top)

    def settle(self, root: Path) -> bool:
        """Move away what appeared in a workspace; return False if git must finish first."""
        with self._lock:
            return not self._names(root) or self._sweep(root)

    def names(self, root: Path) -> frozenset[str]:
        """Return the names that no running command, also of another process, may create in a workspace."""
        with self._lock:
            return self._names(root) | self._record.others(root)

    def _names(self, root: Path) -> frozenset[str]:
        return frozenset().union(*(watched.names.get(root, ()) for watched in self._live))

    def _all_names(self) -> Names:
        return {root: self._names(root) for watched in self._live for root in watched.names}

    def _sweep(self, root: Path, *, final: bool = False, initial: bool = False) -> bool:
        """Move away what nobody knows; return False if that must wait for git.

        final: all commands have ended, so nothing is waited for. initial: nothing has appeared yet.
        """
        names, top = self._names(root), _open(root)
        if top < 0:
            return True
        try:
            for _ in range(_MAX_ROUNDS):
                names_found, folders = appeared.present(top, names)
                found = Appeared((), tuple(folders))
                if names_found and not initial:
                    with own_files.exclusive():
                        before = appeared.git_state(root)
                        found = appeared.examine(top, root, names)
                        after = appeared.git_state(root)
                        if found.unknown and not final and (before.busy or after.busy) and self._may_wait(root):
                            return False
                        if found.unknown and before != after:
                            continue
                        self._take_away(top, root, found.unknown)
                if final or not self._follow(top, root, found):
                    break
            self._busy.pop(root, None)
            return True
        finally:
            os.close(top)

    def _may_wait(self, root: Path) -> bool:
        """Return True if git may still change the work tree."""
        since = self._busy.setdefault(root, time.monotonic())
        self._wake()
        return time.monotonic() < since + GIT_SECONDS

    def _take_away(self, top: int, root: Path, paths: Sequence[str]) -> None:
        if not paths:
            return
        try:
            folder = _new_folder()
        except OSError as error:
            away = [Moved(root / path, root / path, error.strerror or str(error)) for path in paths]
        else:
            away = appeared.move_away(top, root, paths, folder)
            with suppress(OSError):
                folder.rmdir()  # if all of it has vanished
        for moved in away:
            for watched in self._live:
                if watched.concerns(moved):
                    watched.add(moved)

    def _follow(self, top: int, root: Path, found: Appeared) -> bool:
        """Watch what is known, and where names may appear; return True if any of it is new, to be examined again."""
        if self._inotify is None:
            return False
        before = len(self._roots)
        with suppress(OSError):
            self._tops[root] = number = self._inotify.add(top)
            self._roots[number] = root
        for path in found.known:
            with suppress(OSError):
                descriptor = appeared.open_path(top, path)
                try:
                    self._roots[self._inotify.add(descriptor, content=True)] = root
                finally:
                    os.close(descriptor)
        return len(self._roots) > before

    def _forget(self, root: Path) -> None:
        self._busy.pop(root, None)
        self._tops.pop(root, None)
        for number in [number for number, of in self._roots.items() if of == root]:
            del self._roots[number]
            if self._inotify is not None:
                self._inotify.remove(number)

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        # The first command, also of a process that was forked from one with commands.
        self._inotify, self._tops, self._roots = None, {}, {}
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError, AttributeError):
            self._inotify = Inotify()
        self._thread = threading.Thread(target=self._run, name="sandbox-watch", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if threading.current_thread() is not self._thread:
            with suppress(OSError):
                os.write(self._wake_writer, b"!")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if self._inotify is not None:
            poll.register(self._inotify.fileno(), select.POLLIN)
        while True:
            with self._lock:
                seconds = _BUSY_SECONDS if self._busy else None if self._inotify is not None else _POLL_SECONDS
            poll.poll(None if seconds is None else seconds * 1000)
            with suppress(OSError):
                os.read(self._wake_reader, 1024)
            with self._lock:
                for root in self._changed():
                    with suppress(OSError):
                        self._sweep(root)

    def _changed(self) -> set[Path]:
        """Return the workspaces in which a name may have appeared."""
        everywhere = {root for watched in self._live for root in watched.names}
        found = set(self._busy) & everywhere
        if self._inotify is None:
            return everywhere
        for number, name in self._inotify.read():
            if number < 0:
                return everywhere
            root = self._roots.get(number)
            if root is not None and (root in found or self._is_of_interest(number, root, name)):
                found.add(root)
        return found & everywhere

    def _is_of_interest(self, number: int, root: Path, name: str) -> bool:
        if self._tops.get(root) != number:
            return True
        # The file system may ignore case.
        return name.casefold() in {n.partition("/")[0].casefold() for n in self._names(root)}


class _Record:
    """The names that the processes of this user watch for: a file for each process, locked while commands run."""

    def __init__(self) -> None:
        self._file = -1
        self._path: Path | None = None
        self._published: Names = {}

    def publish(self, names: Names) -> None:
        """Tell other processes what is watched for; nothing if `names` is empty."""
        folder = own_files.shared_folder()
        if folder is None:
            return
        path = folder / RECORDS / f"{os.getpid()}.json"
        with suppress(OSError):
            if self._path != path:
                if not names:
                    return
                self._open(path)
            if not names:
                fcntl.flock(self._file, fcntl.LOCK_UN)
                return
            acquire(self._file)
            if names != self._published:
                data = json.dumps({os.fspath(root): sorted(found) for root, found in names.items()}).encode()
                os.pwrite(self._file, data.ljust(os.fstat(self._file).st_size), 0)
                self._published = dict(names)

    def _open(self, path: Path) -> None:
        import atexit

        if self._file >= 0:
            os.close(self._file)
        private_folder(path.parent)
        self._file = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._path, self._published = path, {}
        atexit.register(path.unlink, missing_ok=True)

    def others(self, root: Path) -> frozenset[str]:
        """Return what other processes watch for in a workspace."""
        folder = own_files.shared_folder()
        found: set[str] = set()
        with suppress(OSError):
            for entry in os.scandir(folder / RECORDS) if folder is not None else ():
                if entry.name != f"{os.getpid()}.json":
                    found.update(_locked_names(Path(entry.path), root))
        return frozenset(found)


def _locked_names(path: Path, root: Path) -> Iterable[str]:
    """Return the names that the process with this record watches for now; remove the record of one that has ended."""
    with suppress(OSError):
        file = open_regular(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if not os.path.exists(f"/proc/{path.stem}"):  # noqa: PTH110
                path.unlink()
        except BlockingIOError:
            for _ in range(3):
                with suppress(OSError, ValueError):
                    names: list[str] = json.loads(read_regular(path, _MAX_RECORD_BYTES)).get(os.fspath(root), [])
                    return names
        finally:
            os.close(file)
    return ()


WATCH = Watch()


def read_watched(root: Path, names: frozenset[str], read: Callable[[], T]) -> T:
    """Return what `read` returns, once none of the names has just been created; see `read_steadily`."""
    top, until = _open(root), time.monotonic() + _READER_SECONDS
    if top < 0:
        return read()
    try:
        while time.monotonic() < until:
            with _changes(top, root, names) as changed:
                if WATCH.settle(root) and not appeared.examine(top, root, names).unknown:
                    result = read()
                    if not changed():
                        return result
            time.sleep(_BUSY_SECONDS)
        shown = ", ".join(appeared.present(top, names)[0])
    finally:
        os.close(top)
    raise ChangingSettingsError(f"A running command is changing {shown or 'settings'} in {root}. Try again later.")


@contextmanager
def _changes(top: int, root: Path, names: Iterable[str]) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether a name has appeared, or a known one changed, since the block began."""
    known = appeared.examine(top, root, names).known
    try:
        inotify = Inotify()
    except (OSError, AttributeError):
        before = _signature(top, names, known)
        yield lambda: _signature(top, names, known) != before
        return
    try:
        first = {name.partition("/")[0].casefold() for name in names}
        number = inotify.add(top)
        for path in known:
            with suppress(OSError):
                descriptor = appeared.open_path(top, path)
                try:
                    inotify.add(descriptor, content=True)
                finally:
                    os.close(descriptor)
        yield lambda: any(watch != number or name.casefold() in first for watch, name in inotify.read())
    finally:
        inotify.close()


def _signature(top: int, names: Iterable[str], known: Iterable[str]) -> list[tuple[int, int, int] | None]:
    found: list[tuple[int, int, int] | None] = []
    for path in (*names, *known):
        try:
            status = os.stat(path, dir_fd=top, follow_symlinks=False)
            found.append((status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
        except OSError:
            found.append(None)
    return found


def _open(root: Path) -> int:
    """Open a workspace; return -1 if that is not possible."""
    try:
        return os.open(root, _FOLDER)
    except OSError:
        return -1


def _new_folder() -> Path:
    """Return a new folder for what is moved away."""
    shared = own_files.shared_folder()
    if shared is None:
        return Path(tempfile.mkdtemp(prefix="agent-moved-"))
    base = shared.parent / "moved"
    private_folder(base)
    return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=base))
