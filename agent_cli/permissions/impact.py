"""Compute what a destructive command would lose, for an approval request: files, uncommitted lines, commits, stashes.

Time is limited; what could not be inspected is reported. Git is only used in a trusted workspace, hardened as for all
reads, and never writes.
Also fingerprints the same things, to check later that they are still what the user was shown. Files are compared by
size, time and inode, without reading them.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent_cli.permissions.destructive import Danger, dangers
from agent_cli.permissions.find_run import found_by
from agent_cli.permissions.git_use import NoRepositoryError, NotUsableError, Use, git_to_read
from agent_cli.permissions.operands import MAX_MATCHES, resolve_operand
from agent_cli.permissions.shell.analysis import analyse
from agent_cli.permissions.shell.words import Word
from agent_tools.fs.workspace import real_path
from agent_tools.process.guarded_git import GitError, GitRun
from agent_tools.text import counted

MAX_SECONDS = 0.3
_WALK_SECONDS = 0.05
_FIND_SECONDS = 0.3
# In a tree with more files, only these are compared.
_MAX_MARKS = 5_000
_MARK_SECONDS = 2.0
_FILE_KINDS = ("delete", "tree", "overwrite", "attributes")
_MAX_LISTED = 10
_REF = re.compile(r"[\w./@{}~^-]+")
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


class GitUnavailableError(OSError):
    """Git was not used or did not answer; the message says why."""


class GitReader:
    """Reads the repository at `root` within the remaining time.

    use: see `git_use`.
    """

    def __init__(self, root: str, env: Mapping[str, str], use: Use, seconds: float | None = None) -> None:
        self._env = env
        self._root = root
        self._use = use
        self._until = time.monotonic() + (MAX_SECONDS if seconds is None else seconds)
        self._run: GitRun | None = None

    @property
    def left(self) -> float:
        return self._until - time.monotonic()

    def ask(self, cwd: str, *words: str) -> str:
        """Return what git prints. Raises GitUnavailableError, and LookupError if git fails."""
        if not self._belongs(cwd):
            raise GitUnavailableError("because it is outside this repository")
        if self.left < 0.01:
            raise GitUnavailableError("in time")
        try:
            if self._run is None:
                self._run = git_to_read(Path(self._root), self._env, self._use)
            out = self._run.run("--literal-pathspecs", *words, cwd=cwd, seconds=self.left)
        except NoRepositoryError:
            raise LookupError from None
        except NotUsableError as error:
            raise GitUnavailableError(f"because {error}") from None
        except GitError as error:
            if error.code:
                raise LookupError from None
            raise GitUnavailableError("in time") from None
        return out.decode("utf-8", "surrogateescape")

    def _belongs(self, cwd: str) -> bool:
        """Return True if a directory belongs to the repository and not to a nested one: trust is not inherited."""
        here = real_path(cwd)
        while here != self._root:
            if not here.startswith(f"{self._root.rstrip('/')}/") or os.path.lexists(os.path.join(here, ".git")):
                return False
            here = os.path.dirname(here)  # noqa: PTH120
        return True

    def changed(self, cwd: str, *words: str) -> tuple[list[str], int, int]:
        """Return the files of a `git diff`, and its added and removed lines. Raises as `ask`."""
        text = self.ask(cwd, "diff", "--numstat", "-z", "--no-renames", *words)
        rows = [r.split("\t", 2) for r in text.split("\0") if r.count("\t") >= 2]
        added, removed = (sum(int(r[i]) for r in rows if r[i].isdigit()) for i in (0, 1))
        return [r[2] for r in rows], added, removed


def describe_losses(found: Iterable[Danger], git: GitReader) -> tuple[str, ...]:
    """Describe what would be lost, a line each. Never raises."""
    lines: list[str] = []
    for danger in found:
        for cwd in danger.part.cwds if danger.part.cwds is not None else ():
            try:
                lines += _describe_loss(danger, os.path.normpath(os.path.join(cwd, danger.folder)), git)
            except GitUnavailableError as error:
                lines.append(f"{_describe_target(danger)}: what git knows about it could not be read {error}")
            except (OSError, LookupError, ValueError):
                lines.append(f"{_describe_target(danger)}: what would be lost could not be computed")
        if danger.part.cwds is None:
            lines.append(
                f"{_describe_target(danger)}: runs in an unknown directory, so it is not known what would be lost"
            )
    return tuple(dict.fromkeys(lines))


def _describe_target(danger: Danger) -> str:
    return " ".join(danger.names) if danger.names != (">",) else "the redirection"


def _describe_loss(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    match danger.kind:
        case "delete" | "tree" | "attributes":
            yield from _files(danger, cwd, git)
        case "overwrite":
            yield from _overwritten(danger, cwd, git)
        case "restore" | "reset":
            yield from _uncommitted(danger, cwd, git)
        case "clean":
            yield _cleaned(danger, cwd, git)
        case "stash":
            yield _stashes(danger, cwd, git)
        case "branch":
            yield from _branches(danger, cwd, git)
        case _:
            yield from _pushed(danger, cwd, git)


def _unknown(words: Iterable[Word]) -> str:
    return next((f"{w.text} ({w.why})" for w in words if w.why), "")


def _acted_on(danger: Danger, cwd: str) -> tuple[list[str], bool]:
    """Return the paths that a danger removes or changes, and True if each stands only for itself.

    Of a directory that `rm -r` removes, everything below goes, too. `find` names every file and directory itself, if
    what it selects can be found out.
    """
    if danger.find is not None:
        action = next(term for term in danger.find.terms if term.kind == "delete")
        found = found_by(danger.find, action, cwd, _FIND_SECONDS)
        if found is not None:
            return [resolve_operand(cwd, name).entry for name in found if name not in (".", "./")], True
    return [target.path for target in danger.targets(cwd)], danger.kind == "delete"


class _FileCount:
    """Files below some paths: their number, bytes, first names, and whether the count is complete."""

    def __init__(self, paths: list[str], deep: bool) -> None:
        self.count = self.bytes = self.folders = 0
        self.names: list[str] = []
        self.whole = True
        until = time.monotonic() + _WALK_SECONDS
        for path in paths:
            try:
                state = os.lstat(path)
            except OSError:
                continue
            if not stat.S_ISDIR(state.st_mode):
                self._add(path, state.st_size)
                continue
            self.folders += 1
            for here, folders, files in _walk_below(path) if deep else ():
                self.folders += len(folders)
                for name in files:
                    inner = os.path.join(here, name)
                    try:
                        self._add(inner, os.lstat(inner).st_size)
                    except OSError:
                        continue
                if time.monotonic() > until:
                    self.whole = False
                    return

    def _add(self, path: str, size: int) -> None:
        self.count += 1
        self.bytes += size
        if len(self.names) < _MAX_LISTED:
            self.names.append(path)


def _files(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    if unknown := _unknown(danger.words):
        yield f"{_describe_target(danger)}: it is not known what it acts on: {unknown}"
    paths, alone = _acted_on(danger, cwd)
    files = _FileCount(paths, not alone)
    uncertain = danger.find is not None and not alone
    verb = "changes" if danger.kind == "attributes" else "deletes up to" if uncertain else "deletes"
    for target in danger.targets(cwd):
        if target.follows:
            yield f"{target.text} is a link: {verb} what is in {target.path}"
    if not files.count and not files.folders:
        if not unknown:
            yield f"{_describe_target(danger)}: nothing would be lost: {_list(paths, cwd)}"
        return
    least = "" if files.whole else "at least "
    folders = f" in {counted(files.folders, 'folder')}" if files.folders else ""
    more = files.count - len(files.names)
    names = f": {_list(files.names, cwd)}{f' and {more:,} more' if more else ''}" if files.names else ""
    yield f"{verb} {least}{counted(files.count, 'file')} ({_size(files.bytes)}){folders}{names}"
    if danger.kind != "attributes" and files.count:
        yield _recoverable(paths, files.count, cwd, git)


def _recoverable(paths: list[str], count: int, cwd: str, git: GitReader) -> str:
    """Describe how many of the files git could restore as they are."""
    inside = paths[:MAX_MATCHES]
    try:
        tracked = [f for f in git.ask(cwd, "ls-files", "-z", "--", *inside).split("\0") if f]
        changed, added, removed = git.changed(cwd, "HEAD", "--", *inside)
    except LookupError:
        return "not in a git repository: they cannot be restored"
    there = sum(os.path.lexists(os.path.join(cwd, f)) for f in tracked)
    clean = max(there - len(changed), 0)
    parts = [f"{clean:,} as committed (git can restore them)"] if clean else []
    if changed:
        parts.append(f"{len(changed):,} with uncommitted changes (+{added} -{removed} lines)")
    if count > there:
        parts.append(f"{count - there:,} that git has no copy of")
    return f"of these: {', '.join(parts)}"


def _overwritten(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    for target in danger.targets(cwd):
        path, real = target.entry, target.path
        try:
            state = os.stat(real)  # noqa: PTH116
        except OSError:
            continue
        if not stat.S_ISREG(state.st_mode) or not state.st_size:
            continue
        shown = _list([path], cwd) + (f" -> {real}" if real != path else "")
        yield f"overwrites {shown} ({_size(state.st_size)}{_git_state(real, git)})"


def _git_state(path: str, git: GitReader) -> str:
    folder = os.path.dirname(path)  # noqa: PTH120
    try:
        if not git.ask(folder, "ls-files", "-z", "--", path):
            return ", not in git"
        changed, added, removed = git.changed(folder, "HEAD", "--", path)
    except LookupError:
        return ", not in git"
    except GitUnavailableError:
        return ""
    return f", uncommitted changes: +{added} -{removed} lines" if changed else ", as committed"


def _uncommitted(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe uncommitted changes, and for a reset the commits that the branch would lose."""
    if danger.kind == "reset":
        files, added, removed = git.changed(cwd, "HEAD")
    else:
        paths = [w.text for w in danger.words if not w.why]
        files, added, removed = git.changed(cwd, *(["--", *paths] if danger.words else ["HEAD"]))
    if unknown := _unknown(danger.words):
        yield f"{_describe_target(danger)}: it is not known what it acts on: {unknown}"
    if files:
        more = f" and {len(files) - _MAX_LISTED:,} more" if len(files) > _MAX_LISTED else ""
        listed = ", ".join(files[:_MAX_LISTED])
        lines = f"+{added} -{removed} lines"
        yield f"loses the uncommitted changes of {counted(len(files), 'file')} ({lines}): {listed}{more}"
    else:
        yield f"{_describe_target(danger)}: no uncommitted changes would be lost"
    if danger.kind == "reset" and danger.words and _REF.fullmatch(danger.words[0].text):
        dropped = int(git.ask(cwd, "rev-list", "--count", "--end-of-options", f"{danger.words[0].text}..HEAD"))
        if dropped:
            yield f"takes {counted(dropped, 'commit')} from the branch"


