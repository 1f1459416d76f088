"""The one door to files that a repository or another program may have put there: regular files only, up to a size.

A pipe would keep an open waiting for ever, a device never ends, a file on a slow file system drips; a test holds the
rest of the program to this door. Unlike `files.py` this follows links, as settings and notes are often linked; `inside`
says how far they may lead.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from time import monotonic
from typing import BinaryIO

_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
_PIECE = 1 << 20
_LINKS = 40
# A file may take so long to be read, and a second more for each so many bytes of its bound.
_SECONDS = 10.0
_SLOWEST = 10_000_000


class NotRegularFileError(OSError):
    """Something that is not opened or read; `str` says why, as in "is not a regular file"."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.strerror = text


def read_regular(path: Path | str, limit: int, inside: Path | None = None) -> bytes:
    """The bytes of the regular file that `path` leads to, at most `limit`.

    inside: a resolved folder that links must not lead out of. Raises NotRegularFileError for what is not read,
    FileNotFoundError where nothing is there, and other OSErrors as they come.
    """
    descriptor = open_regular(path if inside is None else resolve_inside(path, inside))
    # Known at once of most files; others grow meanwhile, or do not say.
    if os.fstat(descriptor).st_size <= limit:
        data = _read(descriptor, limit + 1)
        if len(data) <= limit:
            return data
    else:
        os.close(descriptor)
    raise NotRegularFileError(f"has more than {limit:,} bytes")


def resolve_inside(path: Path | str, inside: Path) -> Path:
    """`path` with its links followed, as long as none leads out of `inside`, a resolved folder.

    What a link outside names is not even looked at: a look can mount a file system of some server. Raises
    NotRegularFileError for a path that leads out or in a circle, FileNotFoundError where nothing is there, and other
    OSErrors.
    """
    rest = _below(path, inside)
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
            if links > _LINKS:
                raise NotRegularFileError("is a link that leads in a circle")
            target = (here / name).readlink()
            if target.is_absolute():
                rest, here = rest + _below(target, inside), inside
            else:
                rest += reversed(target.parts)
        else:
            here = here / name
    return here


def outside_notice(path: Path | str, inside: Path) -> str:
    """The sentence about a path that leads out of `inside`: which link on the way is not followed."""
    rest = _below(path, inside)
    here = inside
    while rest:
        here = here / rest.pop()
        if here.is_symlink():
            break
    return f"{here} leads out of {inside}, and was left out"


def _below(path: Path | str, inside: Path) -> list[str]:
    """The names that lead from `inside` to an absolute path, the last first.

    Raises NotRegularFileError for a path outside.
    """
    try:
        return list(reversed(Path(path).relative_to(inside).parts))
    except ValueError:
        raise NotRegularFileError(f"leads out of {inside}") from None


def read_start(path: Path | str, count: int) -> bytes:
    """At most the first `count` bytes of the regular file that `path` leads to. Raises as `read_regular`."""
    return _read(open_regular(path), count)


def _read(descriptor: int, count: int) -> bytes:
    """At most so many bytes of a descriptor, which is closed."""
    until = monotonic() + _SECONDS + count / _SLOWEST
    try:
        parts, left = [], count
        while left > 0 and (part := os.read(descriptor, min(left, _PIECE))):
            parts.append(part)
            left -= len(part)
            if monotonic() > until:
                raise NotRegularFileError("takes too long to read")
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_text(path: Path | str, limit: int) -> str:
    """The text of a UTF-8 file. Raises as `read_regular`, and UnicodeDecodeError."""
    return read_regular(path, limit).decode("utf-8")


def open_stream(path: Path | str, limit: int) -> BinaryIO:
    """A regular file of at most `limit` bytes, open for reading, for what is too long to be read at once.

    Raises as `read_regular`.
    """
    descriptor = open_regular(path)
    if os.fstat(descriptor).st_size > limit:
        os.close(descriptor)
        raise NotRegularFileError(f"has more than {limit:,} bytes")
    return os.fdopen(descriptor, "rb")


def open_regular(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """A descriptor of the regular file that `path` leads to.

    flags: as of `os.open`; with O_CREAT a missing file is made, with `mode`; with O_NOFOLLOW a link is refused. dir_fd:
    the folder that the name is in; then links are not followed. Raises NotRegularFileError for what is no regular
    file, and OSErrors as they come.
    """
    path = os.fspath(path)
    try:
        state = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode) and dir_fd is None and not flags & os.O_NOFOLLOW:
            path = os.path.realpath(path, strict=not flags & os.O_CREAT)
            state = os.lstat(path)
        # Looked at before it is opened: opening alone can set a device off.
        _check(state)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _ALWAYS, mode, dir_fd=dir_fd)
    try:
        _check(os.fstat(descriptor))
    except NotRegularFileError:
        os.close(descriptor)
        raise
    return descriptor


def _check(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularFileError("is not a regular file")
