"""The snapshot store of one project: its folder, its lock, and the states of the session's folders.

Single files are stored as a tree, too: each is opened once, without following links on the way.

Temporary files that a killed undo would leave behind are recorded before they are created, and removed later. Both
restoring and removing leftovers require the store's lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from agent_cli.policy.git_inspection import git_folders
from agent_cli.undo.git_store import Git, Row, StoreError, find_snapshot_git, ignored_in, objects_of
from agent_cli.undo.left_out import LeftOutRecords
from agent_cli.undo.manifest import Manifest
from agent_cli.undo.scanner import (
    BEHIND_LINK,
    MAX_LISTED_BELOW,
    TOO_BIG,
    TOO_MUCH,
    UNREADABLE,
    FileModes,
    Scanner,
    SizeLimits,
    Snapshot,
    lstat_file,
    stat_signature,
    user_index,
)
from agent_tools.fs.files import open_directory
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_atomic
from agent_tools.process.git_tree import split_paths
from agent_tools.record import Value

_NOTE, LOCK = "restoring", "lock"
_MAX_BYTES = 64 << 20


@contextmanager
def temporary_name(store: Path, folders: Iterable[str]) -> Iterator[str]:
    """Yield a name for temporary files in these folders; leftovers with that name are removed by the next start.

    store: the folder of the store.
    """
    name = f".agent-{os.urandom(8).hex()}.tmp"
    note = {"name": name, "folders": sorted(set(folders))}
    # On a full disk, an undo matters more than its record.
    with suppress(OSError):
        write_atomic(store / _NOTE, json.dumps(note).encode("ascii"))
    try:
        yield name
    finally:
        with suppress(OSError):
            (store / _NOTE).unlink()


def remove_leftovers(store: Path) -> None:
    """Remove the leftovers of a killed undo. Requires the store's lock."""
    try:
        note = json.loads(read_regular(store / _NOTE, _MAX_BYTES))
        name, folders = str(note["name"]), [str(f) for f in note["folders"]]
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        name, folders = "", []
    if re.fullmatch(r"\.agent-[0-9a-f]{16}\.tmp", name):
        for folder in folders:
            with suppress(OSError, ValueError):
                directory = open_directory(Path(folder))
                try:
                    os.unlink(name, dir_fd=directory)
                finally:
                    os.close(directory)
    (store / _NOTE).unlink(missing_ok=True)


