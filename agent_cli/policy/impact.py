"""Compute what a destructive command would lose, for an approval request: files, uncommitted lines, commits, stashes.

Time is limited; what could not be inspected is reported. Git is only used in a trusted workspace, hardened as for all
reads, and never writes.
Also fingerprints the same things, to check later that they are still what the user was shown. Files are compared by
size, time and inode, without reading them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agent_cli.policy.destructive import dangers
from agent_cli.policy.git_reader import GitReader, GitUnavailableError
from agent_cli.policy.git_use import Use
from agent_cli.policy.lost_files import (
    acted_on,
    brought_files,
    cleaned_files,
    removed_files,
    uncommitted_changes,
    unknown_archives,
    walk,
)
from agent_cli.policy.operands import MAX_MATCHES
from agent_cli.policy.programs.danger import Danger, DangerKind
from agent_cli.policy.programs.unwrapping import GIVEN
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern
from agent_tools.text import counted, short_path, shorten

# In a tree with more files, only these are compared.
_MAX_MARKS = 5_000
_MARK_SECONDS = 2.0
_FILE_KINDS = ("delete", "tree", "overwrite", "attributes")
_MAX_LISTED = 10
# More files that are overwritten share a line.
_MAX_SINGLE = 3
_MAX_CHARS = 60
_REF = lazy_pattern(r"[\w./@{}~^-]+")
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def describe_losses(found: Iterable[Danger], git: GitReader) -> tuple[str, ...]:
    """Describe what would be lost, a line each. Never raises."""
    lines: list[str] = []
    unplaced: dict[str, None] = {}
    for danger in found:
        if danger.kind == "service":
            lines.append(f"{shorten(danger.part.text, _MAX_CHARS)}: {danger.lost}, which undo does not cover")
            continue
        describe = _DESCRIBED.get(danger.kind, _pushed)
        for cwd in danger.part.cwds or ():
            try:
                lines += describe(danger, os.path.normpath(os.path.join(cwd, danger.folder)), git)
            except GitUnavailableError as error:
                lines.append(f"{_describe_target(danger)}: what git knows about it could not be read {error}")
            except (OSError, LookupError, ValueError):
                lines.append(f"{_describe_target(danger)}: what would be lost could not be computed")
        if danger.part.cwds is None and (unknown := _unknown(danger.words)):
            lines.append(f"{_describe_target(danger)}: it is not known what it acts on: {unknown}")
        elif danger.part.cwds is None:
            unplaced[_describe_target(danger)] = None
    if unplaced:
        lines.append(f"{', '.join(unplaced)}: in an unknown directory, so it is not known what would be lost")
    return tuple(dict.fromkeys(lines))


def _describe_target(danger: Danger) -> str:
    return " ".join(danger.names) if danger.names != (">",) else "the redirection"


def _unknown(words: Iterable[Word]) -> str:
    return next((f"{w.text} ({w.why})" for w in words if w.why), "")


def _files(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    lost = removed_files(danger, cwd, git)
    if unknown := _unknown(danger.words if danger.find is None or not lost.exact else ()):
        yield f"{_describe_target(danger)}: it is not known what it acts on: {unknown}"
    verb = "changes" if danger.kind == "attributes" else "deletes" if lost.exact else "deletes up to"
    for target in danger.targets(cwd):
        if target.follows:
            yield f"{target.text} is a link: {verb} what is in {target.path}"
    if not lost.files and not lost.folders:
        if not unknown:
            named = ", ".join(w.text for w in danger.words)
            yield f"{_describe_target(danger)}: nothing would be lost{f': {named}' if named else ''}"
        return
    least = "" if lost.whole else "at least "
    folders = f" in {counted(lost.folders, 'folder')}" if lost.folders else ""
    names = f": {_some(lost.files, cwd)}" if lost.files else ""
    yield f"{verb} {least}{counted(len(lost.files), 'file')} ({_size(lost.bytes)}){folders}{names}"
    if danger.kind != "attributes" and lost.files:
        yield _recoverable(lost.files, cwd, git)


def _recoverable(paths: Sequence[str], cwd: str, git: GitReader) -> str:
    """Describe how many of the files git could restore as they are."""
    inside = paths[:MAX_MATCHES]
    try:
        tracked = [f for f in git.ask(cwd, "ls-files", "-z", "--", *inside).split("\0") if f]
        changes = git.changed(cwd, "HEAD", "--", *inside)
    except LookupError:
        return "not in a git repository: they cannot be restored"
    there = sum(os.path.lexists(os.path.join(cwd, f)) for f in tracked)
    changed = len(changes.files)
    clean = max(there - changed, 0)
    parts = [f"{clean:,} as committed (git can restore them)"] if clean else []
    if changed:
        parts.append(f"{changed:,} with uncommitted changes (+{changes.added} -{changes.removed} lines)")
    if len(paths) > there:
        parts.append(f"{len(paths) - there:,} that git has no copy of")
    return f"of these: {', '.join(parts)}"


def _overwritten(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    links = {target.path: target.text for target in danger.targets(cwd) if target.follows}
    lost = removed_files(danger, cwd, git)
    exact = all(touch.unpacked is None or touch.unpacked.exact for touch in danger.unpacked)
    verb = "overwrites" if exact else "may overwrite"
    if len(lost.files) > _MAX_SINGLE:
        least = "" if lost.whole else "at least "
        yield f"{verb} {least}{counted(len(lost.files), 'file')} ({_size(lost.bytes)}): {_some(lost.files, cwd)}"
        yield _recoverable(lost.files, cwd, git)
    else:
        for path in lost.files:
            shown = f"{links[path]} -> {path}" if path in links else _some([path], cwd)
            yield f"{verb} {shown} ({_size(os.lstat(path).st_size)}{_git_state(path, git)})"
    unknown = _unknown(word for word in danger.words if danger.certain or word.why == GIVEN)
    if unknown:
        yield f"{_describe_target(danger)}: it is not known what it overwrites: {unknown}"
    for archive, folder in unknown_archives(danger, cwd):
        source = archive or "the archive"
        where = "this folder" if folder == cwd else short_path(folder, cwd)
        place = f"existing files in {where}" if folder else "existing files"
        yield f"may overwrite {place}: it is not known which files {source} contains"


def _git_state(path: str, git: GitReader) -> str:
    folder = os.path.dirname(path)  # noqa: PTH120
    try:
        if not git.ask(folder, "ls-files", "-z", "--", path):
            return ", not in git"
        changes = git.changed(folder, "HEAD", "--", path)
    except LookupError:
        return ", not in git"
    except GitUnavailableError:
        return ""
    if not changes.files:
        return ", as committed"
    return f", uncommitted changes: +{changes.added} -{changes.removed} lines"


def _uncommitted(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe uncommitted changes, and for a reset the commits that the branch would lose."""
    changes = uncommitted_changes(danger, cwd, git)
    if unknown := _unknown(danger.words):
        yield f"{_describe_target(danger)}: it is not known what it acts on: {unknown}"
    if changes.files:
        lines = f"+{changes.added} -{changes.removed} lines"
        files = counted(len(changes.files), "file")
        yield f"loses the uncommitted changes of {files} ({lines}): {_some(changes.files, git.root)}"
    else:
        yield f"{_describe_target(danger)}: no uncommitted changes would be lost"
    if "u" in danger.flags and (untracked := cleaned_files(danger, cwd, git)).files:
        yield f"loses {counted(len(untracked.files), 'untracked file')}: {_some(untracked.files, cwd)}"
    if danger.kind == "reset" and danger.words and _REF.fullmatch(danger.words[0].text):
        dropped = int(git.ask(cwd, "rev-list", "--count", "--end-of-options", f"{danger.words[0].text}..HEAD"))
        if dropped:
            yield f"takes {counted(dropped, 'commit')} from the branch"


