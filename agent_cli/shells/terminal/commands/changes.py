"""The changes of the session: /diff, /undo, /redo and /rewind, and /commit.

Each shows what would happen, asks, does it, and reports the result. A commit has only the changes of the session, with
a proposed message.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from rich.text import Text

from agent_cli import UsageError, UserMessage
from agent_cli.git.commit import (
    CommitArguments,
    CommitChoice,
    CommitDraft,
    SessionChanges,
)
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.runtime.environment import git_would_start
from agent_cli.models.base import ModelError
from agent_cli.shells.terminal.commands.context import logged_view
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem
from agent_cli.shells.terminal.render.code import diff_lines
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_cli.undo.undo_plan import Item, Plan
from agent_tools.cancel import CancelToken
from agent_tools.edit.diff import ParsedHunk, parse_hunks
from agent_tools.lazy import lazy_imports
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted, one_line, parse_number, short_path, shorten

with lazy_imports():
    from agent_cli.git import notes  # only for commits with a note

# A title has the width of the view, which cuts it.
_MAX_LISTED, _MAX_TITLE_CHARS = 30, 1_000


def _check_agents(ctx: SlashContext) -> None:
    """Raise UsageError while a sub-agent in the background may change the files."""
    if names := ctx.agent.agents_at_work:
        end = f"it: /jobs kill {names[0]}" if len(names) == 1 else "them: /jobs kill all"
        raise UsageError(f"Still at work in the background: {', '.join(names)}. First end {end}")


@slash("undo", "undo the changes of the last turn")
def _undo(ctx: SlashContext, words: str) -> None:
    _check_agents(ctx)
    work = ctx.agent.undo
    latest = work.latest()
    if latest is None:
        ctx.say(f"There is nothing to undo.{ctx.agent.header.unrecorded}")
        return
    text = work.story().turns[latest].text
    ctx.say(f"The turn: {shorten(text, 80)}")
    _undo_turns(ctx, [latest])


def roll_back(ctx: SlashContext) -> None:
    """Offer to undo the changes of the turn that just ended. Raises UsageError, CancelledError."""
    work = ctx.agent.undo
    latest = work.latest()
    if latest is not None and not _undo_turns(ctx, [latest], offered=True):
        ctx.say("  /undo undoes it later.")


@slash("redo", "redo what /undo reverted")
def _redo(ctx: SlashContext, words: str) -> None:
    _check_agents(ctx)
    work = ctx.agent.undo
    found = work.redo_plan()
    if found is None:
        ctx.say("There is nothing to redo.")
        return
    number, plan = found
    chosen = _choose_files(ctx, plan, redo=True)
    if chosen is not None:
        _report(ctx, chosen, work.redo(number, chosen), "Re-applied")


@slash("rewind", "go back to an earlier message: conversation, files or both", aliases=("checkpoint", "restore"))
def _rewind(ctx: SlashContext, words: str) -> None:
    _check_agents(ctx)
    conversation = ctx.agent
    messages = [(n, m) for n, m in enumerate(conversation.history) if isinstance(m, UserMessage) and m.from_user]
    if not messages:
        ctx.say("There is no message to go back to yet.")
        return
    has_checkpoints = True
    try:
        work = ctx.agent.undo
        changes = work.summed_since([n for n, _ in messages])
    except UsageError as error:
        ctx.say(f"Only the conversation can go back. {error}")
        has_checkpoints, changes = False, [""] * len(messages)
    options = [
        (
            shorten(" ".join(message.words.split()), _MAX_TITLE_CHARS),
            f"since then: {changed}" if changed else "",
        )
        for (_, message), changed in zip(reversed(messages), reversed(changes), strict=True)
    ]
    items = tuple(ViewItem(label, about) for label, about in options)
    left = ctx.pick_from(
        View("Go back to before which message?", items=items, actions=(ViewAction("enter", "go back"),))
    )
    if left is None:
        return
    at, message = messages[len(messages) - 1 - left.index]
    if has_checkpoints and not _rewind_files(ctx, at):
        return
    conversation.rewind(at)
    ctx.measure_context()
    ctx.say(f"The conversation continues from before: {shorten(' '.join(message.words.split()), 80)}")
    # Offer the message for editing.
    ctx.propose_message(message.words)


def _rewind_files(ctx: SlashContext, at: int) -> bool:
    """Restore files as they were at a message if the user wants; return True if the conversation goes back too.

    Raises UsageError.
    """
    ways = [("1", "Conversation and files", ""), ("2", "Conversation only", ""), ("3", "Files only", "")]
    way = ctx.decide("What should go back?", ways, grave=True)
    if way is None:
        return False
    work = ctx.agent.undo
    turns = work.from_message(at)
    if way != "2" and turns and not _undo_turns(ctx, turns, quiet=way == "1"):
        return False
    return way != "3"


@slash(
    "diff", "show what the session changed", "[N | since N | last]", aside=True, values=lambda ctx: ("last", "since ")
)
def _diff(ctx: SlashContext, words: str) -> None:
    work = ctx.agent.undo
    turns = [s.turn.turn for s in work.steps() if not s.undone]
    if words == "last":
        turns = turns[-1:]
    elif words.startswith("since ") and (first := parse_number(words[6:].strip())):
        turns = [n for n in turns if n >= first]
    elif words:
        if parse_number(words) not in turns:
            ctx.say(f"Unknown turn. These changed files: {', '.join(map(str, turns)) or 'none'}.")
            return
        turns = [parse_number(words)]
    diffs = work.diffs(turns)
    if not diffs:
        ctx.say("Nothing was changed.")
        return
    near = tuple(d.replace(path=short_path(d.path, ctx.run_env.root)) for d in diffs)
    if ctx.has_menus:
        _walk(ctx, near)
    else:
        ctx.show_display(Diffs(near))


def _walk(ctx: SlashContext, diffs: Sequence[Diff]) -> None:
    """Show the changes by file and hunk; a comment on one begins a message to the model."""
    hunks = [(diff, hunk) for diff in diffs for hunk in parse_hunks(diff.patch)]
    items = []
    for diff, hunk in hunks:
        verb = "new file" if diff.created else "deleted" if diff.deleted else "change"
        section = f"{one_line(diff.path)}  +{diff.added} -{diff.removed}  {verb}"
        first = next((line for line in hunk.lines if line[:1] in "+-" and line[1:].strip()), "")
        items.append(ViewItem(f"line {hunk.new[0]}", first, section=section, detail=partial(_draw_hunk, diff, hunk)))
    items += [ViewItem("no text", section=one_line(diff.path)) for diff in diffs if not parse_hunks(diff.patch)]
    comment = ViewAction("c", "comment", lambda index: index < len(hunks))
    left = ctx.show_view(View("Changes", items=tuple(items), actions=(comment,)))
    if left is not None:
        diff, hunk = hunks[left.index]
        last = hunk.new[0] + max(hunk.new[1] - 1, 0)
        ctx.propose_message(f"{diff.path}, lines {hunk.new[0]} to {last}: ")


def _draw_hunk(diff: Diff, hunk: ParsedHunk, width: int) -> list[Text]:
    patch = "\n".join((hunk.header, *hunk.lines))
    return list(diff_lines(diff.replace(patch=patch), whole=True, width=width, heading=False))


def _undo_turns(ctx: SlashContext, turns: Sequence[int], *, quiet: bool = False, offered: bool = False) -> bool:
    """Undo turns, as far as the user agrees; return False if they decline.

    quiet: do not notify the model.
    offered: the user did not request it, so ask a plain yes-or-no question.
    """
    work = ctx.agent.undo
    plan = work.plan(turns)
    if plan.empty and not plan.notes:
        ctx.say("Nothing to undo.")
        return True
    chosen = _choose_files(ctx, plan, offered=offered)
    if chosen is None:
        return False
    failed = work.undo(turns, chosen)
    _report(ctx, chosen, failed, "Reverted")
    names = [short_path(i.path, ctx.run_env.root) for i in chosen if i.path not in failed]
    if names:
        ctx.proposal = ""  # it was about what is gone
    if names and not quiet:
        ctx.agent.inbox.append(UserMessage.about_undo(names[:_MAX_LISTED]))
    return True


def _choose_files(ctx: SlashContext, plan: Plan, *, offered: bool = False, redo: bool = False) -> list[Item] | None:
    """Return the files to restore: list them, and ask about each that changed since."""
    root = str(ctx.run_env.root)
    ready, ask, lost = list(plan.of("ready")), plan.of("ask"), plan.of("lost")
    for item in [*ready, *ask][:_MAX_LISTED]:
        ctx.say(f"  {item.described(root)}")
    if len(ready) + len(ask) > _MAX_LISTED:
        ctx.say(f"  and {len(ready) + len(ask) - _MAX_LISTED} more")
    for item in lost[:_MAX_LISTED]:
        ctx.say(f"  cannot {item.described(root)}")
    kept = plan.of("kept")
    for item in kept[:_MAX_LISTED]:
        ctx.say(f"  {item.described(root)}")
    if len(kept) > _MAX_LISTED:
        ctx.say(f"  and {len(kept) - _MAX_LISTED} more to keep")
    for note in plan.notes:
        ctx.say(f"  note: {note}")
    if not ready and not ask:
        ctx.say(f"No file can be {'re-applied' if redo else 'reverted'}.")
        return []
    if offered and not ctx.confirm("Roll back?", grave=True):
        return None
    if ready and not offered:
        options = [
            ("y", "Yes", f"{'re-apply' if redo else 'revert'} {counted(len(ready), 'file')}"),
            ("s", "Some", "file by file"),
            ("n", "No", ""),
        ]
        answer = ctx.decide("Redo?" if redo else "Undo?", options, grave=True)
        if answer is None:
            return None
        if answer == "s":
            ready = [i for i in ready if ctx.confirm(f"{i.described(root)}?", grave=True)]
    anyway = "redo it anyway?" if redo else "undo it anyway?"
    return ready + [i for i in ask if ctx.confirm(f"{i.described(root)}: {anyway}", grave=True)]


def _report(ctx: SlashContext, chosen: Sequence[Item], failed: dict[str, str], verb: str) -> None:
    done = len(chosen) - len(failed)
    if chosen:
        ctx.say(f"{verb} {counted(done, 'file')}." + (" /redo re-applies it." if verb == "Reverted" and done else ""))
    for path, why in failed.items():
        ctx.say(f"  not {verb.lower()}: {short_path(path, ctx.run_env.root)}: {why}")


_MAX_COMMIT_FILES = 40


@slash(
    "commit",
    "commit what the session changed; you see the message first",
    "[--all] [--note] [-m MESSAGE] [PATH] [HINT]",
)
def _commit(ctx: SlashContext, words: str) -> None:
    """Commit. Raises UsageError or CancelledError and then commits nothing."""
    if (starts := git_would_start(ctx.run_env, ctx.layers)) and not ctx.confirm(
        f"This project is not trusted. Let git run anyway, with {one_line(shorten(starts, 300))}?", grave=True
    ):
        return
    context = ctx.agent.tool_context
    if context.cancel.cancelled:
        context.cancel = CancelToken()
    repo = Repository(ctx.run_env.root, ctx.run_env.env)
    repo.check()
    changes = repo.changes()
    asked = CommitArguments.parse(words, changes, repo.top, ctx.run_env.cwd)
    choice = _session_changes(ctx, asked).choose(changes, repo, asked)
    take = _ask_about_doubtful(ctx, choice)
    if not take:
        _explain_nothing(ctx, asked, changes, choice)
        return
    marks = _fingerprints(repo, take)
    _list_files(ctx, repo, take, choice)
    message = _message(ctx, repo, take, asked)
    verdict = _confirm_message(ctx, repo, take, message)
    if verdict is None:
        ctx.say("Nothing was committed.")
        return
    if _fingerprints(repo, take) != marks:
        raise UsageError("Nothing was committed: the files changed since they were shown. /commit shows them again.")
    if not asked.hooks:
        ctx.say("  without the hooks that --no-verify skips")
    name, subject = repo.commit(take, verdict, hooks=asked.hooks, cancel=context.cancel)
    ctx.say(f"Committed {name}: {one_line(subject)}")
    files = shorten(", ".join(c.path for c in take), 1_000)
    ctx.agent.inbox.append(f"<commit>\nThe user {SessionChanges.commit_words(files, name, subject)}\n</commit>")
    if asked.note:
        _write_note(ctx, name)


def _write_note(ctx: SlashContext, name: str) -> None:
    """Write the completion record as a note of a commit; the first one in a repository is shown, and needs a yes."""
    found = logged_view(ctx)
    if found is None:
        ctx.say("No note was written: the session is not saved.")
        return
    record = found.completion()
    repository = notes.NotesRepository(ctx.run_env.root, ctx.layers.trust.git_use, ctx.run_env.env)
    commit = repository.commit(name)
    session = ctx.agent.session_id
    text = repository.text(found, record, session, commit)
    written = repository.offer(commit, session, text, ctx.say, lambda question: ctx.confirm(question, grave=False))
    ctx.say(f"Noted in {repository.REF}." if written else "No note was written.")


def _session_changes(ctx: SlashContext, asked: CommitArguments) -> SessionChanges:
    """Return the session's changes from the checkpoints. Raises UsageError if they are needed but unknown."""
    agent = ctx.agent
    why = ""
    if not agent.settings.undo.keep or not agent.settings.save_sessions:
        why = "the changes of this session are not recorded"
    else:
        try:
            return SessionChanges.of(agent.undo)
        except UsageError as error:
            why = str(error).rstrip(".")
    if asked.everything or asked.paths:
        return SessionChanges()
    raise UsageError(
        f"The changes of the session are not known ({why}): name the files with /commit PATH, or use /commit --all."
    )


