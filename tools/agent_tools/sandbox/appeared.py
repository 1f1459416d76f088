"""Protected names that appeared in a workspace while a command ran: find them, and move away what nobody knows.

What is known stays: a file with the content that git's index or HEAD has for it, as after a checkout, and a file that
this program wrote itself. Everything else may be the command's own and is moved to a folder outside the workspace. All
paths are opened relative to the workspace, without following a link, since the command may still be running.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from agent_tools.fs import own_files, protected_names
from agent_tools.fs.safe_files import private_folder
from agent_tools.process.guarded_git import Checkout, GitError, checked_git, find_git
from agent_tools.record import Value
from agent_tools.sandbox.conditions import Moved
from agent_tools.sandbox.profile import find_repository

# Larger files, and more of them, are not compared: they are unknown.
_MAX_FILE_BYTES = 4 << 20
_MAX_ENTRIES = 2_000
_MAX_DEPTH = 32
# Largest total size of what is copied to another file system.
_MAX_COPIED_BYTES = 256 << 20
_GIT_SECONDS = 10.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINK, _SUBMODULE = "120000", "160000"


class Appeared(Value):
    """What appeared under protected names.

    unknown: paths of what nobody knows.
    known: directories in which more may appear, and files that may change.
    """

    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class _NotCopiedError(Exception):
    """A file or tree that is not copied to another file system; its text is the reason."""


class _TooLargeError(Exception):
    """There is more than is examined or copied."""


def present(top: int, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what exists of the names below an open directory, and directories in which the others could appear.

    A link in the place of a directory counts as the name: it would lead there.
    """
    found: dict[str, None] = {}
    folders: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            try:
                # A link at an earlier part would have ended the loop.
                mode = os.stat(path, dir_fd=top, follow_symlinks=False).st_mode
            except OSError:
                break
            if count == len(parts) or stat.S_ISLNK(mode):
                found[path] = None
                break
            folders[path] = None
    return list(found), list(folders)


def examine(top: int, root: Path, names: Iterable[str]) -> Appeared:
    """Tell what is known of the names that exist below the open directory of `root`."""
    found, folders = present(top, names)
    if not found:
        return Appeared((), tuple(folders))
    known = _Known(root, found)
    unknown: list[str] = []
    for path in found:
        parent = _open_parent(top, path)
        if parent < 0:
            continue
        walk = _Walk(known)
        try:
            if not walk.is_known(parent, os.path.basename(path), path, 0):
                unknown.append(path)
            else:
                unknown += walk.unknown
                folders += walk.known
        except (OSError, _TooLargeError):
            unknown.append(path)
        finally:
            os.close(parent)
    return Appeared(tuple(unknown), tuple(folders))


