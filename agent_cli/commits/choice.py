"""Which files a commit takes: those that the session changed, or those that the user's words name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent_cli.commits.repository import FileStatus, Repository
from agent_cli.snapshots.states import AmbiguousStateError, Touched, current_state, touched
from agent_cli.snapshots.undoing import Undoing
from agent_tools.values import Value

_HEADS = 20


class CommitWords(Value):
    """What was asked for. paths: those that were named; wish: what the message should say or be like."""

    everything: bool = False
    hooks: bool = True
    message: str = ""
    paths: tuple[str, ...] = ()
    wish: str = ""


def read_words(words: str, changes: Sequence[FileStatus], top: Path, cwd: Path) -> CommitWords:
    """Take `[--all] [--no-verify] [-m MESSAGE] [PATH...] [WORDS]` apart.

    A word is a path where a change is at or below it, or it is there, and it looks like one (a dot or a slash in it),
    or where all words are paths.
    """
    rest, message = words, ""
    if " -m " in f" {rest} ":
        rest, _, message = f" {rest} ".partition(" -m ")
    listed = rest.split()
    flags = {w for w in listed if w in ("--all", "-a", "--no-verify", "-n")}
    said = [w for w in listed if w not in flags and w != "--"]
    found = {word: path for word in said if (path := _path(word, changes, top, cwd)) is not None}
    if set(said) != set(found):
        found = {word: path for word, path in found.items() if "/" in word or "." in word.strip(".")}
    return CommitWords(
        bool(flags & {"--all", "-a"}),
        not flags & {"--no-verify", "-n"},
        message.strip().strip("\"'"),
        tuple(dict.fromkeys(found.values())),
        " ".join(w for w in said if w not in found),
    )


def _path(word: str, changes: Sequence[FileStatus], top: Path, cwd: Path) -> str | None:
    """A word as a path from the top of the repository; None where it is none."""
    path = os.path.relpath(os.path.normpath(os.path.join(os.path.realpath(cwd), word)), top)
    if path.startswith("../") or path == "..":
        return None
    known = any(is_below(c.path, path) for c in changes)
    return path if known or os.path.lexists(os.path.join(top, path)) else None


def is_below(path: str, at: str) -> bool:
    """Whether a path is `at`, or in that folder."""
    return at == "." or path == at or path.startswith(f"{at}/")


class CommitChoice(Value):
    """take: what would be committed. notes: by path, what the user should know of it. staged: what stays staged.
    outside: files that the session changed and that are not in the repository."""

    take: tuple[FileStatus, ...] = ()
    notes: dict[str, str] = {}  # noqa: RUF012 - never changed
    staged: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class Did(Value):
    """What the session did to each file, by absolute path. heads: the commits that were checked out around its work."""

    touched: dict[str, Touched] = {}  # noqa: RUF012 - never changed
    heads: tuple[str, ...] = ()


def choose_files(changes: Sequence[FileStatus], words: CommitWords, did: Did, repo: Repository) -> CommitChoice:
    """The files that the words mean, of all that differ from the last commit."""
    inside = {os.path.relpath(p, repo.top): t for p, t in did.touched.items() if p.startswith(f"{repo.top}/")}
    if words.paths:
        take = [c for c in changes if any(is_below(c.path, path) for path in words.paths)]
    elif words.everything:
        take = list(changes)
    else:
        take = [c for c in changes if c.path in inside and not c.module]
    notes = {c.path: note for c in take if (note := _note(inside.get(c.path), c, did.heads, repo))}
    taken = {c.path for c in take}
    staged = tuple(c.path for c in changes if c.staged and c.path not in taken)
    return CommitChoice(
        tuple(take), notes, staged, tuple(sorted(p for p in did.touched if not p.startswith(f"{repo.top}/")))
    )


def _note(t: Touched | None, change: FileStatus, heads: Sequence[str], repo: Repository) -> str:
    """What in a file is not the session's work."""
    if t is None:
        return "not changed by this session"
    try:
        if current_state(t.path) != t.after:
            return "changed by somebody else since"
    except AmbiguousStateError as why:
        return str(why)
    if t.doubt:
        return t.doubt
    known = () if repo.unborn or t.before is None else ("HEAD", *heads)
    if known and t.before is not None and all(repo.blob(c, change.path) != t.before.oid for c in known):
        return "not all of it by this session"
    return ""


def did_by(work: Undoing) -> Did:
    """What the session did, as far as it stands. Raises StoreError."""
    changes = work.changes(step.turn.turn for step in work.steps())
    heads = dict.fromkeys(head for c in changes for head in c.heads if head)
    with work.store.locked():
        return Did(touched(work.store, changes), tuple(heads)[-_HEADS:])
