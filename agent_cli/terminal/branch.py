"""The branch that a folder is on, read from git's own files, and whether anything is changed there."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent_tools.regular import read_regular

_HEAD, _LINK = "ref: refs/heads/", "gitdir:"
_LARGEST = 4096
_SECONDS = 2.0
_FIRST = 0.4


def branch_of(folder: Path) -> str:
    """The branch, the beginning of the commit where there is none, or nothing outside of a repository."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if os.path.isfile(git):  # noqa: PTH113 - the method raises where a parent is closed
                link = os.fsdecode(read_regular(git, _LARGEST)).strip("\r\n")
                git = place / link.removeprefix(_LINK).strip()
            head = read_regular(git / "HEAD", _LARGEST).decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            continue
        if head.startswith(_HEAD):
            return head.removeprefix(_HEAD)
        return head[:8] if re.fullmatch(r"[0-9a-f]{8,64}", head) else ""
    return ""


class Branch:
    """What the toolbar says: the branch, with a star where something is not committed.

    has_changes: asks git, which takes a moment, so it is asked in the background: at the start, and when `look` says
    that something may have changed. ready: called from that thread when the answer is another one.
    """

    def __init__(self, folder: Path, has_changes: Callable[[], bool], ready: Callable[[], None]) -> None:
        self._folder, self._has_changes, self._ready = folder, has_changes, ready
        self._name, self._read_at = "", -_SECONDS
        self._dirty = self._busy = self._again = False
        self._pause = _FIRST

    def __str__(self) -> str:
        now = time.monotonic()
        if now - self._read_at >= _SECONDS:
            before, self._name, self._read_at = self._name, branch_of(self._folder), now
            if self._name != before:
                self.look()
        return f"{self._name}*" if self._name and self._dirty else self._name

    def look(self) -> None:
        """Something may have changed. On the thread that draws."""
        self._again = True
        if not self._busy:
            self._busy = True
            threading.Thread(target=self._ask, name="git status", daemon=True).start()

    def _ask(self) -> None:
        # Not while the first prompt is being drawn.
        pause, self._pause = self._pause, 0.0
        time.sleep(pause)
        while self._again:
            self._again = False
            before, self._dirty = self._dirty, self._has_changes()
            if self._dirty != before:
                self._ready()
        self._busy = False
