"""What /commit does: find what the session changed, propose a message, show both, ask, and commit just that.

/commit. What it needs is loaded when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_cli.checkpoints.git_store import StoreError
from agent_cli.core.place import UsageError
from agent_cli.core.redact import Redactor
from agent_cli.git.commit import (
    CommitChoice,
    CommitWords,
    Did,
    choose_files,
    did_by,
    material,
    plain_message,
    propose,
    read_words,
    with_trailers,
)
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.providers.base import ModelError
from agent_cli.runtime.checkpoints import undoing
from agent_cli.runtime.environment import git_would_start
from agent_cli.terminal.commands.registry import slash
from agent_tools.cancel import CancelToken
from agent_tools.text import counted, one_line, shorten

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl

_MOST_LISTED = 40


def commit(repl: Repl, words: str) -> None:
    """Raises UsageError, CancelledError; then nothing is committed."""
    if (starts := git_would_start(repl.place, repl.layers)) and not repl.confirm(
        f"This project is not trusted. Let git run all the same, with {one_line(shorten(starts, 300))}?"
    ):
        return
    context = repl.agent.conversation.kit.context
    if context.cancel.cancelled:
        context.cancel = CancelToken()
    repo = Repository(repl.place.root, repl.place.env)
    repo.check()
    changes = repo.changes()
    asked = read_words(words, changes, repo.top, repl.place.cwd)
    choice = choose_files(changes, asked, _did(repl, asked), repo)
    take = _settled(repl, choice)
    if not take:
        _say_why_nothing(repl, asked, changes, choice)
        return
    marks = _marks(repo, take)
    _list(repl, repo, take, choice)
    message = _message(repl, repo, take, asked)
    verdict = _agreed(repl, repo, take, message)
    if verdict is None:
        repl.say("Nothing was committed.")
        return
    if _marks(repo, take) != marks:
        raise UsageError("Nothing was committed: the files changed since they were shown. /commit shows them again.")
    if not asked.hooks:
        repl.say("  without the hooks that --no-verify skips")
    name, subject = repo.commit(take, verdict, hooks=asked.hooks, cancel=context.cancel)
    repl.say(f"Committed {name}: {one_line(subject)}")
    files = shorten(", ".join(c.path for c in take), 1_000)
    repl.agent.conversation.inbox.append(
        f"<commit>\nThe user committed {files} as {name}: {one_line(subject)}\n</commit>"
    )


def _did(repl: Repl, asked: CommitWords) -> Did:
    """What the session did, by the snapshots. Raises UsageError where that is not known and needed."""
    agent = repl.agent
    why = ""
    if not agent.settings.undo.keep or not agent.settings.save_sessions:
        why = "nothing is kept of what the session changes"
    else:
        try:
            return did_by(undoing(agent.place, agent.settings, agent.header.session_id))
        except (StoreError, UsageError) as error:
            why = str(error).rstrip(".")
    if asked.everything or asked.paths:
        return Did()
    raise UsageError(
        f"What the session changed is not known ({why}): name the files, /commit PATH, or say /commit --all."
    )


def _settled(repl: Repl, choice: CommitChoice) -> list[FileStatus]:
    """The files to commit, those in question asked about. Raises UsageError."""
    if unmerged := [c.path for c in choice.take if c.unmerged]:
        raise UsageError(f"Conflicts have to be settled first: {shorten(', '.join(unmerged), 200)}.")
    take = []
    for change in choice.take:
        if change.in_part and not repl.confirm(f"{change.path} is staged in part: commit all of it?"):
            repl.say(f"  left out, as it is staged: {one_line(change.path)}")
        else:
            take.append(change)
    return take


def _say_why_nothing(repl: Repl, asked: CommitWords, changes: Sequence[FileStatus], choice: CommitChoice) -> None:
    if choice.take:
        repl.say("Nothing is left to commit.")
    elif not changes:
        repl.say("Nothing to commit: no file differs from the last commit.")
    elif asked.paths:
        repl.say(f"Nothing to commit: {one_line(', '.join(asked.paths))} does not differ from the last commit.")
    else:
        repl.say(
            f"Nothing to commit of this session. Changed otherwise: {counted(len(changes), 'file')}; /commit PATH or "
            "/commit --all takes them."
        )


def _list(repl: Repl, repo: Repository, take: Sequence[FileStatus], choice: CommitChoice) -> None:
    counts = repo.counts(take)
    repl.say(f"{counted(len(take), 'file')} for {repo.branch or 'a commit on no branch (HEAD is detached)'}:")
    for change in take[:_MOST_LISTED]:
        lines = counts.get(change.path, (0, 0))
        told = "no text" if lines is None else f"+{lines[0]} -{lines[1]}"
        kind = "new, " if change.new else "" if os.path.lexists(repo.top / change.path) else "deleted, "
        note = choice.notes.get(change.path)
        repl.say(f"  {one_line(change.path)} ({kind}{told})" + (f" - {note}" if note else ""))
    if len(take) > _MOST_LISTED:
        repl.say(f"  and {len(take) - _MOST_LISTED} more")
    if choice.staged:
        repl.say(f"  staged, not committed, stays staged: {shorten(one_line(', '.join(choice.staged)), 200)}")
    if choice.outside:
        repl.say(f"  changed outside of this repository: {shorten(one_line(', '.join(choice.outside)), 200)}")


def _message(repl: Repl, repo: Repository, take: Sequence[FileStatus], asked: CommitWords) -> str:
    """The message to begin with: the user's, else the model's. Raises UsageError, CancelledError."""
    agent = repl.agent
    kit = agent.conversation.kit
    text = asked.message
    if not text:
        shown = material(
            repo, take, agent.conversation.so_far, asked.wish, kit.policy.readable(), Redactor(repl.place.env)
        )
        try:
            assert kit.open_model is not None
            opened = kit.small() if kit.small else kit.open_model(agent.conversation.options.label)
            text, usage = propose(opened, shown, kit.context.cancel)
            repl.show.usage += usage
        except ModelError as error:
            repl.say(f"The model proposes no message: {error.failure.message}")
        else:
            if not text:
                repl.say("The model proposed no message.")
    trailers = agent.settings.commit_trailers
    return with_trailers(text or plain_message(take), trailers, agent.conversation.options.label)


def _agreed(repl: Repl, repo: Repository, take: Sequence[FileStatus], message: str) -> str | None:
    """The message that the user agrees to, perhaps after they edited it; None where they would rather not."""
    options = [("yes", f"commit {counted(len(take), 'file')}"), ("edit", "the message first"), ("no", "")]
    while True:
        repl.say("")
        for line in message.splitlines():
            repl.say(f"  {line}".rstrip())
        repl.say("")
        picked = repl.choose("Commit with this message?", options)
        if picked == 0:
            return message
        if picked != 1:
            return None
        changed = repl.edit(f"{message}\n", ".txt")
        if changed is not None:
            if not changed.strip():
                return None
            message = changed.strip()


def _marks(repo: Repository, take: Sequence[FileStatus]) -> list[tuple[int, int, int] | None]:
    """By what it is seen that a file was changed while the user looked."""
    found: list[tuple[int, int, int] | None] = []
    for change in take:
        try:
            state = (repo.top / change.path).lstat()
            found.append((state.st_mtime_ns, state.st_size, state.st_mode))
        except OSError:
            found.append(None)
    return found


@slash(
    "commit",
    "commit what the session changed, with a message that you see first",
    "[--all] [-m MESSAGE] [PATH] [WORDS]",
)
def _commit(repl: Repl, words: str) -> None:

    commit(repl, words)
