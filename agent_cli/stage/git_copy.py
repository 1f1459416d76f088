"""Give the copy of a repository a git folder of its own, so that refs, index, stash and configuration are separate.

Objects are shared, read-only: each object folder is mounted below the copy's git folder, which names it as an
alternate (gitrepository-layout(5), objects/info/alternates). New objects go to the copy.

Commits and branches of the user come into the copy as long as the turns have committed and staged nothing there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from agent_cli.stage.tree import TreeEntry, copy_entry, look, read_entry, remove_entry, scan
from agent_tools.fs.safe_files import read_text
from agent_tools.process.guarded_git import GitError, isolated_git

_MAX_NAME_BYTES = 10_000
# Not copied: objects are shared, other worktrees have nothing to do with this one, and sockets cannot be.
_LEFT = frozenset(("objects", "worktrees", "modules", "shared", "fsmonitor--daemon", "fsmonitor--daemon.ipc"))
# Of a linked worktree, these are its own; the rest is that of the main worktree.
_OWN = ("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD",
        "AUTO_MERGE", "index", "config.worktree", "info/sparse-checkout", "logs/HEAD")  # fmt: skip
_OWN_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_MAX_ALTERNATES = 20
# What says which commit is checked out, where the branches are and what is staged. The first ones also change when
# nothing else does.
_UNMARKED = frozenset(("logs", "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE"))
_STATE = _UNMARKED | {"HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "index",
                      "packed-refs", "refs", *_OWN_FOLDERS}  # fmt: skip
_MAX_STATE_BYTES = 1 << 28


class SharedObjects(NamedTuple):
    """An object folder to mount read-only. at: the mount point, below the root of the copy."""

    source: Path
    at: str


def copy_git_folder(root: Path, copy: Path, path: str, program: str) -> list[SharedObjects]:
    """Make the git folder at a path below the root anew in the copy; return what is to be mounted in it.

    path: ends in ".git", and is a folder, or the file of a linked worktree or submodule. program: git.
    Raises OSError, GitError.
    """
    place = root / path
    if place.is_file():
        own = _named_folder(place)
        if not own.is_dir():  # git could not use it either
            shutil.copy2(place, copy / path)
            return []
        if own.is_relative_to(root / ".git" / "modules"):  # copied with the git folder of the root
            shutil.copy2(place, copy / path)
            return []
        common = _common_folder(own)
    else:
        own = common = Path(os.path.realpath(place))
    shared = _copy(own, common, copy, path)
    if own != common or place.is_file():
        _make_main_worktree(copy / path / "config", program)
    return shared


def git_mark(root: Path, path: str) -> str:
    """Return what tells apart the states of a git folder; "" while git changes it. Raises OSError."""
    from hashlib import blake2b  # loads OpenSSL, which most runs do not need

    if look(root, f"{path}/index.lock") is not None:
        return ""
    found = blake2b(digest_size=16)
    for name, entry in sorted(_state(root, path).items()):
        own = name.removeprefix(f"{path}/")
        if own.partition("/")[0] in _UNMARKED or entry.kind == "folder":
            continue
        data = os.fsencode(entry.target)
        if entry.kind == "file":
            data = read_entry(root, name, _MAX_STATE_BYTES) or repr(entry).encode()
        data = _staged(data) if own == "index" else data
        found.update(os.fsencode(f"{own}\0{entry.kind}\0{len(data)}\0") + data)
    return found.hexdigest()


def follow_git_folder(root: Path, copy: Path, path: str) -> None:
    """Let the copy of a git folder have the commit, branches and index of the project's. Raises OSError."""
    theirs, ours = _state(root, path), _state(copy, path)
    for name in sorted(ours, reverse=True):
        if {ours[name].kind, getattr(theirs.get(name), "kind", "")} != {"folder"}:
            remove_entry(copy, name)
    for name in sorted(theirs):
        if theirs[name].kind != "folder" or look(copy, name) is None:
            copy_entry(root, copy, name, theirs[name])


def _state(root: Path, path: str) -> dict[str, TreeEntry]:
    """Return the files and folders that are the state of a git folder, by path below the root."""
    found = scan(root / path, _LEFT)
    return {
        f"{path}/{name}": entry
        for name, entry in found.items()
        if name.partition("/")[0] in _STATE and not name.endswith(".lock")
    }


