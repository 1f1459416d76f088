"""Files that git ignores: no snapshot has them, but what became of them is said before an undo."""

from __future__ import annotations

import os
import stat
import time

from agent_cli.snapshots.git import StoreError
from agent_cli.snapshots.store import Store

_SECONDS = 0.5


def changed_ignored(store: Store, since: float) -> list[str]:
    """The ignored files, and folders with files, that changed after a time; by absolute path, folders with a slash."""
    found: list[str] = []
    until = time.monotonic() + _SECONDS
    for base, scanner in store.scanners.items():
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        try:
            out = store.git.run(*words, tree=base, index=scanner.index)
        except StoreError:
            continue
        for name in out.split(b"\0"):
            path = os.path.join(base, os.fsdecode(name))
            if name and _changed(path, since, until):
                found.append(path)
    return found


def _changed(path: str, since: float, until: float) -> bool:
    """Whether something at or below a path changed after a time, as far as there is time to look."""
    try:
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode):
            return state.st_ctime >= since
        for here, _, names in os.walk(path):
            places = [here, *(os.path.join(here, name) for name in names)]
            if any(os.lstat(p).st_ctime >= since for p in places) or time.monotonic() > until:
                return True
    except OSError:
        pass
    return False