class _Walk:
    """Compares a tree with what is known.

    unknown: parts of a known directory that are not known themselves.
    known: known directories and files.
    """

    def __init__(self, known: _Known) -> None:
        self._files = known
        self._entries = 0
        self.unknown: list[str] = []
        self.known: list[str] = []

    def is_known(self, parent: int, name: str, path: str, depth: int) -> bool:
        """Return True if this is known, or a directory with something known in it. Raises OSError, _TooLargeError."""
        self._entries += 1
        if self._entries > _MAX_ENTRIES or depth > _MAX_DEPTH:
            raise _TooLargeError
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return self._is_known_folder(parent, name, path, depth)
        if stat.S_ISLNK(status.st_mode):
            return self._files.has(path, os.fsencode(os.readlink(name, dir_fd=parent)), _LINK)
        # With another name, the file could be changed where this name is read-only.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > _MAX_FILE_BYTES:
            return False
        descriptor = os.open(name, _FILE, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES or not self._files.has(path, data):
            return False
        self.known.append(path)
        return True

    def _is_known_folder(self, parent: int, name: str, path: str, depth: int) -> bool:
        folder = os.open(name, _FOLDER, dir_fd=parent)
        unknown = []
        any_known = False
        try:
            entries = os.listdir(folder)  # noqa: PTH208 - a descriptor
            leftover = protected_names.is_sealed(os.fstat(folder).st_mode)
            for entry in entries:
                if self.is_known(folder, entry, f"{path}/{entry}", depth + 1):
                    any_known = True
                else:
                    unknown.append(f"{path}/{entry}")
        finally:
            os.close(folder)
        # An empty directory is known only where git has a submodule, or an older version of this program left it.
        if not any_known and (entries or not (leftover or self._files.is_submodule(path))):
            return False
        self.unknown += unknown
        self.known.append(path)
        return True


class _Known:
    """The files that may appear: those of git's index and HEAD, and this program's own."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self._root, self._paths = root, paths

    def has(self, path: str, data: bytes, kind: str = "file") -> bool:
        """Return True if a file may have this content. kind: of a file, or the mode of a link."""
        if kind == "file" and own_files.is_own(f"{self._root}/{path}", data):
            return True
        versions = (data, data.replace(b"\r\n", b"\n"))
        return any(
            kind == found and any(blob_id(version, len(object_id)) == object_id for version in versions)
            for found, object_id in self._tracked.get(path, ())
        )

    def is_submodule(self, path: str) -> bool:
        return any(kind == _SUBMODULE for kind, _ in self._tracked.get(path, ()))

    @cached_property
    def _tracked(self) -> Mapping[str, set[tuple[str, str]]]:
        """The kinds and object IDs that git has for paths, by path below the workspace."""
        found: dict[str, set[tuple[str, str]]] = {}
        repository = find_repository(self._root)
        if repository is None:
            return found
        checkout = Checkout(*repository)
        below = os.path.relpath(self._root, checkout.root)
        prefix = "" if below == "." else f"{below}/"
        wanted = [f"{prefix}{path}" for path in self._paths]
        try:
            git = checked_git(find_git(os.environ.get("PATH", os.defpath), checkout.root), checkout, os.environ)
        except GitError:
            return found
        for words in (("ls-files", "-s", "-z", "--"), ("ls-tree", "-r", "-z", "HEAD", "--")):
            with suppress(GitError):  # nothing was committed yet
                out = git.run("--literal-pathspecs", *words, *wanted, seconds=_GIT_SECONDS, brief=True)
                for row in filter(None, out.split(b"\0")):
                    about, _, name = os.fsdecode(row).partition("\t")
                    mode, *rest = about.split(" ")
                    object_id = next(word for word in rest if len(word) >= 40)
                    kind = mode if mode in (_LINK, _SUBMODULE) else "file"
                    found.setdefault(name.removeprefix(prefix), set()).add((kind, object_id))
        return found


def blob_id(data: bytes, length: int) -> str:
    """Return git's ID of a file with this content. length: of an ID of the repository, which tells its kind."""
    import hashlib

    kind = hashlib.sha1 if length == 40 else hashlib.sha256
    return kind(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


class GitState(Value):
    """Whether git changes a work tree now, and which index and HEAD it has: files are known when it is done.

    busy: it does.
    """

    busy: bool = False
    versions: tuple[tuple[int, int] | None, ...] = ()


def git_state(root: Path) -> GitState:
    """Return the state of the repository that a workspace is in."""
    repository = find_repository(root)
    if repository is None:
        return GitState()
    found: list[tuple[int, int] | None] = []
    for name in ("index.lock", "index", "HEAD", "logs/HEAD"):
        try:
            status = os.lstat(f"{repository[1]}/{name}")
            found.append((status.st_ino, status.st_mtime_ns))
        except OSError:
            found.append(None)
    return GitState(found[0] is not None, tuple(found[1:]))


def move_away(top: int, root: Path, paths: Iterable[str], folder: Path) -> list[Moved]:
    """Move paths below the open directory of `root` to a new folder; return those that existed."""
    moved = []
    for path in paths:
        parent = _open_parent(top, path)
        if parent < 0:
            continue
        to = folder / path
        try:
            private_folder(to.parent)
            target = os.open(to.parent, _FOLDER)
            try:
                left = _move(parent, os.path.basename(path), target)
            finally:
                os.close(target)
            where = f"/{path}".rpartition("/")[0]
            moved.append(Moved(root / path, Path(f"{root}{where}/{left[0]}"), left[1]) if left else
                         Moved(root / path, to))  # fmt: skip
        except FileNotFoundError:
            continue  # it has vanished
        except OSError as error:
            moved.append(Moved(root / path, root / path, error.strerror or str(error)))
        finally:
            os.close(parent)
    return moved


def open_path(top: int, path: str) -> int:
    """Open a file or directory below an open directory, only to refer to it. Raises OSError."""
    parent = _open_parent(top, path)
    if parent < 0:
        raise NotADirectoryError(path)
    try:
        return os.open(os.path.basename(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    finally:
        os.close(parent)


def _open_parent(top: int, path: str) -> int:
    """Open the directory of a path below an open directory; return -1 if there is none without a link on the way."""
    here = os.dup(top)
    for part in path.split("/")[:-1]:
        try:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        except OSError:
            os.close(here)
            return -1
        os.close(here)
        here = below
    return here


def _move(parent: int, name: str, target: int) -> tuple[str, str] | None:
    """Move a file or tree from one open directory to another.

    Returns the name that it has now in its directory, and why, if it is only renamed. Raises OSError.
    """
    try:
        os.rename(name, name, src_dir_fd=parent, dst_dir_fd=target)
        return None
    except PermissionError:
        _make_writable(parent, name)
        os.rename(name, name, src_dir_fd=parent, dst_dir_fd=target)
        return None
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    # Take away the protected name at once; then copy to the other file system, and remove.
    staged = f".agent-moved-{os.urandom(4).hex()}"
    os.rename(name, staged, src_dir_fd=parent, dst_dir_fd=parent)
    why = _move_renamed(parent, staged, target, name)
    return (staged, why) if why else None


def finish_move(top: int, root: Path, moved: Moved, folder: Path) -> Moved | None:
    """Move what was only renamed below the open directory of `root` to a new folder; None if that still fails."""
    name, to = moved.to.name, folder / moved.path.relative_to(root)
    parent = _open_parent(top, str(moved.to.relative_to(root)))
    if parent < 0:
        return None
    try:
        private_folder(to.parent)
        target = os.open(to.parent, _FOLDER)
        try:
            why = _move_renamed(parent, name, target, to.name)
        finally:
            os.close(target)
    except OSError:
        return None
    finally:
        os.close(parent)
    return None if why else Moved(moved.path, to)


def _move_renamed(parent: int, staged: str, target: int, name: str) -> str:
    """Copy what was renamed to another file system, and remove it. Return why that is not possible."""
    try:
        _copy(parent, staged, target, name, [_MAX_COPIED_BYTES], 0)
    except (OSError, _NotCopiedError) as error:
        with suppress(OSError):
            _remove(target, name)
        return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    with suppress(OSError):
        _remove(parent, staged)
    return ""


def _remove(parent: int, name: str) -> None:
    """Remove a file or tree of an open directory. Raises OSError."""
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _make_writable(parent: int, name: str) -> None:
    """Allow the owner to move a directory, which needs the right to write in it, or a file out of its directory."""
    try:
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except NotADirectoryError:
        descriptor = os.dup(parent)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101 - not a path
    finally:
        os.close(descriptor)


def _copy(source: int, name: str, target: int, to: str, left: list[int], depth: int) -> None:
    """Copy a file or tree between open directories; pipes and the like are left out. left: bytes that may be copied.

    Raises OSError, _NotCopiedError.
    """
    status = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), to, dir_fd=target)
    elif stat.S_ISDIR(status.st_mode):
        if depth > _MAX_DEPTH:
            raise _NotCopiedError("it is too deep")
        os.mkdir(to, 0o700, dir_fd=target)
        inside = os.open(name, _FOLDER, dir_fd=source)
        try:
            below = os.open(to, _FOLDER, dir_fd=target)
            try:
                for entry in os.listdir(inside):  # noqa: PTH208 - a descriptor
                    _copy(inside, entry, below, entry, left, depth + 1)
            finally:
                os.close(below)
        finally:
            os.close(inside)
    elif stat.S_ISREG(status.st_mode):
        descriptor = os.open(name, _FILE, dir_fd=source)
        with os.fdopen(descriptor, "rb") as file:
            if _is_open_for_writing(descriptor):
                raise _NotCopiedError("it is being written")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(to, flags, 0o600, dir_fd=target), "wb") as copy:
                while data := file.read(1 << 16):
                    left[0] -= len(data)
                    if left[0] < 0:
                        raise _NotCopiedError("it is too large")
                    copy.write(data)


def remove_leftover(top: int, name: str) -> None:
    """Remove what an older version of this program left under a protected name, unless a command still uses it."""
    import fcntl

    parent = _open_parent(top, name)
    if parent < 0:
        return
    base = os.path.basename(name)
    readable = -1
    # A running command of that version holds a shared lock on the directory.
    with suppress(OSError):
        readable = os.open(".", _FOLDER, dir_fd=parent)
        fcntl.flock(readable, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if protected_names.has_leftover(f"/proc/self/fd/{readable}/{base}"):
            mode = os.stat(base, dir_fd=readable, follow_symlinks=False).st_mode
            (os.rmdir if stat.S_ISDIR(mode) else os.unlink)(base, dir_fd=readable)
    if readable >= 0:
        os.close(readable)
    os.close(parent)


def _is_open_for_writing(descriptor: int) -> bool:
    """Return True if a process has a file open for writing: what it writes later would be missing in a copy.

    A lease for reading is only given otherwise; not every file system has leases.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False