def _staged(index: bytes) -> bytes:
    """Return the entries of an index without the times of files, which `git status` renews; all of an unknown form.

    See gitformat-index(5); versions 2 and 3, with SHA-1.
    """
    if index[:4] != b"DIRC" or index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return index
    at, entries = 12, list[bytes]()
    for _ in range(int.from_bytes(index[8:12], "big")):
        flags = int.from_bytes(index[at + 60 : at + 62], "big")
        name = at + 62 + (2 if flags & 0x4000 else 0)
        end = index.find(b"\0", name)
        if end < name or (length := flags & 0xFFF) not in (end - name, 0xFFF) or (length == 0xFFF > end - name):
            return index
        entries.append(index[at + 24 : at + 28] + index[at + 40 : end + 1])
        at += (end - at + 8) // 8 * 8
    return b"".join(entries)


def _named_folder(file: Path) -> Path:
    """Return the git folder that a .git file names."""
    text = read_text(file, _MAX_NAME_BYTES).strip().removeprefix("gitdir:").strip()
    return Path(os.path.realpath(file.parent / text))


def _common_folder(own: Path) -> Path:
    try:
        return Path(os.path.realpath(own / read_text(own / "commondir", _MAX_NAME_BYTES).strip()))
    except FileNotFoundError:
        return own


def _copy(own: Path, common: Path, copy: Path, path: str) -> list[SharedObjects]:
    """Copy a git folder, and those of its submodules."""
    target = copy / path
    target.mkdir()
    for source in sorted(common.iterdir()):
        name = source.name
        if name in _LEFT or name.endswith(".lock"):
            continue
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target / name, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
        elif source.is_symlink() or source.is_file():
            shutil.copy2(source, target / name, follow_symlinks=False)
    if own != common:
        for name in _OWN:
            (target / name).unlink(missing_ok=True)
            if (own / name).is_file():
                (target / name).parent.mkdir(exist_ok=True)
                shutil.copy2(own / name, target / name)
        for name in _OWN_FOLDERS:
            shutil.rmtree(target / name, ignore_errors=True)
            if (own / name).is_dir():
                shutil.copytree(own / name, target / name, symlinks=True)
    found = _share_objects(common / "objects", target, path)
    modules = common / "modules"
    for folder, names, files in os.walk(modules) if modules.is_dir() else ():
        if "HEAD" in files and "objects" in names:
            names.clear()
            inner = Path(folder)
            relative = f"{path}/modules/{inner.relative_to(modules)}"
            (copy / relative).parent.mkdir(parents=True, exist_ok=True)
            found += _copy(inner, inner, copy, relative)
    return found


def _share_objects(objects: Path, target: Path, path: str) -> list[SharedObjects]:
    """Make an empty object folder whose alternates are the given one and its own alternates."""
    found: list[SharedObjects] = []
    if not objects.is_dir():  # no repository
        return found
    for number, source in enumerate(_with_alternates(objects)):
        (target / "shared" / str(number)).mkdir(parents=True)
        found.append(SharedObjects(source, f"{path}/shared/{number}"))
    for name in ("info", "pack"):
        (target / "objects" / name).mkdir(parents=True)
    lines = "".join(f"../shared/{number}\n" for number in range(len(found)))
    (target / "objects" / "info" / "alternates").write_text(lines)
    return found


def _with_alternates(objects: Path) -> list[Path]:
    found = [Path(os.path.realpath(objects))]
    for folder in found:
        try:
            text = read_text(folder / "info" / "alternates", 1 << 20)
        except OSError:
            continue
        for line in text.splitlines():
            other = Path(os.path.realpath(folder / line)) if line and not line.startswith("#") else folder
            if other not in found and len(found) < _MAX_ALTERNATES and other.is_dir():
                found.append(other)
    return found


def _make_main_worktree(config: Path, program: str) -> None:
    """Let the configuration of a linked worktree or submodule be that of a repository with one worktree."""
    git = isolated_git(program)
    try:
        git.run("config", "--file", str(config), "--unset-all", "core.worktree")
    except GitError as error:
        if error.code != 5:  # it was not set
            raise
    git.run("config", "--file", str(config), "core.bare", "false")
