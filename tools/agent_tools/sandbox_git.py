"""The repository of a workspace: which of its directories a commit writes, and what in them must stay as it is.

Git runs what its hooks and its configuration name, and takes both from where `commondir` points (gitrepository-layout).
Commits, branches and stashes need none of these changed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from agent_tools.regular import read_regular

# `commondir` decides where all the others are read from. `worktrees` and `modules` have the same parts in them again.
PARTS = ("config", "config.worktree", "hooks", "info", "commondir")
INNER = ("worktrees", "modules")
_LARGEST = 1_000_000


def git_directories(root: Path) -> tuple[list[Path], list[Path]]:
    """Directories outside `root` that its repository writes, and paths to protect, inside and outside.

    A `.git` that is missing is protected itself, and so are the parts of a bare repository. A `.git` that is a file is
    protected, and where it points may be written if that place names `root` in turn: anyone can write such a file, and
    it must not open other people's directories.
    """
    dot = root / ".git"
    # A repository without a work tree is its own git directory; git takes it where it finds no valid `.git`.
    bare = _parts(root) if all((root / name).exists() for name in ("HEAD", "objects", "refs")) else []
    if not dot.is_file() or dot.is_symlink():
        return [], [*bare, *(_parts(dot) if dot.is_dir() and not dot.is_symlink() else [dot])]
    own = _pointer(dot, "gitdir: ")
    if own is None or not _belongs(own, root):
        return [], [*bare, dot]
    common = _pointer(own / "commondir", "") or own
    writable = [common] if own.is_relative_to(common) else [common, own]
    return [*writable, own] if own != common else writable, [*bare, dot, *_parts(common), *_parts(own)]


def _parts(directory: Path) -> list[Path]:
    return [*(directory / name for name in PARTS), *(p for name in INNER if (p := directory / name).exists())]


def _pointer(file: Path, start: str) -> Path | None:
    """The existing directory that a file of git names."""
    text = _read(file).strip()
    if not text.startswith(start):
        return None
    with suppress(OSError, ValueError):
        found = (file.parent / text.removeprefix(start)).resolve(strict=True)
        return found if found.is_dir() else None
    return None


def _belongs(directory: Path, root: Path) -> bool:
    """Whether a git directory says itself that it is that of `root`: a worktree's back link, a submodule's setting."""
    if back := _read(directory / "gitdir").strip():
        return (directory / back).resolve() == root / ".git"
    worktree = re.search(r"(?m)^\s*worktree\s*=\s*(.+?)\s*$", _read(directory / "config"))
    return worktree is not None and (directory / worktree[1].strip('"')).resolve() == root


def _read(file: Path) -> str:
    try:
        return os.fsdecode(read_regular(file, _LARGEST))
    except OSError:
        return ""