def _cleaned(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe the untracked files that `git clean` would delete."""
    lost = cleaned_files(danger, cwd, git)
    if not lost.files:
        yield f"{_describe_target(danger)}: there are no such files to delete"
        return
    size = _size(lost.bytes) if lost.whole else f"at least {_size(lost.bytes)}"
    yield f"deletes {counted(len(lost.files), 'file')} that git has no copy of ({size}): {_some(lost.files, cwd)}"


def _stashes(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    entries = [e for e in git.ask(cwd, "stash", "list", "-z", "--format=%gd: %s").split("\0") if e.strip()]
    if "drop" in danger.names:
        wanted = danger.words[0].text if danger.words else "stash@{0}"
        wanted = f"stash@{{{wanted}}}" if wanted.isdigit() else wanted
        entries = [e for e in entries if e.startswith(f"{wanted}:")]
    if not entries:
        yield f"{_describe_target(danger)}: no such stash exists"
        return
    more = f" and {len(entries) - _MAX_LISTED} more" if len(entries) > _MAX_LISTED else ""
    word = "stash entry" if len(entries) == 1 else "stash entries"
    yield f"drops {len(entries)} {word}: {'; '.join(entries[:_MAX_LISTED])}{more}"


def _branches(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    for word in danger.words:
        if word.why or not _REF.fullmatch(word.text) or word.text.startswith("-"):
            yield f"deletes a branch that is not known: {word.text}"
            continue
        others = ("--not", "HEAD", f"--exclude={word.text}", "--branches", "--remotes", "--tags")
        only = int(git.ask(cwd, "rev-list", "--count", f"refs/heads/{word.text}", *others))
        had = f"{counted(only, 'commit')} that no other branch has" if only else "all its commits are on others too"
        yield f"deletes the branch {word.text}: {had}"


def _forgotten(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe the commits that only the reflogs still have."""
    only = int(git.ask(cwd, "rev-list", "--count", "--reflog", "--not", "--all"))
    had = f"{counted(only, 'commit')} that only the reflog has" if only else "no commit that only the reflog has"
    yield f"{_describe_target(danger)}: forgets {had}"


def _refs(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    """Describe the commits that a branch, a tag or another ref has alone, which it would no longer have."""
    if not danger.words:
        yield f"{_describe_target(danger)}: it is not known which refs it changes"
    for word in danger.words:
        if word.why or not _REF.fullmatch(word.text) or word.text.startswith("-"):
            yield f"changes a ref that is not known: {word.text}"
            continue
        try:
            # Without --end-of-options, which git would print as well.
            full, *head = git.ask(cwd, "rev-parse", "--symbolic-full-name", word.text, "HEAD").split()
            if not head:
                continue  # a commit, not a ref
            others = ("--not", f"--exclude={full}", "--glob=refs/*", *(name for name in head if name != full))
            only = int(git.ask(cwd, "rev-list", "--count", full, *others))
        except LookupError:
            continue  # it is made by this
        had = f"{counted(only, 'commit')} that nothing else has" if only else "all its commits are elsewhere too"
        yield f"moves or deletes {word.text}: {had}"


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


def _not_known(danger: Danger, cwd: str, git: GitReader) -> Iterator[str]:
    yield f"{_describe_target(danger)}: it is not known what it may lose"


# How the losses of each kind are described; all others are those of a push.
_DESCRIBED: Mapping[DangerKind, Callable[[Danger, str, GitReader], Iterator[str]]] = {
    "delete": _files, "tree": _files, "attributes": _files, "overwrite": _overwritten, "restore": _uncommitted,
    "reset": _uncommitted, "clean": _cleaned, "stash": _stashes, "branch": _branches, "history": _forgotten,
    "ref": _refs, "unknown": _not_known,
}  # fmt: skip


def _some(paths: Sequence[str], cwd: str) -> str:
    """Join the first paths, relative to a directory."""
    named = [short_path(p, cwd) for p in paths[:_MAX_LISTED]]
    more = len(paths) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more > 0 else ''}"


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
        if danger.kind == "overwrite":
            yield from ((path, _mark(path)) for path in brought_files(danger, cwd))
            return
        paths, deep, _ = acted_on(danger, cwd)
        for path in paths:
            yield path, _mark(path)
            if deep:
                yield from _below(path)
    elif danger.kind in ("restore", "reset", "clean"):
        top = git.ask(cwd, "rev-parse", "--show-toplevel").rstrip("\n")
        yield "HEAD", git.ask(cwd, "rev-parse", "HEAD").strip()
        names = git.ask(top, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        for entry in names.split("\0"):
            if len(entry) > 3 and (danger.kind == "clean" or not entry.startswith("??")):
                path = os.path.join(top, entry[3:])
                yield path, f"{entry[:2]} {_mark(path)}"
    elif danger.kind != "service":
        refs = "refs/stash" if danger.kind == "stash" else "refs/heads" if danger.kind == "branch" else "refs"
        yield refs, git.ask(cwd, "for-each-ref", "--format=%(objectname) %(refname)", refs)


def _below(path: str) -> Iterator[tuple[str, str]]:
    if os.path.islink(path):  # noqa: PTH114
        return
    count = 0
    for here, folders, files in walk(path):
        folders.sort()
        for name in sorted(files):
            count += 1
            if count > _MAX_MARKS:
                return
            inner = os.path.join(here, name)
            yield inner, _mark(inner)


def _mark(path: str) -> str:
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return "nothing"
    if stat.S_ISDIR(state.st_mode):
        return "directory"
    return f"{state.st_mode} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
