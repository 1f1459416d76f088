"""Which files a commit takes: those that the session changed, or those that the user's words name.

The message of a commit: what the model proposes from the changes, and the trailers that the settings add.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.checkpoints.file_state import AmbiguousStateError, FileChange, current_state, touched
from agent_cli.checkpoints.undo import UndoManager
from agent_cli.config.prompts import prompt
from agent_cli.core.messages import Message, UserMessage, is_user_message, user_text
from agent_cli.core.place import UsageError
from agent_cli.core.results import Usage
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.providers.base import PlainAnswer, Request
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_cli.engine.types import ModelHandle

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

    touched: dict[str, FileChange] = {}  # noqa: RUF012 - never changed
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


def _note(t: FileChange | None, change: FileStatus, heads: Sequence[str], repo: Repository) -> str:
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


def did_by(work: UndoManager) -> Did:
    """What the session did, as far as it stands. Raises StoreError."""
    changes = work.changes(step.turn.turn for step in work.steps())
    heads = dict.fromkeys(head for c in changes for head in c.heads if head)
    with work.store.locked():
        return Did(touched(work.store, changes), tuple(heads)[-_HEADS:])


_MOST = 60_000
_MOST_OF_A_FILE = 12_000
_SAID = 4
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: \S.*")


def propose(opened: ModelHandle, material: str, cancel: CancelToken) -> tuple[str, Usage]:
    """The model's message for what the material shows, and what it cost. Raises ModelError, CancelledError."""
    answer = PlainAnswer()
    request = Request(opened.model, prompt("commit"), (UserMessage(material),), max_tokens=4_000)
    answer.read(opened.transport.stream(request, cancel))
    cancel.check()
    return _clean(answer.text), opened.price(answer.usage) if answer.usage is not None else Usage()


def plain_message(changes: Sequence[FileStatus]) -> str:
    """A message to begin with where the model has none."""
    names = [c.path for c in changes]
    return f"Change {names[0]}" if len(names) == 1 else f"Change {counted(len(names), 'file')}"


def with_trailers(message: str, trailers: Iterable[str], model: str) -> str:
    """The message with the trailers of the settings, below those that it has. Raises UsageError."""
    lines = []
    for trailer in trailers:
        text = trailer.replace("{model}", model).strip()
        if not _TRAILER.fullmatch(text):
            raise UsageError(f'commit_trailers: {trailer!r} is no trailer; it has to be like "Reviewed-by: NAME".')
        lines.append(text)
    _, _, last = message.rpartition("\n\n")
    has_some = last != message and all(map(_TRAILER.fullmatch, last.splitlines()))
    lines = [line for line in lines if line not in message.splitlines()]
    return message + ("\n" if has_some else "\n\n") + "\n".join(lines) if lines else message


def material(
    repo: Repository,
    changes: Sequence[FileStatus],
    history: Iterable[Message],
    wish: str,
    readable: Callable[[str], bool],
    redact: Callable[[str], str],
) -> str:
    """What the model is shown: the changes, bounded, how earlier commits are worded, and what the user asked for.

    Of files that look like secrets, or that rules keep from the model, only the names. Raises UsageError.
    """
    said = [user_text(m.text) for m in history if is_user_message(m)][-_SAID:]
    parts, left = [], _MOST
    for change in changes:
        if left <= 0:
            parts.append(f"(changed too: {change.path})")
        elif not readable(str(repo.top / change.path)):
            parts.append(f"(changed, its content is not shown: {change.path})")
        else:
            text = repo.diff(change)
            text = text if len(text) <= _MOST_OF_A_FILE else f"{text[:_MOST_OF_A_FILE]}\n(more of {change.path})"
            parts.append(text)
            left -= len(text)
    blocks = {
        "earlier_subjects": "\n".join(repo.subjects()),
        "requests": "\n---\n".join(shorten(text, 600) for text in said),
        "changes": "\n".join(parts),
        "wish": wish,
    }
    return redact("\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in blocks.items() if text))


def _clean(text: str) -> str:
    """A message without fences around it and trailers of the model's own; blanks at line ends go."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if lines and lines[0].startswith("```"):
        lines = lines[1:-1] if lines[-1].startswith("```") else lines[1:]
    body = "\n".join(lines).strip()
    first, _, last = body.rpartition("\n\n")
    if first and all(re.fullmatch(r"(?i)(co-authored-by|signed-off-by|generated-by): .*", x) for x in last.split("\n")):
        body = first.strip()
    return body
