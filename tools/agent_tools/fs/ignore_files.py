"""Find files on which git and ripgrep would hang or run out of memory: ignore and attribute files, and git's own.

They may be pipes, devices or gigabytes long, and both programs open them wherever they find them. The search runs only
once a program takes long; the obstacle found is then remembered, and nothing is started there while it exists.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator

_NAMES = frozenset((".gitignore", ".gitattributes", ".ignore", ".rgignore"))
_INSIDE = (".git/info/exclude", ".git/info/attributes")
# Only pipes and devices are a problem among these; some may legitimately have any size.
_GIT = (
    ".git/HEAD", ".git/config", ".git/config.worktree", ".git/commondir", ".git/index", ".git/packed-refs",
    ".git/shallow", ".git/objects/info/alternates",
)  # fmt: skip
_OWN = ("ignore", "attributes", "config")
LARGEST = 64 << 20
_SECONDS = 1.5
# Folder to the obstacle found for it.
_known: dict[str, str] = {}


def known_obstacle(top: str) -> str:
    """Describe the obstacle that was found at or below a folder and still exists; "" if there is none."""
    path = _known.get(top, "")
    if path and not (said := _problem(path)):
        _known.pop(top, None)
    return said if path else ""


def find_obstacle(top: str) -> str:
    """Describe the first obstacle that a program in the folder `top` would open; "" if none is found soon."""
    until = time.monotonic() + _SECONDS
    for path in _candidates(top):
        if said := _problem(path):
            _known[top] = path
            return said
        if time.monotonic() > until:
            break
    return ""


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        yield (folder := above)


def _in_folder(folder: str) -> Iterator[str]:
    return (os.path.join(folder, name) for name in (*sorted(_NAMES), *_INSIDE, *_GIT))


def _candidates(top: str) -> Iterator[str]:
    for folder in _upwards(top):
        yield from _in_folder(folder)
    yield os.path.expanduser("~/.gitconfig")
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    yield from (os.path.join(own, "git", name) for name in _OWN)
    # Nearest first.
    left = deque([top])
    while left:
        folder = left.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name in _NAMES:
                        yield entry.path
                    elif entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            continue
        # Yield something harmless, so that the time limit is checked in folders without such files.
        yield folder


def _problem(path: str) -> str:
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
    elif stat.S_ISREG(state.st_mode) and state.st_size > LARGEST and not path.endswith(_GIT):
        what = f"has {state.st_size:,} bytes"
    else:
        return ""
    return f"{path} {what}, and git and ripgrep read it whole; remove it first"