def _cleaned(danger: Danger, cwd: str, git: GitReader) -> str:
    """Describe the untracked files that `git clean` would delete."""
    which = ["--others"]
    if "X" in danger.flags:
        which += ["--ignored", "--exclude-standard"]
    elif "x" not in danger.flags:
        which.append("--exclude-standard")
    if "d" not in danger.flags:
        which.append("--directory")
    paths = [w.text for w in danger.words if not w.why]
    found = [f for f in git.ask(cwd, "ls-files", "-z", *which, "--", *paths).split("\0") if f and f[-1] != "/"]
    if not found:
        return f"{_describe_target(danger)}: there are no such files to delete"
    total = 0
    for name in found[:MAX_MATCHES]:
        try:
            total += os.lstat(os.path.join(cwd, name)).st_size
        except OSError:
            continue
    more = f" and {len(found) - _MAX_LISTED:,} more" if len(found) > _MAX_LISTED else ""
    size = _size(total) if len(found) <= MAX_MATCHES else f"at least {_size(total)}"
    listed = ", ".join(found[:_MAX_LISTED])
    return f"deletes {counted(len(found), 'file')} that git has no copy of ({size}): {listed}{more}"


def _stashes(danger: Danger, cwd: str, git: GitReader) -> str:
    entries = [e for e in git.ask(cwd, "stash", "list", "-z", "--format=%gd: %s").split("\0") if e.strip()]
    if "drop" in danger.names:
        wanted = danger.words[0].text if danger.words else "stash@{0}"
        wanted = f"stash@{{{wanted}}}" if wanted.isdigit() else wanted
        entries = [e for e in entries if e.startswith(f"{wanted}:")]
    if not entries:
        return f"{_describe_target(danger)}: no such stash exists"
    more = f" and {len(entries) - _MAX_LISTED} more" if len(entries) > _MAX_LISTED else ""
    word = "stash entry" if len(entries) == 1 else "stash entries"
    return f"drops {len(entries)} {word}: {'; '.join(entries[:_MAX_LISTED])}{more}"


