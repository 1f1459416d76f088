"""Read files that others may have put there, and write files atomically, in folders that only their owner can open.

Only regular files are read, up to a size limit: opening a pipe blocks forever, a device never ends, a slow file system
delivers byte by byte. A test checks that the rest of the program reads through this module. Unlike `files.py` it
follows links, as settings and notes are often linked; `inside` limits where they may lead.

Also finds files on which git and ripgrep would hang or run out of memory: ignore and attribute files, and git's own.
They may be pipes, devices or gigabytes long, and both programs open them wherever they find them. The search runs only
once a program takes long; the obstacle found is then remembered, and nothing is started there while it exists.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import BinaryIO

_OPEN_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
_CHUNK_BYTES = 1 << 20
_MAX_LINKS = 40
# Time limit for reading a file: seconds, plus one second per this many bytes of its size limit.
_READ_SECONDS = 10.0
_BYTES_PER_SECOND = 10_000_000
_LOCK_SECONDS = 2.0


class NotRegularFileError(OSError):
    """A path must not be opened or read; `str` gives the reason, as in "is not a regular file"."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.strerror = text


def read_regular(path: Path | str, limit: int, inside: Path | None = None) -> bytes:
    """Read the regular file that `path` leads to, at most `limit` bytes.

    inside: a resolved folder that links must not lead out of.
    Raises NotRegularFileError for a file that must not be read, FileNotFoundError for a missing one, other OSErrors.
    """
    descriptor = open_regular(path if inside is None else resolve_inside(path, inside))
    # Most files report their size; others grow meanwhile or report none.
    if os.fstat(descriptor).st_size <= limit:
        data = _read_within_time(descriptor, limit + 1)
        if len(data) <= limit:
            return data
    else:
        os.close(descriptor)
    raise NotRegularFileError(f"has more than {limit:,} bytes")


