"""Read files that a repository or another program may have put there: regular files only, up to a size.

Opening a pipe blocks for ever, a device never ends, a slow file system delivers byte by byte; a test checks that the
rest of the program reads through this module. Unlike `files.py` it follows links, as settings and notes are often
linked; `inside` limits where they may lead.
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
# Time limit for reading a file, and the bytes of its size limit that add a second.
_SECONDS = 10.0
_SLOWEST = 10_000_000


class NotRegularFileError(OSError):
    """A path that is not opened or read; `str` gives the reason, as in "is not a regular file"."""

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
        data = _read(descriptor, limit + 1)
        if len(data) <= limit:
            return data
    else:
        os.close(descriptor)
    raise NotRegularFileError(f"has more than {limit:,} bytes")


def resolve_inside(path: Path | str, inside: Path) -> Path:
    """Resolve the links of `path`, none of which may lead out of `inside`, a resolved folder.

    The target of a link that leads outside is not even looked up: that can mount a file system of some server. Raises
    NotRegularFileError for a path that leads outside or in a circle, FileNotFoundError for a missing file, and other
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
    """Return the message about a path that leads out of `inside`, naming the link that is not followed."""
    rest = _below(path, inside)
    here = inside
    while rest:
        here = here / rest.pop()
        if here.is_symlink():
            break
    return f"{here} leads out of {inside}, and was left out"


def _below(path: Path | str, inside: Path) -> list[str]:
    """Return the names that lead from `inside` to an absolute path, the last first.

    Raises NotRegularFileError for a path outside.
    """
    try:
        return list(reversed(Path(path).relative_to(inside).parts))
    except ValueError:
        raise NotRegularFileError(f"leads out of {inside}") from None


def read_start(path: Path | str, count: int) -> bytes:
    """Read at most the first `count` bytes of the regular file that `path` leads to. Raises as `read_regular`."""
    return _read(open_regular(path), count)


def _read(descriptor: int, count: int) -> bytes:
    """Read at most `count` bytes from a descriptor and close it."""
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
