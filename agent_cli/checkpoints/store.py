"""The store of one project's snapshots: its folder, its lock, and the states of the folders that are worked in.

The state of single files as a tree in the store: each is opened once, with no link followed on the way.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from agent_cli.checkpoints.git_store import Git, StoreError, find_snapshot_git, ignored_in, objects_of
from agent_cli.checkpoints.leftovers import LOCK, remove_leftovers
from agent_cli.checkpoints.manifest import Manifest
from agent_cli.checkpoints.scanner import (
    MOST_BELOW,
    TOO_BIG,
    TOO_MUCH,
    UNREADABLE,
    FileModes,
    Scanner,
    SizeLimits,
    Snapshot,
    look_at_file,
    stat_signature,
    user_index,
)
from agent_cli.permissions.git.standing import git_folders
from agent_tools.fs.nofollow import open_directory
from agent_tools.fs.private import private_folder, write_whole
from agent_tools.fs.safe_read import open_regular, read_regular
from agent_tools.record import Value

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _Found(Value):
    """What is at a path: a file or a link. data: its content, or where it leads; None where that is not kept."""

    state: os.stat_result
    data: bytes | None
    why: str = ""


def capture(git: Git, index: Path, paths: Iterable[str], bounds: SizeLimits) -> Snapshot:
    """The state of single files anywhere, by absolute path; what is not there is not in it. Raises StoreError."""
    skipped: dict[str, tuple[str, str]] = {}
    rows: list[bytes] = []
    modes: dict[str, int | None] = {}
    room = bounds.total
    for path in dict.fromkeys(paths):
        try:
            found = _look(path, bounds.file, room)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                skipped[path] = (UNREADABLE, os.strerror(error.errno or 0))
            continue
        if found is None:
            continue
        if found.data is None:
            skipped[path] = (found.why, stat_signature(found.state))
            continue
        room -= len(found.data)
        name, mode = path.lstrip("/"), stat.S_IMODE(found.state.st_mode)
        modes[name] = None if stat.S_ISLNK(found.state.st_mode) else mode
        kind = "120000" if modes[name] is None else "100755" if mode & 0o100 else "100644"
        rows.append(f"{kind} {git.keep(found.data)} 0\t".encode() + os.fsencode(name) + b"\0")
    index.unlink(missing_ok=True)
    if rows:
        git.run("update-index", "-z", "--add", "--replace", "--index-info", feed=b"".join(rows), index=index)
    tree = git.run("write-tree", index=index).decode().strip()
    return Snapshot("/", tree, FileModes.of_found(modes).stored(git), skipped)


def _look(path: str, largest: int, room: int) -> _Found | None:
    """What is at a path; None for nothing that is kept. Raises OSError."""
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
_TREE, _NOTHING = "040000", "0" * 40


class StoreConfig(Value):
    """Where snapshots are kept, and of what. folder: the project's store. roots: the folders worked in, the project's
    first. path and home: the variables of the user's environment. session: whose records these are."""

    folder: Path
    roots: tuple[Path, ...]
    path: str
    home: str
    session: str
    bounds: SizeLimits = SizeLimits()