def _ask_about_doubtful(ctx: SlashContext, choice: CommitChoice) -> list[FileStatus]:
    """Return the files to commit after asking about doubtful ones. Raises UsageError."""
    if unmerged := [c.path for c in choice.take if c.unmerged]:
        raise UsageError(f"Resolve the conflicts first: {shorten(', '.join(unmerged), 200)}.")
    take = []
    for change in choice.take:
        if change.partly_staged and not ctx.confirm(f"{change.path} is staged in part: commit all of it?", grave=False):
            ctx.say(f"  left out, already staged: {one_line(change.path)}")
        else:
            take.append(change)
    return take


def _explain_nothing(
    ctx: SlashContext, asked: CommitArguments, changes: Sequence[FileStatus], choice: CommitChoice
) -> None:
    if choice.take:
        ctx.say("Nothing is left to commit.")
    elif not changes:
        ctx.say("Nothing to commit: no file differs from the last commit.")
    elif asked.paths:
        ctx.say(f"Nothing to commit: {one_line(', '.join(asked.paths))} does not differ from the last commit.")
    else:
        ctx.say(
            f"Nothing to commit from this session. Other changes: {counted(len(changes), 'file')}; /commit PATH or "
            "/commit --all includes them."
        )


def _list_files(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], choice: CommitChoice) -> None:
    counts = repo.counts(take)
    ctx.say(f"{counted(len(take), 'file')} for {repo.branch or 'a commit on no branch (HEAD is detached)'}:")
    for change in take[:_MAX_COMMIT_FILES]:
        lines = counts.get(change.path, (0, 0))
        text = "no text" if lines is None else f"+{lines[0]} -{lines[1]}"
        kind = "new, " if change.new else "" if os.path.lexists(repo.top / change.path) else "deleted, "
        note = choice.notes.get(change.path)
        ctx.say(f"  {one_line(change.path)} ({kind}{text})" + (f" - {note}" if note else ""))
    if len(take) > _MAX_COMMIT_FILES:
        ctx.say(f"  and {len(take) - _MAX_COMMIT_FILES} more")
    if choice.staged:
        ctx.say(f"  staged, not committed, stays staged: {shorten(one_line(', '.join(choice.staged)), 200)}")
    if choice.outside:
        ctx.say(f"  changed outside of this repository: {shorten(one_line(', '.join(choice.outside)), 200)}")


