"""The files that a destructive command removes or overwrites, computed without changing anything."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice

from agent_cli.policy.git_reader import Changes, GitReader
from agent_cli.policy.operands import resolve_operand
from agent_cli.policy.programs.danger import Danger
from agent_cli.policy.programs.find import found_by
from agent_cli.policy.programs.members import replaced_by
from agent_tools.record import Value

_FIND_SECONDS = 0.3
_WALK_SECONDS = 0.05
_MAX_COPIED = 1_000


class LostFiles(Value):
    """Files that are removed, overwritten or changed.

    files: their absolute paths.
    folders: number of directories that are removed or changed with them.
    bytes: their size.
    whole: False if there are more, which were not looked at in time.
    exact: False if only some of them may be lost: which, is not known.
    """

    files: tuple[str, ...] = ()
    folders: int = 0
    bytes: int = 0
    whole: bool = True
    exact: bool = True


def removed_files(danger: Danger, cwd: str, git: GitReader) -> LostFiles:
    """Return what a command loses that names files: `rm`, `find -delete`, `chmod -R`, `mv`, `>`.

    cwd: the directory that it runs in, or the one that `git -C` leads to. Raises as `GitReader.ask`.
    """
    match danger.kind:
        case "overwrite":
            replaced = _overwritten(danger, cwd)
            return _counted(replaced if not danger.unsaved else (p for p in replaced if not _is_committed(p, git)))
        case "tree" if danger.tracked:
            paths = danger.pathspecs(cwd)
            tracked = git.ask(cwd, "ls-files", "-z", "--", *paths, literal=False).split("\0") if paths else []
            return _counted(os.path.join(cwd, name) for name in tracked if name)
    paths, deep, exact = acted_on(danger, cwd)
    return _counted(_below(paths, danger, deep=deep)).replace(exact=exact)


def acted_on(danger: Danger, cwd: str) -> tuple[list[str], bool, bool]:
    """Return the paths that a command removes or changes, whether all below them goes too, and whether that is exact.

    `find` names every file and directory itself, if what it selects can be found out.
    """
    deep = danger.kind in ("tree", "attributes")
    if danger.find is None:
        return [target.path for target in danger.targets(cwd)], deep, not danger.selective
    call, action = danger.find
    found = found_by(call, action, cwd, _FIND_SECONDS)
    if found is None:
        return (
            [resolve_operand(cwd, w.text, follows=bool(call.follows)).path for w in call.starts if not w.why],
            True,
            False,
        )
    paths = [resolve_operand(cwd, name).entry for name in found if name not in (".", "./")]
    return paths, deep and action.kind == "run", True


def _below(paths: Iterable[str], danger: Danger, *, deep: bool) -> Iterator[str]:
    """Yield files and directories: those named, and those below. `rm` without -r leaves directories."""
    for path in paths:
        try:
            folder = stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            continue
        if not folder:
            yield from [path] if danger.certain else []  # rmdir removes no files
        elif deep:
            yield path
            for here, folders, names in walk(path):
                yield from (os.path.join(here, name) for name in (*folders, *names))
        elif "d" in danger.flags and not os.listdir(path):  # noqa: PTH208
            yield path


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a directory as `os.walk` does, with links to directories among the files."""
    for here, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]  # noqa: PTH114
        folders[:] = [name for name in folders if name not in links]
        yield here, folders, [*files, *links]


def _counted(paths: Iterable[str]) -> LostFiles:
    files: list[str] = []
    seen: set[str] = set()
    folders = size = 0
    until = time.monotonic() + _WALK_SECONDS
    for path in paths:
        if time.monotonic() > until:
            return LostFiles(tuple(files), folders, size, whole=False)
        if path in seen:
            continue
        seen.add(path)
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(state.st_mode):
            folders += 1
        else:
            files.append(path)
            size += state.st_size
    return LostFiles(tuple(files), folders, size)


def _overwritten(danger: Danger, cwd: str) -> Iterator[str]:
    """Yield the regular files with content that a redirection, a copy or the like replaces."""
    for path in (*(target.path for target in danger.targets(cwd)), *brought_files(danger, cwd)):
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode) and state.st_size:
            yield path


