"""What a folder of the machine for temporary files holds that commands may read: no sockets, and nothing private."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from agent_tools.lazy import lazy_pattern

# Programs keep sockets, locks, keys, or code that they run later under these names, and trust what they find.
RESERVED = lazy_pattern(
    r"\.|agent-sandbox-|ssh-\w{10,12}$|ssh[-_].*@|tmux-\d|u?screens?$|emacs\d|krb5cc|xauth|gpg-|keyring-|dbus-"
    r"|systemd-|snap[.-]|pulse-|ksocket-|kde-|orbit-|gvfs|vscode-|claude-\d|runtime-|(?:containers-user|storage-run)-"
    r"|hsperfdata_|jest_|(?:v8|node)-compile-cache|jiti$|ts-node|tsx-\d|metro-|torchinductor_|phpstan$"
    r"|ansible[_-]|vmware-|lost\+found$",
    re.I,
)
_MAX_SHOWN = 200
_MAX_LOOKED_AT = 5_000
_SETTLED_NS = 2_000_000_000
Identity = tuple[int, int]


class PublicFiles:
    """The entries of a folder that others may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Folders in it that were examined, and what was found, by their identity and times.
        self._examined: dict[tuple[int, ...], bool] = {}

    def of_others(self, own: Container[str]) -> dict[str, Identity]:
        """Return the identities of the latest entries by name, without those in `own`."""
        found: list[tuple[str, Identity]] = []
        for name, state in entries_of(self._folder):
            if state.st_mode & stat.S_IROTH and name not in own and self._is_public(name, state):
                found.append((name, identity(state)))
                if len(found) == _MAX_SHOWN:
                    break
        return dict(sorted(found))

    def _is_public(self, name: str, state: os.stat_result) -> bool:
        """Return True if an entry that others may read is not the place of a program's sockets."""
        if RESERVED.match(name):
            return False
        if stat.S_ISREG(state.st_mode):
            return True
        if not state.st_mode & stat.S_IXOTH:
            return False
        times = state.st_mtime_ns, state.st_ctime_ns
        key = (*identity(state), *times)
        if (known := self._examined.get(key)) is not None:
            return known
        is_public = _has_only_files(self._folder / name)
        if len(self._examined) == _MAX_LOOKED_AT:
            self._examined.clear()
        # What was added within one step of the clock would not change the time of the folder.
        if time.time_ns() - max(times) > _SETTLED_NS:
            self._examined[key] = is_public
        return is_public


def entries_of(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Return the files and folders of this user, and of root, in a directory, the latest first."""
    found: list[tuple[int, str, os.stat_result]] = []
    users = (os.geteuid(), 0)
    with suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_MAX_LOOKED_AT), entries, strict=False):
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if state.st_uid in users and stat.S_IFMT(state.st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                found.append((-state.st_mtime_ns, entry.name, state))
    return [(name, state) for _, name, state in sorted(found)]


def _has_only_files(folder: Path) -> bool:
    """Return True if a folder can be read, and has no sockets, pipes or devices."""
    with suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_MAX_LOOKED_AT), entries, strict=False):
            if not (entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                return False
        return True
    return False


def identity(state: os.stat_result) -> Identity:
    return state.st_dev, state.st_ino
