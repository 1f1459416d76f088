"""Choose the files of a commit (those the session changed, or those the user names) and write its message.

The model proposes the message from the changes; the settings add trailers.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.prompts import prompt
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.kernel.messages import Message, UserMessage, is_user_message
from agent_cli.kernel.results import Usage
from agent_cli.kernel.run_environment import UsageError
from agent_cli.models.base import Request, TextCollector
from agent_cli.undo.undo import UndoManager
from agent_cli.undo.undo_plan import AmbiguousStateError, FileChange, current_state
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.text import counted, one_line, shorten

if TYPE_CHECKING:
    from agent_cli.kernel.engine.types import ModelHandle

_MAX_HEADS = 20


class CommitArguments(Value):
    """The parsed arguments of /commit.

    everything: commit all changes.
    hooks: run the repository's hooks.
    message: given with -m.
    paths: files that were named.
    instructions: for the message.
    note: write the completion record as a git note of the commit.
    """

    everything: bool = False
    hooks: bool = True
    message: str = ""
    paths: tuple[str, ...] = ()
    instructions: str = ""
    note: bool = False

    @classmethod
    def parse(cls, words: str, changes: Sequence[FileStatus], top: Path, cwd: Path) -> CommitArguments:
        """Parse `[--all] [--no-verify] [--note] [-m MESSAGE] [PATH...] [WORDS]`.

        A word counts as a path if there is a change at or below it, if it exists and looks like a path (contains a dot
        or a slash), or if all words are paths.
        """
        rest, message = words, ""
        if " -m " in f" {rest} ":
            rest, _, message = f" {rest} ".partition(" -m ")
        listed = rest.split()
        flags = {w for w in listed if w in ("--all", "-a", "--no-verify", "-n", "--note")}
        text = [w for w in listed if w not in flags and w != "--"]
        found = {word: path for word in text if (path := _path(word, changes, top, cwd)) is not None}
        if set(text) != set(found):
            found = {word: path for word, path in found.items() if "/" in word or "." in word.strip(".")}
        return cls(
            bool(flags & {"--all", "-a"}),
            not flags & {"--no-verify", "-n"},
            _unquote(message.strip()),
            tuple(dict.fromkeys(found.values())),
            " ".join(w for w in text if w not in found),
            "--note" in flags,
        )


def _unquote(message: str) -> str:
    """Return a message without the quotes around all of it, if there are any."""
    if len(message) < 2 or message[0] not in "\"'" or message[-1] != message[0]:
        return message
    try:
        words = shlex.split(message)
    except ValueError:  # an odd apostrophe inside
        return message[1:-1]
    return words[0] if len(words) == 1 else message


def _path(word: str, changes: Sequence[FileStatus], top: Path, cwd: Path) -> str | None:
    """Return a word as a path from the top of the repository; None if it is not a path there."""
    path = os.path.relpath(os.path.normpath(os.path.join(os.path.realpath(cwd), word)), top)
    if path.startswith("../") or path == "..":
        return None
    known = any(is_below(c.path, path) for c in changes)
    return path if known or os.path.lexists(os.path.join(top, path)) else None


def is_below(path: str, at: str) -> bool:
    """Return True if a path is `at`, or in that folder."""
    return at == "." or path == at or path.startswith(f"{at}/")


class CommitChoice(Value):
    """The files of a commit.

    take: the files to commit.
    notes: warnings for the user, by path.
    staged: files that stay staged.
    outside: files that the session changed outside the repository.
    """

    take: tuple[FileStatus, ...] = ()
    notes: dict[str, str] = {}  # noqa: RUF012 - never changed
    staged: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class SessionChanges(Value):
    """The session's changes.

    touched: changes by absolute path.
    heads: commits that were checked out while it worked.
    """

    touched: dict[str, FileChange] = {}  # noqa: RUF012 - never changed
    heads: tuple[str, ...] = ()

    @classmethod
    def of(cls, work: UndoManager) -> SessionChanges:
        """Return the session's changes, except undone ones. Raises UsageError if they are not known."""
        touched, heads = work.standing()
        return cls(touched, tuple(heads[-_MAX_HEADS:]))

    @staticmethod
    def commit_words(files: str, name: str, subject: str) -> str:
        """Return the note for the model about a commit by the user: "committed FILES as NAME: SUBJECT"."""
        return f"committed {files} as {name}: {one_line(subject)}"

    def choose(
        self,
        changes: Sequence[FileStatus],
        repo: Repository,
        words: CommitArguments = CommitArguments(),  # noqa: B008 - frozen
    ) -> CommitChoice:
        """Choose the files of a commit from all files that differ from the last commit."""
        inside = {os.path.relpath(p, repo.top): t for p, t in self.touched.items() if p.startswith(f"{repo.top}/")}
        if words.paths:
            take = [c for c in changes if any(is_below(c.path, path) for path in words.paths)]
        elif words.everything:
            take = list(changes)
        else:
            take = [c for c in changes if c.path in inside and not c.module]
        notes = {c.path: note for c in take if (note := _note(inside.get(c.path), c, self.heads, repo))}
        taken = {c.path for c in take}
        staged = tuple(c.path for c in changes if c.staged and c.path not in taken)
        return CommitChoice(
            tuple(take), notes, staged, tuple(sorted(p for p in self.touched if not p.startswith(f"{repo.top}/")))
        )


