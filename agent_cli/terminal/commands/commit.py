"""/commit: find what the session changed, propose a message, show both, ask, and commit only that."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent_cli.checkpoints.git_store import StoreError
from agent_cli.core.place import UsageError
from agent_cli.core.redact import Redactor
from agent_cli.git.commit import (
    CommitChoice,
    CommitWords,
    SessionChanges,
    choose_files,
    material,
    plain_message,
    propose,
    read_words,
    session_changes,
    with_trailers,
)
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.providers.base import ModelError
from agent_cli.runtime.checkpoints import undo_manager
from agent_cli.runtime.environment import git_would_start
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.cancel import CancelToken
from agent_tools.text import counted, one_line, shorten

_MOST_LISTED = 40


@slash(
    "commit",
    "commit what the session changed, with a message that you see first",
    "[--all] [-m MESSAGE] [PATH] [WORDS]",
)
def _commit(ctx: SlashContext, words: str) -> None:
    """Commit. Raises UsageError or CancelledError and then commits nothing."""
    if (starts := git_would_start(ctx.place, ctx.layers)) and not ctx.confirm(
        f"This project is not trusted. Let git run all the same, with {one_line(shorten(starts, 300))}?"
    ):
        return
    context = ctx.agent.conversation.deps.context
    if context.cancel.cancelled:
        context.cancel = CancelToken()
    repo = Repository(ctx.place.root, ctx.place.env)
    repo.check()
    changes = repo.changes()
    asked = read_words(words, changes, repo.top, ctx.place.cwd)
    choice = choose_files(changes, asked, _did(ctx, asked), repo)
    take = _settled(ctx, choice)
    if not take:
        _say_why_nothing(ctx, asked, changes, choice)
        return
    marks = _marks(repo, take)
    _list(ctx, repo, take, choice)
    message = _message(ctx, repo, take, asked)
    verdict = _agreed(ctx, repo, take, message)
    if verdict is None:
        ctx.say("Nothing was committed.")
        return
    if _marks(repo, take) != marks:
        raise UsageError("Nothing was committed: the files changed since they were shown. /commit shows them again.")
    if not asked.hooks:
        ctx.say("  without the hooks that --no-verify skips")
    name, subject = repo.commit(take, verdict, hooks=asked.hooks, cancel=context.cancel)
    ctx.say(f"Committed {name}: {one_line(subject)}")
    files = shorten(", ".join(c.path for c in take), 1_000)
    ctx.agent.conversation.inbox.append(
        f"<commit>\nThe user committed {files} as {name}: {one_line(subject)}\n</commit>"
    )


def _did(ctx: SlashContext, asked: CommitWords) -> SessionChanges:
    """Return what the session changed, from the checkpoints. Raises UsageError if that is needed but unknown."""
    agent = ctx.agent
    why = ""
    if not agent.settings.undo.keep or not agent.settings.save_sessions:
        why = "nothing is kept of what the session changes"
    else:
        try:
            return session_changes(undo_manager(agent.place, agent.settings, agent.header.session_id))
        except (StoreError, UsageError) as error:
            why = str(error).rstrip(".")
    if asked.everything or asked.paths:
        return SessionChanges()
    raise UsageError(
        f"What the session changed is not known ({why}): name the files, /commit PATH, or say /commit --all."
    )


def _settled(ctx: SlashContext, choice: CommitChoice) -> list[FileStatus]:
    """Return the files to commit after asking about doubtful ones. Raises UsageError."""
    if unmerged := [c.path for c in choice.take if c.unmerged]:
        raise UsageError(f"Conflicts have to be settled first: {shorten(', '.join(unmerged), 200)}.")
    take = []
    for change in choice.take:
        if change.in_part and not ctx.confirm(f"{change.path} is staged in part: commit all of it?"):
            ctx.say(f"  left out, as it is staged: {one_line(change.path)}")
        else:
            take.append(change)
    return take


def _say_why_nothing(
    ctx: SlashContext, asked: CommitWords, changes: Sequence[FileStatus], choice: CommitChoice
) -> None:
    if choice.take:
        ctx.say("Nothing is left to commit.")
    elif not changes:
        ctx.say("Nothing to commit: no file differs from the last commit.")
    elif asked.paths:
        ctx.say(f"Nothing to commit: {one_line(', '.join(asked.paths))} does not differ from the last commit.")
    else:
        ctx.say(
            f"Nothing to commit of this session. Changed otherwise: {counted(len(changes), 'file')}; /commit PATH or "
            "/commit --all takes them."
        )


def _list(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], choice: CommitChoice) -> None:
    counts = repo.counts(take)
    ctx.say(f"{counted(len(take), 'file')} for {repo.branch or 'a commit on no branch (HEAD is detached)'}:")
    for change in take[:_MOST_LISTED]:
        lines = counts.get(change.path, (0, 0))
        told = "no text" if lines is None else f"+{lines[0]} -{lines[1]}"
        kind = "new, " if change.new else "" if os.path.lexists(repo.top / change.path) else "deleted, "
        note = choice.notes.get(change.path)
        ctx.say(f"  {one_line(change.path)} ({kind}{told})" + (f" - {note}" if note else ""))
    if len(take) > _MOST_LISTED:
        ctx.say(f"  and {len(take) - _MOST_LISTED} more")
    if choice.staged:
        ctx.say(f"  staged, not committed, stays staged: {shorten(one_line(', '.join(choice.staged)), 200)}")
    if choice.outside:
        ctx.say(f"  changed outside of this repository: {shorten(one_line(', '.join(choice.outside)), 200)}")


def _message(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], asked: CommitWords) -> str:
    """Return the initial message: the user's, else the model's. Raises UsageError, CancelledError."""
    agent = ctx.agent
    deps = agent.conversation.deps
    text = asked.message
    if not text:
        shown = material(
            repo, take, agent.conversation.live_history, asked.wish, deps.policy.readable(), Redactor(ctx.place.env)
        )
        try:
            assert deps.open_model is not None
            opened = deps.small() if deps.small else deps.open_model(agent.conversation.options.label)
            text, usage = propose(opened, shown, deps.context.cancel)
            ctx.add_usage(usage)
        except ModelError as error:
            ctx.say(f"The model proposes no message: {error.failure.message}")
        else:
            if not text:
                ctx.say("The model proposed no message.")
    trailers = agent.settings.commit_trailers
    return with_trailers(text or plain_message(take), trailers, agent.conversation.options.label)


def _agreed(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], message: str) -> str | None:
    """Return the message the user accepts, edited or not; None if they decline."""
    options = [("yes", f"commit {counted(len(take), 'file')}"), ("edit", "the message first"), ("no", "")]
    while True:
        ctx.say("")
        for line in message.splitlines():
            ctx.say(f"  {line}".rstrip())
        ctx.say("")
        picked = ctx.choose("Commit with this message?", options)
        if picked == 0:
            return message
        if picked != 1:
            return None
        changed = ctx.edit(f"{message}\n", ".txt")
        if changed is not None:
            if not changed.strip():
                return None
            message = changed.strip()


def _marks(repo: Repository, take: Sequence[FileStatus]) -> list[tuple[int, int, int] | None]:
    """Fingerprint the files, to detect changes while the user decides."""
    found: list[tuple[int, int, int] | None] = []
    for change in take:
        try:
            state = (repo.top / change.path).lstat()
            found.append((state.st_mtime_ns, state.st_size, state.st_mode))
        except OSError:
            found.append(None)
    return found