def resolve_inside(path: Path | str, inside: Path) -> Path:
    """Resolve the links of `path`, none of which may lead out of `inside`, a resolved folder.

    The target of a link that leads outside is not even looked up: that could mount a remote file system. Raises
    NotRegularFileError for a path that leads outside or in a circle, FileNotFoundError for a missing file, and other
    OSErrors.
    """
    rest = _relative_parts(path, inside)
    here = inside
    links = 0
    while rest:
        name = rest.pop()
        if name == "..":
            if here == inside:
                raise NotRegularFileError(f"leads out of {inside}")
            here = here.parent
        elif stat.S_ISLNK(os.lstat(here / name).st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise NotRegularFileError("is a link that leads in a circle")
            target = (here / name).readlink()
            if target.is_absolute():
                rest, here = rest + _relative_parts(target, inside), inside
            else:
                rest += reversed(target.parts)
        else:
            here = here / name
    return here


def outside_notice(path: Path | str, inside: Path) -> str:
    """Return the message about a path that leads out of `inside`, naming the link that is not followed."""
    rest = _relative_parts(path, inside)
    here = inside
    while rest:
        here = here / rest.pop()
        if here.is_symlink():
            break
    return f"{here} points outside {inside} and was ignored"


def _relative_parts(path: Path | str, inside: Path) -> list[str]:
    """Return the names that lead from `inside` to an absolute path, the last first.

    Raises NotRegularFileError for a path outside.
    """
    try:
        return list(reversed(Path(path).relative_to(inside).parts))
    except ValueError:
        raise NotRegularFileError(f"leads out of {inside}") from None


def read_start(path: Path | str, count: int) -> bytes:
    """Read at most the first `count` bytes of the regular file that `path` leads to. Raises as `read_regular`."""
    return _read_within_time(open_regular(path), count)


def _read_within_time(descriptor: int, count: int) -> bytes:
    """Read at most `count` bytes from a descriptor and close it."""
    until = monotonic() + _READ_SECONDS + count / _BYTES_PER_SECOND
    try:
        parts, left = [], count
        while left > 0 and (part := os.read(descriptor, min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
            if monotonic() > until:
                raise NotRegularFileError("takes too long to read")
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_text(path: Path | str, limit: int) -> str:
    """Read a UTF-8 file. Raises as `read_regular`, and UnicodeDecodeError."""
    return read_regular(path, limit).decode("utf-8")


def open_stream(path: Path | str, limit: int) -> BinaryIO:
    """Open a regular file of at most `limit` bytes for reading in pieces.

    Raises as `read_regular`.
    """
    descriptor = open_regular(path)
    if os.fstat(descriptor).st_size > limit:
        os.close(descriptor)
        raise NotRegularFileError(f"has more than {limit:,} bytes")
    return os.fdopen(descriptor, "rb")


def open_regular(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Open the regular file that `path` leads to; return a descriptor.

    flags: as for `os.open`; O_CREAT creates a missing file with `mode`, O_NOFOLLOW rejects a link.
    dir_fd: the folder of the name; links are then not followed.
    Raises NotRegularFileError if it is no regular file, and other OSErrors.
    """
    path = os.fspath(path)
    try:
        state = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode) and dir_fd is None and not flags & os.O_NOFOLLOW:
            path = os.path.realpath(path, strict=not flags & os.O_CREAT)
            state = os.lstat(path)
        # Check before opening: opening alone can trigger a device.
        _check(state)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _OPEN_FLAGS, mode, dir_fd=dir_fd)
    try:
        _check(os.fstat(descriptor))
    except NotRegularFileError:
        os.close(descriptor)
        raise
    return descriptor


def _check(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularFileError("is not a regular file")


_IGNORE_FILES = frozenset((".gitignore", ".gitattributes", ".ignore", ".rgignore"))
_GIT_INFO_FILES = (".git/info/exclude", ".git/info/attributes")
# Only pipes and devices are rejected among these; some may legitimately have any size.
_GIT_FILES = (
    ".git/HEAD", ".git/config", ".git/config.worktree", ".git/commondir", ".git/index", ".git/packed-refs",
    ".git/shallow", ".git/objects/info/alternates",
)  # fmt: skip
_USER_GIT_FILES = ("ignore", "attributes", "config")
MAX_IGNORE_FILE_BYTES = 64 << 20
_SEARCH_SECONDS = 1.5
# Folder to the obstacle found for it.
_known_obstacles: dict[str, str] = {}


def known_obstacle(top: str) -> str:
    """Describe the obstacle that was found at or below a folder and still exists; "" if there is none."""
    path = _known_obstacles.get(top, "")
    if path and not (problem := _describe_obstacle(path)):
        _known_obstacles.pop(top, None)
    return problem if path else ""


def find_obstacle(top: str) -> str:
    """Describe the first obstacle that a program in the folder `top` would open; "" if none is found soon."""
    until = time.monotonic() + _SEARCH_SECONDS
    for path in _candidates(top):
        if problem := _describe_obstacle(path):
            _known_obstacles[top] = path
            return problem
        if time.monotonic() > until:
            break
    return ""


def _self_and_parents(folder: str) -> Iterator[str]:
    yield folder
    while (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        yield (folder := above)


def _paths_in(folder: str) -> Iterator[str]:
    return (os.path.join(folder, name) for name in (*sorted(_IGNORE_FILES), *_GIT_INFO_FILES, *_GIT_FILES))


def _candidates(top: str) -> Iterator[str]:
    for folder in _self_and_parents(top):
        yield from _paths_in(folder)
    yield os.path.expanduser("~/.gitconfig")
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    yield from (os.path.join(own, "git", name) for name in _USER_GIT_FILES)
    # Nearest first.
    left = deque([top])
    while left:
        folder = left.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name in _IGNORE_FILES:
                        yield entry.path
                    elif entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            continue
        # Yield something harmless, so that the time limit is checked in folders without such files.
        yield folder


def _describe_obstacle(path: str) -> str:
    try:
        state = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    if stat.S_ISFIFO(state.st_mode):
        what = "is a named pipe"
    elif stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
        if state.st_rdev == os.stat(os.devnull).st_rdev:  # noqa: PTH116
            return ""
        what = "is a device"
    elif stat.S_ISREG(state.st_mode) and state.st_size > MAX_IGNORE_FILE_BYTES and not path.endswith(_GIT_FILES):
        what = f"has {state.st_size:,} bytes"
    else:
        return ""
    return f"{path} {what}, and git and ripgrep read it whole; remove it first"


_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to the owner only. Raises OSError."""
    missing = []
    # os.path, not Path: its methods raise in a folder without access.
    while not os.path.isdir(folder):  # noqa: PTH112
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def acquire(file: int) -> bool:
    """Lock an open file; return False if another process, which may be stopped, keeps it for long. Raises OSError."""
    import fcntl

    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.002)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Keep other threads and processes of this program from changing a file between reading and writing it.

    Its folder, which is created if missing, is what is locked: no file is left beside the user's own. Where that is
    impossible, as on some network file systems, or where the lock is held for long, goes on without. Raises OSError.
    """
    private_folder(path.parent)
    with ExitStack() as held:
        with suppress(PermissionError):
            descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            with suppress(OSError):
                acquire(descriptor)
        yield


def append_synced(path: Path, line: bytes) -> None:
    """Append a line to a file, which is created if missing; it is on disk on return. Raises OSError."""
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # behind a line that a crash cut off
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, keep: bool = False, sync: bool = True) -> None:
    """Write a file atomically: at any time it has either the old or the new content. Raises OSError.

    mode: permissions of the file.
    keep: preserve the permissions of an existing file; `mode` is for a new one.
    sync: flush to disk before returning.
    """
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, _CREATE_FLAGS, mode)
        with os.fdopen(descriptor, "wb") as file:
            if keep:
                with suppress(FileNotFoundError):
                    if stat.S_ISREG(before := path.stat().st_mode):
                        os.fchmod(descriptor, stat.S_IMODE(before))
            file.write(data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        with suppress(OSError):
            # A placeholder of the sandbox while a command runs: an empty directory.
            path.rmdir()
        os.rename(temporary, path)  # noqa: PTH104 - crash tests intercept os.rename
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