def brought_files(danger: Danger, cwd: str) -> Iterator[str]:
    """Yield the paths at which copies of folders and unpacked archives put files, as far as they are known."""
    for tree in danger.copied:
        yield from _copied_below(tree, cwd)
    for touch in danger.unpacked:
        if touch.unpacked is not None and not (touch.word.why or touch.where.why) and touch.word.text != "-":
            folder = resolve_operand(cwd, touch.where.text, follows=True).path
            archive = os.path.join(cwd, touch.word.text)
            yield from replaced_by(archive, folder, touch.unpacked) or ()


def unknown_archives(danger: Danger, cwd: str) -> Iterator[tuple[str, str]]:
    """Yield each archive whose members are not known, with the folder that has files which they may replace.

    The archive is "" if it comes from standard input, and the folder if it is not known.
    """
    for touch in danger.unpacked:
        archive = "" if touch.word.text == "-" and not touch.word.why else touch.word.text
        folder = "" if touch.where.why else resolve_operand(cwd, touch.where.text, follows=True).path
        unknown = not archive or touch.word.why or touch.word.pattern or touch.unpacked is None
        if touch.unpacked is not None and not unknown:
            unknown = replaced_by(os.path.join(cwd, archive), folder, touch.unpacked) is None
        if unknown and (not folder or (os.path.isdir(folder) and os.listdir(folder))):  # noqa: PTH112, PTH208
            yield archive, folder


def _is_committed(path: str, git: GitReader) -> bool:
    folder = os.path.dirname(path)  # noqa: PTH120
    try:
        return bool(git.ask(folder, "ls-files", "-z", "--", path)) and not git.changed(folder, "HEAD", "--", path).files
    except LookupError:
        return False


def _copied_below(tree: tuple[str, str], cwd: str) -> Iterator[str]:
    """Yield the files that a recursive copy may replace. tree: the directory that is copied, and its copy."""
    source, target = (resolve_operand(cwd, text, follows=True).path for text in tree)
    if source == target or not os.path.isdir(source) or not os.path.isdir(target):  # noqa: PTH112
        return
    names = (os.path.join(here, name) for here, _, files in os.walk(source) for name in files)
    yield from (os.path.join(target, os.path.relpath(name, source)) for name in islice(names, _MAX_COPIED))


def uncommitted_changes(danger: Danger, cwd: str, git: GitReader) -> Changes:
    """Return the uncommitted changes that a git command discards. Raises as `GitReader.ask`."""
    paths = danger.pathspecs(cwd) if danger.kind == "restore" else []
    limit = ["--", *paths] if paths else []
    match danger.against:
        case "index":
            return git.changed(cwd, *limit, literal=False)
        case "commit":
            return git.changed(cwd, "HEAD", "--diff-filter=a", *limit, literal=False)
        case "staged":
            # It gives up if a file has further changes that are not staged.
            staged = git.changed(cwd, "--cached", "HEAD", *limit, literal=False)
            clash = set(staged.files) & set(git.changed(cwd, *limit, literal=False).files)
            return Changes(()) if clash else staged
        case "nothing":
            return Changes(())
    return git.changed(cwd, "HEAD", *limit, literal=False)


def cleaned_files(danger: Danger, cwd: str, git: GitReader) -> LostFiles:
    """Return the untracked files that `git clean` deletes. Raises as `GitReader.ask`."""
    which = ["--others", *(f"--exclude={pattern}" for pattern in danger.excluded)]
    if "X" in danger.flags:
        which += ["--ignored", "--exclude-standard"]
    elif "x" not in danger.flags:
        which.append("--exclude-standard")
    paths = danger.pathspecs(cwd)
    # With paths, directories are entered without -d, too.
    if "d" not in danger.flags and not paths:
        which.append("--directory")
    found = [name for name in git.ask(cwd, "ls-files", "-z", *which, "--", *paths, literal=False).split("\0") if name]
    nested = [
        os.path.join(cwd, name)
        for name in found
        if name.endswith("/") and os.path.lexists(os.path.join(cwd, name, ".git"))
    ]
    inside = [path for folder in nested if "2" in danger.flags for path in _below([folder], danger, deep=True)]
    return _counted([*(os.path.join(cwd, name) for name in found if not name.endswith("/")), *inside])
