"""Putting files back: each whole or not at all, after one more look, and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.snapshots.git import StoreError
from agent_cli.snapshots.leftovers import temporary_name
from agent_cli.snapshots.plan import Item
from agent_cli.snapshots.states import AmbiguousStateError, FileState, current_state
from agent_cli.snapshots.store import Store
from agent_tools.files import remove_empty
from agent_tools.nofollow import is_at, open_directory
from agent_tools.regular import open_regular

# How many contents are held in memory.
_AT_ONCE = 32


def put_back(store: Store, items: Sequence[Item]) -> dict[str, str]:
    """Carry out the items of a plan; the paths that could not be put back, with why. Folders that become empty go."""
    failed: dict[str, str] = {}
    folders = (os.path.split(i.path)[0] for i in items if i.want is not None)
    with temporary_name(store.where.folder, folders) as temporary:
        _carry_out(store, items, temporary, failed)
    return failed


def _carry_out(store: Store, items: Sequence[Item], temporary: str, failed: dict[str, str]) -> None:
    # What is in the way of a folder or a file goes first, the deepest first.
    for item in sorted((i for i in items if i.want is None), key=lambda i: i.path, reverse=True):
        _try(failed, item, lambda item: _remove(store, item))
    wanted = sorted((i for i in items if i.want is not None), key=lambda i: i.path)
    for at in range(0, len(wanted), _AT_ONCE):
        some = wanted[at : at + _AT_ONCE]
        contents = store.git.blobs({i.want.oid for i in some if i.want is not None})
        for item in some:
            _try(failed, item, lambda item: _write(item, contents, temporary))  # noqa: B023 - called at once


def _try(failed: dict[str, str], item: Item, act: Callable[[Item], None]) -> None:
    try:
        if current_state(item.path) != item.now:
            failed[item.path] = "changed a moment ago"
            return
    except AmbiguousStateError as error:
        if item.want is None or str(error) != "a folder is there":
            failed[item.path] = str(error)
            return
    try:
        act(item)
    except (OSError, StoreError, AmbiguousStateError) as error:
        failed[item.path] = getattr(error, "strerror", None) or str(error)


def _remove(store: Store, item: Item) -> None:
    folder, name = os.path.split(item.path)
    directory = open_directory(Path(folder))
    try:
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)
    bases = {Path(base) for base in store.scanners}
    here = Path(folder)
    while here not in bases and any(here.is_relative_to(base) for base in bases):
        remove_empty(here)
        if os.path.lexists(here):
            break
        here = here.parent


def _write(item: Item, contents: dict[str, bytes], temporary: str) -> None:
    want = item.want
    assert want is not None
    folder, name = os.path.split(item.path)
    if item.now is not None and item.now.but(mode=want.mode) == want:
        _set_mode(folder, name, want.mode)
        return
    if want.oid not in contents:
        raise AmbiguousStateError("its content is no longer in the store")
    data = contents[want.oid]
    directory = open_directory(Path(folder), create=True)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=directory)
        try:
            _make(temporary, directory, want, data)
            if not is_at(directory, folder):
                raise AmbiguousStateError("changed a moment ago")
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:  # no temporary file stays behind, whatever stopped it; the caller tells it
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _set_mode(folder: str, name: str, mode: int) -> None:
    directory = open_directory(Path(folder))
    try:
        descriptor = open_regular(name, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _make(name: str, directory: int, want: FileState, data: bytes) -> None:
    if want.link:
        os.symlink(os.fsdecode(data), name, dir_fd=directory)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, want.mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