def remove_at_start(store: Path) -> None:
    """Remove leftovers at the start, unless another process uses the store."""
    if not os.path.lexists(store / _NOTE):
        return
    with suppress(OSError):
        descriptor = open_regular(store / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_leftovers(store)
        finally:
            os.close(descriptor)


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _Found(Value):
    """The file or link at a path.

    data: its content or target; None if that is not stored.
    """

    state: os.stat_result
    data: bytes | None
    why: str = ""


def capture(git: Git, paths: Iterable[str], bounds: SizeLimits) -> Snapshot:
    """Store single files by absolute path as a snapshot; missing ones are left out. Raises StoreError.

    All of its objects are our own, and git is not started for them.
    """
    skipped: dict[str, tuple[str, str]] = {}
    files: dict[str, tuple[str, str]] = {}
    modes: dict[int, list[str]] = {}
    room = bounds.total
    for path in dict.fromkeys(paths):
        try:
            found = _look(path, bounds.file, room)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                why = BEHIND_LINK if error.errno == errno.ELOOP else UNREADABLE
                skipped[path] = (why, os.strerror(error.errno or 0))
            continue
        if found is None:
            continue
        if found.data is None:
            skipped[path] = (found.why, stat_signature(found.state))
            continue
        room -= len(found.data)
        name, mode = os.path.normpath(path).lstrip("/"), stat.S_IMODE(found.state.st_mode)
        link = stat.S_ISLNK(found.state.st_mode)
        kind = "120000" if link else "100755" if mode & 0o100 else "100644"
        if not link:
            modes.setdefault(mode, []).append(name)
        files[name] = (kind, git.keep(found.data))
    return Snapshot("/", git.keep_tree(files), FileModes.of_found(modes).stored(git), skipped)


def _look(path: str, largest: int, room: int) -> _Found | None:
    """Read a path; None if it is of no kind that is stored. Raises OSError."""
    folder, name = os.path.split(path)
    directory = open_directory(folder)
    try:
        state = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(state.st_mode) and not stat.S_ISLNK(state.st_mode):
            return None
        if state.st_size > min(largest, room):
            return _Found(state, None, TOO_BIG if state.st_size > largest else TOO_MUCH)
        if ".git" in path.lower().split("/"):
            return _Found(state, None, "inside .git")
        if stat.S_ISLNK(state.st_mode):
            return _Found(state, os.fsencode(os.readlink(name, dir_fd=directory)))
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            return _Found(state, None, UNREADABLE)
    finally:
        os.close(directory)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            return None
        data = file.read(min(largest, room) + 1)
    return _Found(state, data) if len(data) <= min(largest, room) else _Found(state, None, TOO_BIG)


LOCK_SECONDS = 20.0
# What means something else in a line of .gitignore.
_NOT_PLAIN = re.compile(r"[][*?\\ ]")
_TREE, _NOTHING = "040000", "0" * 40


class OwnData:
    """The program's own data: its state folder, without folders that it made for a session to work in.

    Nothing of it is recorded, listed or restored, as the session that runs writes it.
    """

    def __init__(self, state: Path, roots: Iterable[Path]) -> None:
        self.folder = os.path.realpath(state)
        self._rooms = [f"{root}/" for root in roots if str(root).startswith(f"{self.folder}/")]

    def __contains__(self, path: str) -> bool:
        """Return True for a file or folder of it, by its absolute path without links."""
        inner = f"{path}/"
        return inner.startswith(f"{self.folder}/") and not any(inner.startswith(room) for room in self._rooms)

    def below(self, base: str) -> str:
        """Return its path relative to a folder that contains it, with a slash at the end; "" for another folder."""
        top = f"{base.rstrip('/')}/"
        return f"{self.folder.removeprefix(top)}/" if self.folder.startswith(top) else ""


class StoreConfig(Value):
    """The location and scope of snapshots.

    folder: the project's store.
    roots: the session's folders, the project's first.
    path, home: PATH and HOME of the user's environment.
    session: ID of the session that is recorded.
    """

    folder: Path
    roots: tuple[Path, ...]
    path: str
    home: str
    session: str
    bounds: SizeLimits = SizeLimits()

    @property
    def own(self) -> OwnData:
        """The program's own data, in which the store is."""
        return OwnData(self.folder.parent.parent, self.roots)


class Store:
    """The opened store, created if missing. Raises StoreError if that fails."""

    def __init__(self, where: StoreConfig) -> None:
        self.where = where
        self.own = where.own
        self.manifest = Manifest(where.folder / "sessions" / f"{where.session}.records")
        root = where.roots[0]
        try:
            private_folder(where.folder)
            write_atomic(where.folder / "root", os.fsencode(root), sync=False)
            objects = [o for r in where.roots for o in objects_of(r)]
            program = find_snapshot_git(where.path, str(root))
            self.git = Git(where.folder / "git", program, objects, self._ignored(root))
        except OSError as error:
            raise StoreError(f"{where.folder} cannot be written: {error.strerror or error}") from None
        self.scanners = {
            str(r): Scanner(
                self.git, r, where.folder / f"index-{crc32(os.fsencode(r)):08x}", where.bounds, self.own.below(str(r))
            )
            for r in where.roots
            if _is_project(r, where.home) and str(r) not in self.own
        }
        self._held = 0

    def _ignored(self, root: Path) -> str | None:
        """Return the ignore patterns; if our state folder is inside the project, it is ignored, too."""
        ignored, own = ignored_in(root, self.where.home), self.own.below(str(root))
        if own and "\n" not in own:
            plain = _NOT_PLAIN.sub(r"\\\g<0>", own)
            return f"{ignored or ''}\n/{plain}\n"
        return ignored

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store's lock. Raises StoreError if another process does not release it."""
        if self._held:
            yield
            return
        import fcntl

        try:
            descriptor = open_regular(self.where.folder / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StoreError(f"{self.where.folder} cannot be written: {error.strerror or error}") from None
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise StoreError("another process is using the snapshots of this project") from None
                    time.sleep(0.02)
            self._held, self.git.lock = 1, descriptor
            # No other process is here, and lock files of a killed git would block the next one.
            for left in self.where.folder.glob("*.lock"):
                left.unlink(missing_ok=True)
            remove_leftovers(self.where.folder)
            yield
        except OSError as error:
            raise StoreError(f"{self.where.folder}: {error.strerror or error}") from None
        finally:
            self._held, self.git.lock = 0, -1
            os.close(descriptor)

    def shots(self, named: Iterable[str] = (), *, whole: bool = True) -> tuple[Snapshot, ...]:
        """Return snapshots of the folders (whole), and of the named files that are not in those. Raises StoreError."""
        with self.locked():
            found = [scanner.scan() for scanner in self.scanners.values()] if whole else []
            if paths := [path for path in named if path not in self.own]:
                found.append(capture(self.git, paths, self.where.bounds))
            return tuple(found)

    def record_left_out(self, shots: Iterable[Snapshot]) -> dict[str, str]:
        """Store what is not in these snapshots, which are the latest; return the record of each folder, "" if unknown.

        Raises StoreError.
        """
        records = LeftOutRecords(self.git)
        return {s.base: records.store(self.scanners[s.base].left_out(s)) for s in shots if s.base in self.scanners}

    def unversioned(self, paths: Sequence[str]) -> list[str]:
        """Return the absolute paths that are not in a whole snapshot: outside, ignored, or in a nested repository.

        Call this after a scan. Raises StoreError.
        """
        return self._filter_unknown(paths, Scanner.has)

    def untracked(self, paths: Sequence[str]) -> list[str]:
        """Return the absolute paths that no repository here tracks. Raises StoreError."""
        return self._filter_unknown(paths, Scanner.tracked)

    def _filter_unknown(self, paths: Sequence[str], known: Callable[[Scanner, list[str]], set[str]]) -> list[str]:
        """Return the absolute paths that the scanner of their folder does not know."""
        left = list(dict.fromkeys(paths))
        for base, scanner in self.scanners.items():
            prefix = base.rstrip("/") + "/"
            if below := [p.removeprefix(prefix) for p in left if p.startswith(prefix)]:
                found = {prefix + p for p in known(scanner, below)}
                left = [p for p in left if p not in found]
        return left

    def _scanner_of(self, folder: str) -> Scanner | None:
        """Return the scanner of the session's folder that contains this one."""
        return next((s for base, s in self.scanners.items() if f"{folder}/".startswith(f"{base.rstrip('/')}/")), None)

    def untracked_below(self, folder: str) -> list[str] | None:
        """Return the absolute paths of files below a folder that git does not track; a snapshot has all others.

        None if they are too many, too large, or unknown. Raises StoreError.
        """
        scanner = self._scanner_of(folder)
        if scanner is None:
            return None
        index = user_index(Path(scanner.base)) or scanner.index
        found = self._others(scanner, index, "--", folder)
        sizes = [state.st_size for p in found[: MAX_LISTED_BELOW + 1] if (state := lstat_file("/", p))]
        nested = any(p.endswith("/") for p in found)
        fits = len(found) <= MAX_LISTED_BELOW and sum(sizes) <= self.where.bounds.total
        return found if fits and not nested else None

    def ignored(self, folder: str) -> list[str]:
        """Return the ignored files below a session's folder, by absolute path, up to a limit. Raises StoreError."""
        scanner = self._scanner_of(folder)
        if scanner is None:
            return []
        return self._others(scanner, scanner.index, "--ignored", "--exclude-standard", "--", folder)[:MAX_LISTED_BELOW]

    def _others(self, scanner: Scanner, index: Path, *words: str) -> list[str]:
        """Return the absolute paths of files that are not in an index, selected by arguments of `git ls-files`."""
        out = self.git.run("ls-files", "-z", "--others", *words, tree=scanner.base, index=index)
        found = [os.path.join(scanner.base, name) for name in split_paths(out)]
        return [path for path in found if path.rstrip("/") not in self.own]

    def pin(self, before: Iterable[Snapshot], after: Iterable[Snapshot], *, whole: bool) -> dict[str, list[Row]]:
        """Copy the contents and trees that an undo needs to our own objects: the user's repository may drop them.

        Return the differing files by folder. whole: folders were scanned, not only named files, which are ours already.
        """
        ends = {s.base: s for s in after}
        pairs = [(start, ends.get(start.base, start)) for start in before] if whole else []
        trees = self.git.differences(((start.tree, end.tree) for start, end in pairs), folders=True)
        needed: set[str] = set()
        found: dict[str, list[Row]] = {}
        for start, end in pairs:
            rows = trees.get((start.tree, end.tree), [])
            found[start.base] = [row for row in rows if _TREE not in row[1:3]]
            if start.base == "/" or (start.tree, start.perms) == (end.tree, end.perms):
                continue
            needed |= {start.tree, end.tree}
            for _, _, mode, old, new in rows:
                needed |= {old, new} if mode == _TREE else {old}
            if start.perms != end.perms:
                # Files whose permissions changed are looked up in the whole tree.
                listed = self.git.run("ls-tree", "-r", "-d", end.tree).decode("ascii", "replace").splitlines()
                needed |= {row.split(maxsplit=3)[2] for row in listed}
        needed.discard(_NOTHING)
        self._copy_objects(needed)
        return found

    def copy_all(self, shots: Iterable[Snapshot]) -> None:
        """Copy everything in these states to our own objects, as the repository is about to go. Raises StoreError."""
        trees = "\n".join([*(s.tree for s in shots), ""]).encode()
        found = self.git.run("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin", feed=trees)
        sizes = self.git.have(found.decode("ascii").split())
        if sum(sizes.values()) > self.where.bounds.total:
            raise StoreError(f"the repository has more than {self.where.bounds.total / 1e6:.0f} MB")
        self._copy_objects(set(sizes))

    def _copy_objects(self, oids: set[str]) -> None:
        if missing := self.git.lacks(oids):
            self.git.pack(missing)

    def head(self) -> str:
        """Return the commit checked out in the project's repository, read from its files; "" for none."""
        folders = git_folders(self.where.roots[0])
        for folder in folders[-1:]:
            try:
                text = read_regular(folder / "HEAD", 4096).decode("ascii", "replace").strip()
                if not text.startswith("ref: "):
                    return text
                if not text.startswith("ref: refs/") or ".." in text:
                    return ""
                for candidate in (folder, folders[0]):
                    if os.path.isfile(candidate / text[5:]):  # noqa: PTH113 - as elsewhere
                        return read_regular(candidate / text[5:], 4096).decode("ascii", "replace").strip()
            except (OSError, ValueError):
                return ""
        return ""


def _is_project(root: Path, home: str) -> bool:
    """Return True if a folder is scanned as a whole; the home folder and those above it are not."""
    return not (home and Path(home).is_relative_to(root)) and root != Path("/")
