"""The files of a folder: list them with their signatures, and copy them one by one.

Folders named .git are left out: the copy has git folders of its own (`git_copy`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agent_tools.fs.files import open_directory

# `ioctl` of Linux that shares the blocks of a file, on file systems with copy on write.
_CLONE_NUMBER = 0x40049409
_CHUNK_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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


def entry_of(state: os.stat_result, path: str, directory: int | None = None) -> TreeEntry | None:
    """Return what lies at a path with this state; None for what cannot be copied, such as a socket."""
    mode = stat.S_IMODE(state.st_mode)
    if stat.S_ISREG(state.st_mode):
        return TreeEntry("file", mode, "", state.st_size, (state.st_mtime_ns, state.st_ctime_ns), state.st_ino)
    if stat.S_ISDIR(state.st_mode):
        return TreeEntry("folder", mode)
    return TreeEntry("link", 0, os.readlink(path, dir_fd=directory)) if stat.S_ISLNK(state.st_mode) else None


@contextmanager
def _folder_of(root: Path, path: str, *, change: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that a path below a root is in, through no link; yield it, and the name in it. Raises OSError.

    change: also a read-only folder of the user's own lets its names be changed meanwhile.
    """
    place = root / path
    directory = open_directory(place.parent)
    try:
        state = os.fstat(directory)
        locked = change and os.geteuid() == state.st_uid != 0 and state.st_mode & 0o300 != 0o300
        if locked:
            _chmod(directory, stat.S_IMODE(state.st_mode) | 0o300)
        try:
            yield directory, place.name
        finally:
            if locked:
                _chmod(directory, stat.S_IMODE(state.st_mode))
    finally:
        os.close(directory)


def _chmod(directory: int, mode: int) -> None:
    Path(f"/proc/self/fd/{directory}").chmod(mode)  # fchmod refuses a folder that is open without rights


def look(root: Path, path: str) -> TreeEntry | None:
    """Return what lies at a path below a root now; None for nothing, also if one of its folders is a link."""
    try:
        with _folder_of(root, path) as (directory, name):
            return entry_of(os.lstat(name, dir_fd=directory), name, directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


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
    with _folder_of(target, path, change=True) as (directory, name):
        if entry.kind == "link":
            os.symlink(entry.target, name, dir_fd=directory)
            return entry
        if entry.kind == "folder":
            os.mkdir(name, entry.mode, dir_fd=directory)
            if os.geteuid() == 0:
                with _folder_of(source, path) as (other, same):
                    state = os.lstat(same, dir_fd=other)
                os.chown(name, state.st_uid, state.st_gid, dir_fd=directory, follow_symlinks=False)
            set_mode(target, path, entry.mode)
            return entry
        state = _copy_file(source, path, directory, name)
    found = entry_of(state, name)
    assert found is not None
    return found


def replace_entry(source: Path, target: Path, path: str, before: TreeEntry | None) -> None:
    """Copy a file below one root over what lies there below another, whole or not at all. Raises OSError.

    before: the file that lies there, or None.
    """
    with _folder_of(target, path, change=True) as (directory, name):
        made = f".agent-{os.urandom(8).hex()}.tmp"
        _copy_file(source, path, directory, made)
        if look(target, path) != before:
            os.unlink(made, dir_fd=directory)
            raise OSError(errno.ESTALE, "it changed a moment ago", path)
        os.rename(made, name, src_dir_fd=directory, dst_dir_fd=directory)


def _copy_file(source: Path, path: str, directory: int, name: str) -> os.stat_result:
    """Copy a file below a root to a new name in an open folder; return its state. Raises OSError."""
    with open_entry(source, path) as file:
        made = os.open(name, _CREATE, 0o600, dir_fd=directory)
        try:
            return _fill(file.fileno(), made)
        except BaseException:  # half a file would be taken for one that somebody shortened
            os.unlink(name, dir_fd=directory)
            raise
        finally:
            os.close(made)


def _fill(source: int, target: int) -> os.stat_result:
    """Let an open file be as another one; return its state then. Raises OSError."""
    state = os.fstat(source)
    _copy_content(source, target)
    if os.geteuid() == 0:
        os.fchown(target, state.st_uid, state.st_gid)
    os.fchmod(target, stat.S_IMODE(state.st_mode))
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
    return os.fstat(target)


def set_mode(root: Path, path: str, mode: int) -> None:
    """Set the permissions of a folder below a root. Raises OSError."""
    with _folder_of(root, path) as (directory, name):
        folder = os.open(name, _FOLDER, dir_fd=directory)
    try:
        _chmod(folder, mode)
    finally:
        os.close(folder)


def remove_entry(root: Path, path: str) -> None:
    """Remove a file, a link or an empty folder below a root. Raises OSError."""
    with _folder_of(root, path, change=True) as (directory, name):
        if stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)


def open_entry(root: Path, path: str) -> BinaryIO:
    """Open a file below a root for reading, through no link. Raises OSError."""
    with _folder_of(root, path) as (directory, name):
        descriptor = os.open(name, _READ, dir_fd=directory)
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
