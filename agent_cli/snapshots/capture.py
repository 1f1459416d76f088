"""The state of single files as a tree in the store: each is opened once, with no link followed on the way.

What a snapshot has is so the file that a call was decided about, and a link that is put in its place meanwhile leads
nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agent_cli.snapshots.git import Git
from agent_cli.snapshots.scan import TOO_BIG, TOO_MUCH, UNREADABLE, Bounds, Modes, Shot, mark_of
from agent_tools.nofollow import open_directory
from agent_tools.values import Value

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _Found(Value):
    """What is at a path: a file or a link. data: its content, or where it leads; None where that is not kept."""

    state: os.stat_result
    data: bytes | None
    why: str = ""


def capture(git: Git, index: Path, paths: Iterable[str], bounds: Bounds) -> Shot:
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
            skipped[path] = (found.why, mark_of(found.state))
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
    return Shot("/", tree, Modes.of_found(modes).stored(git), skipped)


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
