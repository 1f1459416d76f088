"""What is in a folder, to compare it with what was there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

Tree = dict[str, tuple[str, int, bytes]]


def tree_of(root: Path, *, inside_git: bool = False) -> Tree:
    """Every file and link below a folder: kind, permissions, content."""
    found: Tree = {}
    for here, folders, names in os.walk(root):
        folders[:] = [f for f in folders if inside_git or f != ".git"]
        for name in [*names, *folders]:
            path = os.path.join(here, name)
            state = os.lstat(path)
            if stat.S_ISLNK(state.st_mode):
                found[path] = ("link", 0, os.fsencode(Path(path).readlink()))
            elif stat.S_ISREG(state.st_mode):
                found[path] = ("file", stat.S_IMODE(state.st_mode), Path(path).read_bytes())
    return found