def _note(t: FileChange | None, change: FileStatus, heads: Sequence[str], repo: Repository) -> str:
    """Describe which part of a file is not the session's work; "" for none."""
    if t is None:
        return "not changed by this session"
    try:
        if current_state(t.path) != t.after:
            return "changed by somebody else since"
    except AmbiguousStateError as why:
        return str(why)
    if t.doubt:
        return t.doubt
    known = () if repo.has_no_commits or t.before is None else ("HEAD", *heads)
    if known and t.before is not None and all(repo.blob(c, change.path) != t.before.oid for c in known):
        return "not all of it by this session"
    return ""


# A commit by the user, as `SessionChanges.commit_words` names it.
NAMED_COMMIT = re.compile(r"<commit>\nThe user committed .* as ([0-9a-f]{7,40}): ")


_MAX_CHANGES_CHARS = 60_000
_MAX_FILE_CHARS = 12_000
# From the beginning, and from the end.
_MAX_REQUESTS = 4
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: \S.*")


def with_trailers(message: str, trailers: Iterable[str], model: str) -> str:
    """Return the message with the trailers of the settings appended. Raises UsageError."""
    lines = []
    for trailer in trailers:
        text = trailer.replace("{model}", model).strip()
        if not _TRAILER.fullmatch(text):
            raise UsageError(f'commit_trailers: {trailer!r} is not a trailer; it must look like "Reviewed-by: NAME".')
        lines.append(text)
    _, _, last = message.rpartition("\n\n")
    has_some = last != message and all(map(_TRAILER.fullmatch, last.splitlines()))
    lines = [line for line in lines if line not in message.splitlines()]
    return message + ("\n" if has_some else "\n\n") + "\n".join(lines) if lines else message


def commit_context(
    repo: Repository,
    changes: Sequence[FileStatus],
    history: Iterable[Message],
    instructions: str,
    readable: Callable[[str], bool],
    redact: Callable[[str], str],
) -> str:
    """Collect what the model needs: the changes (truncated), subjects of earlier commits, and the user's instructions.

    Of files that look like secrets, or that rules hide from the model, only the names are included. Raises UsageError.
    """
    requests = _requests(history)
    parts, left = [], _MAX_CHANGES_CHARS
    for change in changes:
        if left <= 0:
            parts.append(f"(also changed: {change.path})")
        elif not readable(str(repo.top / change.path)):
            parts.append(f"(changed, its content is not shown: {change.path})")
        else:
            text = repo.diff(change)
            text = text if len(text) <= _MAX_FILE_CHARS else f"{text[:_MAX_FILE_CHARS]}\n(more of {change.path})"
            parts.append(text)
            left -= len(text)
    blocks = {
        "earlier_subjects": "\n".join(repo.subjects()),
        "requests": "\n---\n".join(shorten(text, 600) for text in requests),
        "changes": "\n".join(parts),
        "instructions": instructions,
    }
    return redact("\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in blocks.items() if text))


def _requests(history: Iterable[Message]) -> list[str]:
    """Return what the user asked for since the last commit: the first messages, which say most, and the latest."""
    found: list[str] = []
    for message in history:
        if isinstance(message, UserMessage) and message.text.startswith("<commit>"):
            found.clear()
        elif is_user_message(message):
            found.append(message.words)
    return found if len(found) <= 2 * _MAX_REQUESTS else [*found[:_MAX_REQUESTS], *found[-_MAX_REQUESTS:]]


def _clean(text: str) -> str:
    """Return the model's message without code fences, trailers and trailing white space."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if lines and lines[0].startswith("```"):
        lines = lines[1:-1] if lines[-1].startswith("```") else lines[1:]
    body = "\n".join(lines).strip()
    first, _, last = body.rpartition("\n\n")
    if first and all(re.fullmatch(r"(?i)(co-authored-by|signed-off-by|generated-by): .*", x) for x in last.split("\n")):
        body = first.strip()
    return body


class CommitDraft:
    """The message of a commit, before the user has seen it. take: the files."""

    def __init__(self, repo: Repository, take: Sequence[FileStatus]) -> None:
        self._repo, self._take = repo, take

    @property
    def plain(self) -> str:
        """A message to start from if the model proposes none."""
        names = [c.path for c in self._take]
        return f"Change {names[0]}" if len(names) == 1 else f"Change {counted(len(names), 'file')}"

    def propose(
        self,
        handle: ModelHandle,
        history: Iterable[Message],
        instructions: str,
        readable: Callable[[str], bool],
        redact: Callable[[str], str],
        cancel: CancelToken,
    ) -> tuple[str, Usage]:
        """Let the model propose a message; return it with its usage. Raises UsageError, ModelError, CancelledError."""
        answer = TextCollector()
        material = commit_context(self._repo, self._take, history, instructions, readable, redact)
        request = Request(handle.model, prompt("commit"), (UserMessage(material),), max_tokens=4_000)
        answer.read(handle.client.stream(request, cancel))
        cancel.check()
        return _clean(answer.text), handle.price(answer.usage) if answer.usage is not None else Usage()

    def signed(self, text: str, trailers: Iterable[str], model: str) -> str:
        """Return the proposed message, or the plain one, with the trailers of the settings. Raises UsageError."""
        return with_trailers(text or self.plain, trailers, model)