def _branches(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    for word in danger.words:
        if word.why or not _REF.fullmatch(word.text) or word.text.startswith("-"):
            yield f"deletes a branch that is not known: {word.text}"
            continue
        others = ("--not", "HEAD", f"--exclude={word.text}", "--branches", "--remotes", "--tags")
        only = int(git.ask(cwd, "rev-list", "--count", f"refs/heads/{word.text}", *others))
        had = f"{counted(only, 'commit')} that no other branch has" if only else "all its commits are on others too"
        yield f"deletes the branch {word.text}: {had}"


def _pushed(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe what a remote would lose, as of the last fetch."""
    remote = danger.words[0].text if danger.words else "origin"
    if "m" in danger.flags:
        yield f"makes {remote} identical to this repository: anything that is only there is lost"
        return
    names = [w.text for w in danger.words[1:] if not w.why and _REF.fullmatch(w.text.lstrip("+:").replace(":", ""))]
    if not names:
        names = [git.ask(cwd, "symbolic-ref", "--short", "HEAD").strip()]
    for name in names:
        source, _, target = name.lstrip("+").rpartition(":")
        source, target = source or target, target.removeprefix("refs/heads/")
        there = f"refs/remotes/{remote}/{target}"
        kept = ("--not", f"--exclude={remote}/{target}", "--remotes", "--branches")
        against = kept if danger.kind == "unpush" else ("--not", source)
        try:
            lost = int(git.ask(cwd, "rev-list", "--count", there, *against))
        except LookupError:
            yield f"{_describe_target(danger)}: {remote}/{target} was never fetched, so its content is not known"
            continue
        verb = "deletes" if danger.kind == "unpush" else "replaces"
        had = counted(lost, "commit") + (
            " that nothing else has" if danger.kind == "unpush" else " of it would be gone"
        )
        yield f"{verb} {target} at {remote}: {had}, as of the last fetch"


def _list(paths: Iterable[str], cwd: str) -> str:
    """Join paths relative to a directory."""
    return ", ".join(os.path.relpath(p, cwd) if p.startswith(f"{cwd}/") else p for p in paths)


def _size(count: int) -> str:
    """Format a number of bytes: 17 bytes, 23.4 kB."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return counted(count, "byte") if unit == 0 else f"{size:.1f} {_SIZES[unit]}"


def at_stake(command: str, cwd: str, home: str, git: GitReader) -> dict[str, str]:
    """Fingerprint each file and git ref that a command line would remove or replace. Never raises."""
    marks: dict[str, str] = {}
    for danger in dangers(analyse(command, cwd, home)):
        for place in danger.part.cwds or ():
            try:
                for name, mark in _marks(danger, os.path.normpath(os.path.join(place, danger.folder)), git):
                    if len(marks) < _MAX_MARKS:
                        marks[name] = mark
            except (OSError, LookupError, ValueError):
                continue
    return marks


def reader(root: str, env: Mapping[str, str], use: Use) -> GitReader:
    """Return the git reader for fingerprints, with its time limit."""
    return GitReader(root, env, use, _MARK_SECONDS)


def _marks(danger: Danger, cwd: str, git: GitReader) -> Iterator[tuple[str, str]]:
    if danger.kind in _FILE_KINDS:
        for target in danger.targets(cwd):
            yield target.entry, _mark(target.entry)
            if target.follows:
                yield target.path, _mark(target.path)
        paths, alone = _acted_on(danger, cwd)
        for path in paths if danger.kind != "overwrite" else ():
            yield path, _mark(path)
            if not alone:
                yield from _below(path)
    elif danger.kind in ("restore", "reset", "clean"):
        top = git.ask(cwd, "rev-parse", "--show-toplevel").rstrip("\n")
        yield "HEAD", git.ask(cwd, "rev-parse", "HEAD").strip()
        names = git.ask(top, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        for entry in names.split("\0"):
            if len(entry) > 3 and (danger.kind == "clean" or not entry.startswith("??")):
                path = os.path.join(top, entry[3:])
                yield path, f"{entry[:2]} {_mark(path)}"
    else:
        refs = "refs/stash" if danger.kind == "stash" else "refs/heads" if danger.kind == "branch" else "refs"
        yield refs, git.ask(cwd, "for-each-ref", "--format=%(objectname) %(refname)", refs)


def _below(path: str) -> Iterator[tuple[str, str]]:
    if Path(path).is_symlink():
        return
    count = 0
    for here, folders, files in _walk_below(path):
        folders.sort()
        for name in sorted(files):
            count += 1
            if count > _MAX_MARKS:
                return
            inner = os.path.join(here, name)
            yield inner, _mark(inner)


def _walk_below(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a directory as `os.walk` does, with links to directories among the files."""
    for here, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]  # noqa: PTH114
        folders[:] = [name for name in folders if name not in links]
        yield here, folders, [*files, *links]


def _mark(path: str) -> str:
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return "nothing"
    if stat.S_ISDIR(state.st_mode):
        return "directory"
    return f"{state.st_mode} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
