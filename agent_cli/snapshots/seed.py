"""The first snapshot of a repository from the user's own index, so that clean tracked files cost nothing.

The index is copied, never used in place. An entry is believed only where it can be: what git converts on its way into
the repository, what is marked as unchanged by hand, what is in conflict or of which the object is missing is read from
the disk instead. Submodules are dropped: they are repositories of their own.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from agent_cli.permission.git_standing import git_folders
from agent_cli.snapshots.git import Git, StoreError
from agent_tools.private import write_whole
from agent_tools.regular import read_regular

_LARGEST = 256 << 20
_CONVERTS = re.compile(rb"(?m)^[^#\n]*\s(?:filter|working-tree-encoding)=")


def user_index(root: Path) -> Path | None:
    """The index of the repository at `root`; None where there is none."""
    folders = git_folders(root) if os.path.lexists(root / ".git") else []
    index = folders[-1] / "index" if folders else None
    return index if index is not None and os.path.isfile(index) else None  # noqa: PTH113 - as elsewhere


def seed(git: Git, root: Path, index: Path) -> list[str] | None:
    """Make `index` from the user's; the paths that have to be read from the disk. None where that cannot be done."""
    source = user_index(root)
    if source is None:
        return None
    try:
        data, state = read_regular(source, _LARGEST), os.stat(source)  # noqa: PTH116
        write_whole(index, data, sync=False)
        # When it was written says which of its entries are to be looked at again.
        os.utime(index, ns=(state.st_atime_ns, state.st_mtime_ns))
        listed = git.run("ls-files", "-z", "-v", "-s", tree=str(root), index=index)
        return _cleaned(git, str(root), index, listed)
    except (OSError, StoreError, ValueError):
        index.unlink(missing_ok=True)
        return None


def _cleaned(git: Git, root: str, index: Path, listed: bytes) -> list[str]:
    """Take what cannot be believed out of the index; those paths."""
    entries: dict[str, tuple[str, str]] = {}
    doubted: dict[str, None] = {}
    for row in listed.split(b"\0"):
        if not row:
            continue
        head, _, name = row.partition(b"\t")
        tag, mode, oid, stage = head.decode("ascii").split()
        path = os.fsdecode(name)
        if tag != "H" or stage != "0" or mode == "160000":
            doubted[path] = None
        else:
            entries[path] = (mode, oid)
    sizes = git.have(oid for _, oid in entries.values())
    for path, (mode, oid) in entries.items():
        size = sizes.get(oid, -1)
        try:
            there = os.lstat(f"{root}/{path}")
        except OSError:
            continue
        # Of another size is what was changed, and what git converted.
        if size < 0 or (stat.S_ISREG(there.st_mode) and mode != "120000" and there.st_size != size):
            doubted[path] = None
    doubted.update(dict.fromkeys(_converted(git, root, index, list(entries))))
    if doubted:
        names = b"".join(os.fsencode(p) + b"\0" for p in doubted)
        git.run("update-index", "-z", "--force-remove", "--stdin", feed=names, tree=root, index=index)
    return list(doubted)


def _converted(git: Git, root: str, index: Path, paths: list[str]) -> list[str]:
    """The files that a filter or another encoding may change without changing their size."""
    attributes = [p for p in paths if p.rpartition("/")[2] == ".gitattributes"]
    attributes += [p for p in (".gitattributes",) if p not in attributes]
    files = [f"{root}/{p}" for p in attributes] + [str(f / "info/attributes") for f in git_folders(Path(root))]
    if not any(_CONVERTS.search(_bytes(f)) for f in files):
        return []
    # A git folder without our own attributes, which say that nothing is converted, but with the user's.
    plain = Git(git.home.with_name("attributes.git"), git.program)
    own = b"\n".join(_bytes(f) for f in files if f.endswith("info/attributes"))
    write_whole(plain.home / "info/attributes", own, sync=False)
    feed = b"".join(os.fsencode(p) + b"\0" for p in paths)
    words = ("check-attr", "-z", "--stdin", "filter", "working-tree-encoding")
    fields = plain.run(*words, feed=feed, tree=root, index=index).split(b"\0")
    rows = zip(fields[0::3], fields[2::3], strict=False)
    return [os.fsdecode(name) for name, value in rows if value not in (b"unspecified", b"unset")]


def _bytes(file: str) -> bytes:
    try:
        return read_regular(file, 1 << 20)
    except (OSError, ValueError):
        return b""
