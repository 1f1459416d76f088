"""Store the files of a work tree as a git tree, by plumbing that starts nothing.

`git add --all`, `git status` and `git stash` run git in each repository inside the work tree, with the configuration of
that repository: its filters and monitors would run. The commands used here never enter one. Repositories inside, and
submodules, are left as they are in the index.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.process.guarded_git import GitError, GitRun

_SECONDS = 600.0
_MAX_INDEX_BYTES = 512 << 20
_MAX_SINGLE_ADDS = 200
_FILE_ERROR = re.compile(r"process path|unable to (?:index|stat|read)|is a directory|beyond a symbolic|open\(")
NO_SUBMODULES = "--ignore-submodules=all"

# Runs a git command on an index, with standard input. Raises GitError.
IndexRun = Callable[[Sequence[str], bytes], bytes]


def split_paths(output: bytes) -> list[str]:
    """Return the paths in the output of a git command with -z."""
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def join_paths(paths: Iterable[str]) -> bytes:
    """Return paths as a git command with -z reads them."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def copy_index(source: Path, target: Path) -> None:
    """Copy an index, with which git need not read unchanged files. Raises OSError, ValueError."""
    data, state = read_regular(source, _MAX_INDEX_BYTES), os.stat(source)  # noqa: PTH116 - the times of what was read
    write_atomic(target, data, sync=False)
    # Git reads files again that are as recent as their index.
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def store_tree(git: GitRun, index: Path, new: Sequence[str] = ("--exclude-standard",)) -> str:
    """Return the ID of a tree with the files of git's work tree as they are now. Files that cannot be read are omitted.

    index: a copy of the repository's index, or a file that does not exist; it is updated. Filters run as configured.
    new: options of `git ls-files` that select files that are not in the index.

    Raises GitError.
    """
    env = {"GIT_INDEX_FILE": str(index), "GIT_LITERAL_PATHSPECS": "1"}
    root = git.env["GIT_WORK_TREE"]

    def run(words: Sequence[str], feed: bytes = b"") -> bytes:
        return git.run(*words, feed=feed, cwd=root, env=env, seconds=_SECONDS)

    others = split_paths(run(("ls-files", "-z", "--others", *new)))
    # From an index that does not exist, nothing differs.
    raw = run(("diff-files", "-z", "--raw", NO_SUBMODULES)) if index.exists() else b""
    gone, changed = split_raw(raw)
    # A path that ends in a slash is another repository.
    add = list(dict.fromkeys([*changed, *(path for path in others if not path.endswith("/"))]))
    update_index(run, gone, add, lambda _: None)
    return run(("write-tree", "--missing-ok")).decode("ascii").strip()


def split_raw(output: bytes) -> tuple[list[str], list[str]]:
    """Return the paths that are gone, and those that may have changed, from `git diff-files -z --raw`."""
    fields = output.split(b"\0")
    gone: list[str] = []
    changed: list[str] = []
    for head, name in zip(fields[0::2], fields[1::2], strict=False):
        (gone if head.endswith(b" D") else changed).append(os.fsdecode(name))
    return gone, changed


def update_index(run: IndexRun, removed: Iterable[str], add: Sequence[str], refuse: Callable[[str], None]) -> None:
    """Update an index from the work tree; `refuse` is called with each file that turns out to be unreadable.

    Raises GitError.
    """
    if names := join_paths(removed):
        run(("update-index", "-z", "--force-remove", "--stdin"), names)
    if add:
        _add(run, add, refuse)


def _add(run: IndexRun, add: Sequence[str], refuse: Callable[[str], None]) -> None:
    words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    try:
        run(words, join_paths(add))
    except GitError as error:
        # A file changed meanwhile or cannot be read; git does not reliably report which one.
        if not _FILE_ERROR.search(str(error)):
            raise
        if len(add) > _MAX_SINGLE_ADDS:
            half = len(add) // 2
            _add(run, add[:half], refuse)
            _add(run, add[half:], refuse)
            return
        for path in add:
            try:
                run(words, os.fsencode(path) + b"\0")
            except GitError:
                refuse(path)
