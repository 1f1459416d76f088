"""The files of a folder: list them with their signatures, and copy them one by one.

Folders named .git are left out: the copy has git folders of its own (`git_copy`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agent_tools.fs.files import open_directory

# `ioctl` of Linux that shares the blocks of a file, on file systems with copy on write.
_CLONE_NUMBER = 0x40049409
_CHUNK_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeEntry(NamedTuple):
    """A file, folder or link.

    kind: "file", "folder" or "link". mode: permission bits; 0 for a link. target: of a link.
    size, changed, inode: of a file; if they and the mode are as before, the content is too. changed: the times of the
        content and of the status, in nanoseconds.
    """

    kind: str
    mode: int
    target: str = ""
    size: int = 0
    changed: tuple[int, int] = (0, 0)
    inode: int = 0


class NotCopied(NamedTuple):
    """A path that cannot be copied, and why."""

    path: str
    why: str


def entry_of(state: os.stat_result, path: str) -> TreeEntry | None:
    """Return what lies at a path with this state; None for what cannot be copied, such as a socket."""
    mode = stat.S_IMODE(state.st_mode)
    if stat.S_ISREG(state.st_mode):
        return TreeEntry("file", mode, "", state.st_size, (state.st_mtime_ns, state.st_ctime_ns), state.st_ino)
    if stat.S_ISDIR(state.st_mode):
        return TreeEntry("folder", mode)
    return TreeEntry("link", 0, str(Path(path).readlink())) if stat.S_ISLNK(state.st_mode) else None


def look(root: Path, path: str) -> TreeEntry | None:
    """Return what lies at a path below a root now; None for nothing."""
    place = os.path.join(root, path)
    try:
        return entry_of(os.lstat(place), place)
    except (FileNotFoundError, NotADirectoryError):
        return None


def scan(root: Path, left_out: Collection[str] = (), skipped: list[NotCopied] | None = None) -> dict[str, TreeEntry]:
    """Return all below a root by path, a folder before what is in it.

    left_out: paths that are not looked at. skipped: collects what cannot be read, or cannot be copied.
    """
    found: dict[str, TreeEntry] = {}
    ways = [""]
    while ways:
        way = ways.pop()
        try:
            with os.scandir(root / way) as names:
                inside = sorted(names, key=lambda item: item.name)
        except OSError as error:
            if skipped is not None:
                skipped.append(NotCopied(way, error.strerror or "cannot be read"))
            continue
        for item in inside:
            path = f"{way}/{item.name}" if way else item.name
            if item.name == ".git" or path in left_out:
                continue
            with suppress(FileNotFoundError):
                entry = entry_of(item.stat(follow_symlinks=False), item.path)
                if entry is not None:
                    found[path] = entry
                elif skipped is not None:
                    skipped.append(NotCopied(path, "not a file, folder or link"))
                if entry is not None and entry.kind == "folder":
                    ways.append(path)
    return found


def git_paths(root: Path, folders: Collection[str]) -> Iterator[str]:
    """Yield the paths named .git in a root and the given folders below it."""
    for folder in ("", *folders):
        path = f"{folder}/.git" if folder else ".git"
        if os.path.lexists(root / path):
            yield path


def copy_entry(source: Path, target: Path, path: str, entry: TreeEntry) -> TreeEntry:
    """Copy what lies at a path below one root to another, where nothing is; return what is there then.

    Times and permissions are kept; root keeps owners, too. Raises OSError.
    """
    to = target / path
    if entry.kind == "link":
        to.symlink_to(entry.target)
        return entry
    if entry.kind == "folder":
        to.mkdir(0o700)
        _keep_owner(os.lstat(source / path), str(to))
        to.chmod(entry.mode)
        return entry
    with open_entry(source, path) as file:
        state = os.fstat(file.fileno())
        made = os.open(to, _CREATE, 0o600)
        try:
            _copy_content(file.fileno(), made)
            _keep_owner(state, made)
            os.fchmod(made, stat.S_IMODE(state.st_mode))
            os.utime(made, ns=(state.st_atime_ns, state.st_mtime_ns))
            found = entry_of(os.fstat(made), str(to))
        finally:
            os.close(made)
    assert found is not None
    return found


def open_entry(root: Path, path: str) -> BinaryIO:
    """Open a file below a root for reading, through no link. Raises OSError."""
    place = root / path
    directory = open_directory(place.parent)
    try:
        descriptor = os.open(place.name, _READ, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ESTALE, "it was replaced", path)
    return os.fdopen(descriptor, "rb", 0)


def read_entry(root: Path, path: str, limit: int) -> bytes | None:
    """Return the content of a file below a root; None if it is larger than the limit. Raises OSError."""
    with open_entry(root, path) as file:
        return file.read() if os.fstat(file.fileno()).st_size <= limit else None


def _copy_content(source: int, target: int) -> None:
    """Copy the content of an open file, sharing its blocks if the file system can. Raises OSError."""
    with suppress(OSError, ImportError):
        import fcntl

        fcntl.ioctl(target, _CLONE_NUMBER, source)
        return
    while part := os.read(source, _CHUNK_BYTES):
        view = memoryview(part)
        while view:
            view = view[os.write(target, view) :]


def _keep_owner(state: os.stat_result, target: str | int) -> None:
    if os.geteuid() == 0:
        os.chown(target, state.st_uid, state.st_gid)


def shares_blocks(folder: Path) -> bool:
    """Return True if files in a folder can be copied by sharing their blocks."""
    import fcntl

    names = [folder / f".clone-{n}" for n in range(2)]
    try:
        with names[0].open("wb+") as one, names[1].open("wb") as other:
            one.write(b"x" * 4096)
            one.flush()
            fcntl.ioctl(other, _CLONE_NUMBER, one.fileno())
        return True
    except OSError:
        return False
    finally:
        for name in names:
            name.unlink(missing_ok=True)