class Store:
    """Opens the store, and makes it where it is missing. Raises StoreError where that cannot be."""

    def __init__(self, where: StoreConfig) -> None:
        self.where = where
        self.manifest = Manifest(where.folder / "sessions" / f"{where.session}.records")
        root = where.roots[0]
        try:
            private_folder(where.folder)
            write_whole(where.folder / "root", os.fsencode(root), sync=False)
            objects = [o for r in where.roots for o in objects_of(r)]
            program = find_snapshot_git(where.path, str(root))
            self.git = Git(where.folder / "git", program, objects, self._ignored(root))
        except OSError as error:
            raise StoreError(f"{where.folder} cannot be written: {error.strerror or error}") from None
        self.scanners = {
            str(r): Scanner(self.git, r, where.folder / f"index-{crc32(os.fsencode(r)):08x}", where.bounds)
            for r in where.roots
            if _is_project(r, where.home)
        }
        self._held = 0

    def _ignored(self, root: Path) -> str | None:
        """Where our own state is kept inside the project, it is none of its files."""
        ignored, state = ignored_in(root, self.where.home), self.where.folder.parent.parent
        if state.is_relative_to(root) and state != root:
            return f"{ignored or ''}\n/{state.relative_to(root)}/\n"
        return ignored

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Have the store alone. Raises StoreError where another process does not let go of it."""
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
                        raise StoreError("another process is at the snapshots of this project") from None
                    time.sleep(0.02)
            self._held, self.git.lock = 1, descriptor
            # Nobody else is here: what a git left that was killed is in the way of the next one.
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
        """The folders as they are now (whole), and the named files that are not among them. Raises StoreError."""
        with self.locked():
            found = [scanner.scan() for scanner in self.scanners.values()] if whole else []
            if paths := list(named):
                found.append(capture(self.git, self.where.folder / "index-named", paths, self.where.bounds))
            return tuple(found)

    def unversioned(self, paths: Sequence[str]) -> list[str]:
        """Those of the absolute paths that a whole snapshot does not have: outside, ignored, or in a nested repository.

        Called after a scan. Raises StoreError.
        """
        return self._without(paths, Scanner.has)

    def untracked(self, paths: Sequence[str]) -> list[str]:
        """Those of the absolute paths that no repository here tracks. Raises StoreError."""
        return self._without(paths, Scanner.tracked)

    def _without(self, paths: Sequence[str], known: Callable[[Scanner, list[str]], set[str]]) -> list[str]:
        """The absolute paths without those that the scanner of their folder knows."""
        left = list(dict.fromkeys(paths))
        for base, scanner in self.scanners.items():
            prefix = base.rstrip("/") + "/"
            if below := [p.removeprefix(prefix) for p in left if p.startswith(prefix)]:
                found = {prefix + p for p in known(scanner, below)}
                left = [p for p in left if p not in found]
        return left

    def _scanner_of(self, folder: str) -> Scanner | None:
        """The scanner of the folder that is worked in and that this one is, or is below."""
        return next((s for base, s in self.scanners.items() if f"{folder}/".startswith(f"{base.rstrip('/')}/")), None)

    def untracked_below(self, folder: str) -> list[str] | None:
        """The files below a folder that git does not track, by absolute path: a snapshot has all the others.

        None where they are too many, too large, or not known. Raises StoreError.
        """
        scanner = self._scanner_of(folder)
        if scanner is None:
            return None
        index = user_index(Path(scanner.base)) or scanner.index
        found = self._others(scanner, index, "--", folder)
        sizes = [state.st_size for p in found[: MOST_BELOW + 1] if (state := look_at_file("/", p))]
        nested = any(p.endswith("/") for p in found)
        fits = len(found) <= MOST_BELOW and sum(sizes) <= self.where.bounds.total
        return found if fits and not nested else None

    def ignored(self, folder: str) -> list[str]:
        """The ignored files below a folder that is worked in, by absolute path; not too many. Raises StoreError."""
        scanner = self._scanner_of(folder)
        if scanner is None:
            return []
        return self._others(scanner, scanner.index, "--ignored", "--exclude-standard", "--", folder)[:MOST_BELOW]

    def _others(self, scanner: Scanner, index: Path, *words: str) -> list[str]:
        """The absolute paths of files that an index does not have, chosen by words of `git ls-files`."""
        out = self.git.run("ls-files", "-z", "--others", *words, tree=scanner.base, index=index)
        return [os.path.join(scanner.base, os.fsdecode(n)) for n in out.split(b"\0") if n]

    def pin(self, before: Iterable[Snapshot], after: Iterable[Snapshot]) -> None:
        """Keep what an undo needs, old contents and trees, as our own: the user's repository may drop its objects."""
        ends = {s.base: s for s in after}
        needed: set[str] = set()
        for start in before:
            end = ends.get(start.base, start)
            if (start.tree, start.perms) == (end.tree, end.perms):
                continue
            needed |= {start.tree, end.tree}
            out = self.git.run("diff-tree", "-r", "-t", "--no-renames", start.tree, end.tree)
            for row in out.decode("ascii", "replace").splitlines():
                _, mode, old, new, _ = row.split(maxsplit=4)
                needed |= {old, new} if mode == _TREE else {old}
            if start.perms != end.perms:
                # What has other permissions only is looked up in the whole tree.
                rows = self.git.run("ls-tree", "-r", "-d", end.tree).decode("ascii", "replace").splitlines()
                needed |= {row.split(maxsplit=3)[2] for row in rows}
        needed.discard(_NOTHING)
        self._own(needed)

    def keep_whole(self, shots: Iterable[Snapshot]) -> None:
        """Keep everything in these states as our own: the repository is about to go. Raises StoreError."""
        trees = "\n".join([*(s.tree for s in shots), ""]).encode()
        found = self.git.run("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin", feed=trees)
        sizes = self.git.have(found.decode("ascii").split())
        if sum(sizes.values()) > self.where.bounds.total:
            raise StoreError(f"the repository has more than {self.where.bounds.total / 1e6:.0f} MB")
        self._own(set(sizes))

    def _own(self, oids: set[str]) -> None:
        if missing := sorted(oids - self.git.have(oids, own=True).keys()):
            self.git.pack(missing)

    def head(self) -> str:
        """The commit that the project's repository is at, read from its files; "" where there is none."""
        folders = git_folders(self.where.roots[0])
        for folder in folders[-1:]:
            try:
                text = read_regular(folder / "HEAD", 4096).decode("ascii", "replace").strip()
                if not text.startswith("ref: "):
                    return text
                if not text.startswith("ref: refs/") or ".." in text:
                    return ""
                for place in (folder, folders[0]):
                    if os.path.isfile(place / text[5:]):  # noqa: PTH113 - as elsewhere
                        return read_regular(place / text[5:], 4096).decode("ascii", "replace").strip()
            except (OSError, ValueError):
                return ""
        return ""


def _is_project(root: Path, home: str) -> bool:
    """Whether a folder is looked at as a whole: the home folder and those above it are no project."""
    return not (home and Path(home).is_relative_to(root)) and root != Path("/")