def _message(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], asked: CommitArguments) -> str:
    """Return the initial message: the user's, else the model's. Raises UsageError, CancelledError."""
    agent = ctx.agent
    text, draft = asked.message, CommitDraft(repo, take)
    if not text:
        readable, redact = agent.policy.readable, Redactor(ctx.run_env.env)
        try:
            opened = agent.open_model(small=True)
            text, usage = draft.propose(
                opened, agent.live_history, asked.instructions, readable, redact, agent.tool_context.cancel
            )
            agent.charge(opened.label, usage)
            ctx.add_usage(usage)
        except ModelError as error:
            ctx.say(f"The model proposes no message: {error.failure.message}")
        else:
            if not text:
                ctx.say("The model proposed no message.")
    return draft.signed(text, agent.settings.commit_trailers, agent.label)


def _confirm_message(ctx: SlashContext, repo: Repository, take: Sequence[FileStatus], message: str) -> str | None:
    """Return the message the user accepts, edited or not; None if they decline."""
    options = [
        ("y", "Yes", f"commit {counted(len(take), 'file')}"), ("e", "Edit the message", ""), ("n", "No", ""),
    ]  # fmt: skip
    while True:
        ctx.say("")
        for line in message.splitlines():
            ctx.say(f"  {line}".rstrip())
        ctx.say("")
        answer = ctx.decide("Commit with this message?", options, grave=False)
        if answer == "y":
            return message
        if answer != "e":
            return None
        changed = ctx.edit(f"{message}\n", ".txt")
        if changed is not None:
            if not changed.strip():
                return None
            message = changed.strip()


def _fingerprints(repo: Repository, take: Sequence[FileStatus]) -> list[tuple[int, int, int] | None]:
    """Fingerprint the files, to detect changes while the user decides."""
    found: list[tuple[int, int, int] | None] = []
    for change in take:
        try:
            state = (repo.top / change.path).lstat()
            found.append((state.st_mtime_ns, state.st_size, state.st_mode))
        except OSError:
            found.append(None)
    return found
