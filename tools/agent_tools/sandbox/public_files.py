"""What a folder of the machine for temporary files holds that commands may read: no sockets, and nothing private."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import monotonic

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
# For so long, a file may not be seen that has been there for a while and becomes readable.
_KNOWN_SECONDS = 5.0
Identity = tuple[int, int]


class PublicFiles:
    """The entries of a folder that others may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Folders in it that were examined, and what was found, by their identity and times.
        self._examined: dict[tuple[int, ...], bool] = {}
        # The times of entries that have been there for a while, by name and inode: None for one that is not shown. A
        # folder can have thousands, which are not all looked at for each command.
        self._known: dict[tuple[str, int], int | None] = {}
        self._until = 0.0

    def of_others(self, own: Container[str]) -> dict[str, Identity]:
        """Return the identities of the latest entries by name, without those in `own`."""
        found: list[tuple[str, Identity]] = []
        for name, state in self._readable():
            if name not in own and self._is_public(name, state):
                found.append((name, identity(state)))
                if len(found) == _MAX_SHOWN:
                    break
        return dict(sorted(found))

    def _readable(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the entries that others may read, the latest first."""
        if monotonic() >= self._until:
            self._known, self._until = {}, monotonic() + _KNOWN_SECONDS
        before, settled = self._known, time.time_ns() - _SETTLED_NS
        known: dict[tuple[str, int], int | None] = {}
        found: list[tuple[int, str]] = []
        for entry in _listed(self._folder):
            key = entry.name, entry.inode()
            if key in before:
                changed = known[key] = before[key]
            else:
                try:
                    state = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                shown = state.st_mode & stat.S_IROTH and _is_eligible(state) and not RESERVED.match(entry.name)
                changed = state.st_mtime_ns if shown else None
                # A newer one may be changed soon, as by `chmod` after `mktemp`.
                if state.st_ctime_ns < settled:
                    known[key] = changed
            if changed is not None:
                found.append((-changed, entry.name))
        self._known = known
        for _, name in sorted(found):
            with suppress(OSError):
                state = os.lstat(f"{self._folder}/{name}")
                if state.st_mode & stat.S_IROTH and _is_eligible(state):
                    yield name, state

    def _is_public(self, name: str, state: os.stat_result) -> bool:
        """Return True if an entry that others may read is not the place of a program's sockets."""
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
    """Return the files and folders of this user, and of root, in a directory."""
    found: list[tuple[str, os.stat_result]] = []
    for entry in _listed(folder):
        with suppress(OSError):
            state = entry.stat(follow_symlinks=False)
            if _is_eligible(state):
                found.append((entry.name, state))
    return found


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(islice(entries, _MAX_LOOKED_AT))
    return []


def _is_eligible(state: os.stat_result) -> bool:
    return state.st_uid in (os.geteuid(), 0) and stat.S_IFMT(state.st_mode) in (stat.S_IFREG, stat.S_IFDIR)


def _has_only_files(folder: Path) -> bool:
    """Return True if a folder can be read, and has no sockets, pipes or devices."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MAX_LOOKED_AT):
            if not (entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                return False
        return True
    return False


def identity(state: os.stat_result) -> Identity:
    return state.st_dev, state.st_ino
