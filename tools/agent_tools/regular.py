"""Reading a small file that strangers may have put there: never a pipe, a device, or more than a bound.

Unlike `files.py` this follows links, as settings and notes are often linked; `inside` says how far they may lead.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
_PIECE = 1 << 16
_LINKS = 40


class NotPlain(OSError):
    """Something that is not read; `str` says why, as in "is not a regular file"."""


def read_regular(path: Path | str, limit: int, inside: Path | None = None) -> bytes:
    """The bytes of the regular file that `path` leads to, at most `limit`.

    inside: a resolved folder that links must not lead out of. Raises NotPlain for what is not read, FileNotFoundError
    where nothing is there, and other OSErrors as they come.
    """
    data = read_start(path if inside is None else resolve_inside(path, inside), limit + 1)
    if len(data) > limit:
        raise NotPlain(f"has more than {limit:,} bytes")
    return data


def resolve_inside(path: Path | str, inside: Path) -> Path:
    """`path` with its links followed, as long as none leads out of `inside`, a resolved folder.

    What a link outside names is not even looked at: a look can mount a file system of some server. Raises NotPlain
    for a path that leads out or in a circle, FileNotFoundError where nothing is there, and other OSErrors.
    """
    rest = _below(path, inside)
    here = inside
    links = 0
    while rest:
        name = rest.pop()
        if name == "..":
            if here == inside:
                raise NotPlain(f"leads out of {inside}")
            here = here.parent
        elif stat.S_ISLNK(os.lstat(here / name).st_mode):
            links += 1
            if links > _LINKS:
                raise NotPlain("is a link that leads in a circle")
            target = (here / name).readlink()
            if target.is_absolute():
                rest, here = rest + _below(target, inside), inside
            else:
                rest += reversed(target.parts)
        else:
            here = here / name
    return here


def left_out(path: Path | str, inside: Path) -> str:
    """The sentence about a path that leads out of `inside`: which link on the way is not followed."""
    rest = _below(path, inside)
    here = inside
    while rest:
        here = here / rest.pop()
        if here.is_symlink():
            break
    return f"{here} leads out of {inside}, and was left out"


def _below(path: Path | str, inside: Path) -> list[str]:
    """The names that lead from `inside` to an absolute path, the last first. Raises NotPlain for a path outside."""
    try:
        return list(reversed(Path(path).relative_to(inside).parts))
    except ValueError:
        raise NotPlain(f"leads out of {inside}") from None


def read_start(path: Path | str, count: int) -> bytes:
    """At most the first `count` bytes of the regular file that `path` leads to. Raises as `read_regular`."""
    path = os.fspath(path)
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        path = os.path.realpath(path, strict=True)
        state = os.lstat(path)
    # Looked at before it is opened: opening alone can set a device off.
    _check(state)
    descriptor = os.open(path, _READ)
    try:
        _check(os.fstat(descriptor))
        parts, left = [], count
        while left > 0 and (part := os.read(descriptor, min(left, _PIECE))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _check(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise NotPlain("is not a regular file")
