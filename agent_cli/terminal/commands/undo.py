"""/undo, /redo, /rewind and /diff: show what would happen, ask, do it, and report the result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent_cli.checkpoints.git_store import StoreError
from agent_cli.checkpoints.undo import UndoManager
from agent_cli.checkpoints.undo_plan import Item, Plan, describe_plan
from agent_cli.core.messages import is_user_message, user_text
from agent_cli.core.place import UsageError
from agent_cli.runtime.checkpoints import undo_manager
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.display import Diffs
from agent_tools.text import counted, number_in, shorten

_MOST_LISTED = 30


@contextmanager
def _work(ctx: SlashContext) -> Iterator[UndoManager]:
    """Yield the session's undo manager. Raises UsageError."""
    agent = ctx.agent
    try:
        yield undo_manager(agent.place, agent.settings, agent.header.session_id)
    except StoreError as error:
        raise UsageError(f"The snapshots cannot be used: {error}.") from None


@slash("undo", "undo what the last turn changed, commands included")
def _undo(ctx: SlashContext, words: str) -> None:
    with _work(ctx) as work:
        latest = work.latest()
        if latest is None:
            ctx.say("There is nothing to undo.")
            return
        text = work.story().turns[latest].text
        ctx.say(f"The turn: {shorten(user_text(text), 80)}")
        _undo_turns(ctx, work, [latest])


def roll_back(ctx: SlashContext) -> None:
    """Offer to undo the changes of the turn that just ended. Raises UsageError, CancelledError."""
    with _work(ctx) as work:
        latest = work.latest()
        if latest is not None and not _undo_turns(ctx, work, [latest], offered=True):
            ctx.say("  /undo undoes it later.")


@slash("redo", "make again what the last undo took back")
def _redo(ctx: SlashContext, words: str) -> None:
    with _work(ctx) as work:
        found = work.redo_plan()
        if found is None:
            ctx.say("There is nothing to redo.")
            return
        number, plan = found
        chosen = _chosen(ctx, plan)
        if chosen is not None:
            _tell(ctx, chosen, work.redo(number, chosen), "made again")


@slash("rewind", "go back to a message: the conversation, the files, or both")
def _rewind(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    said = [(n, m) for n, m in enumerate(conversation.history) if is_user_message(m)]
    if not said:
        ctx.say("There is no message to go back to yet.")
        return
    kept = True
    try:
        with _work(ctx) as work:
            changes = work.summed_since([n for n, _ in said])
    except UsageError as error:
        ctx.say(f"Only the conversation can go back. {error}")
        kept, changes = False, [""] * len(said)
    options = [
        (shorten(" ".join(user_text(message.text).split()), 70), f"since then: {changed}" if changed else "")
        for (_, message), changed in zip(reversed(said), reversed(changes), strict=True)
    ]
    picked = ctx.choose("Go back to before which message?", options)
    if picked is None:
        return
    at, message = said[len(said) - 1 - picked]
    if kept and not _rewind_files(ctx, at):
        return
    conversation.rewind(at)
    ctx.measure_context()
    ctx.say(f"The conversation continues from before: {shorten(' '.join(user_text(message.text).split()), 80)}")
    # Offer the message for editing.
    ctx.propose(user_text(message.text))


def _rewind_files(ctx: SlashContext, at: int) -> bool:
    """Restore files as they were at a message if the user wants; return True if the conversation goes back too.

    Raises UsageError.
    """
    ways = [("conversation and files", ""), ("only the conversation", ""), ("only the files", "")]
    way = ctx.choose("What is to go back?", ways)
    if way is None:
        return False
    with _work(ctx) as work:
        turns = work.from_message(at)
        if way != 1 and turns and not _undo_turns(ctx, work, turns, quiet=way == 0):
            return False
    return way != 2


@slash("diff", "what the session changed; in turn N; from turn N on; in the last turn", "[N|since N|last]", aside=True)
def _diff(ctx: SlashContext, words: str) -> None:
    with _work(ctx) as work:
        turns = [s.turn.turn for s in work.steps() if not s.undone]
        if words == "last":
            turns = turns[-1:]
        elif words.startswith("since ") and (first := number_in(words[6:].strip())):
            turns = [n for n in turns if n >= first]
        elif words:
            if number_in(words) not in turns:
                ctx.say(f"There is no such turn; those that changed something: {', '.join(map(str, turns)) or 'none'}.")
                return
            turns = [number_in(words)]
        diffs = work.diffs(turns)
        if not diffs:
            ctx.say("Nothing was changed.")
            return
        root = str(ctx.place.root)
        near = tuple(
            d.replace(path=os.path.relpath(d.path, root) if d.path.startswith(f"{root}/") else d.path) for d in diffs
        )
        ctx.show_display(Diffs(near))


def _undo_turns(
    ctx: SlashContext, work: UndoManager, turns: Sequence[int], *, quiet: bool = False, offered: bool = False
) -> bool:
    """Undo turns as far as the user agrees; False if they decline.

    quiet: do not notify the model.
    offered: the user did not ask for it, so a plain yes-or-no question.
    """
    plan = work.plan(turns)
    if plan.empty and not plan.notes:
        ctx.say("No file is to be put back.")
        return True
    chosen = _chosen(ctx, plan, offered=offered)
    if chosen is None:
        return False
    failed = work.undo(turns, chosen)
    _tell(ctx, chosen, failed, "put back")
    names = [os.path.relpath(i.path, ctx.place.root) for i in chosen if i.path not in failed]
    if names and not quiet:
        listed = ", ".join(names[:_MOST_LISTED])
        ctx.agent.conversation.inbox.append(f"<undo>\nThe user undid your changes to: {listed}\n</undo>")
    return True


def _chosen(ctx: SlashContext, plan: Plan, *, offered: bool = False) -> list[Item] | None:
    """Return the files to restore: list them, and ask about each that changed since."""
    root = str(ctx.place.root)
    ready, ask, lost = list(plan.of("ready")), plan.of("ask"), plan.of("lost")
    for line in describe_plan([*ready, *ask], root)[:_MOST_LISTED]:
        ctx.say(f"  {line}")
    if len(ready) + len(ask) > _MOST_LISTED:
        ctx.say(f"  and {len(ready) + len(ask) - _MOST_LISTED} more")
    for line in describe_plan(lost, root)[:_MOST_LISTED]:
        ctx.say(f"  cannot {line}")
    for note in plan.notes:
        ctx.say(f"  note: {note}")
    if not ready and not ask:
        ctx.say("No file can be put back.")
        return []
    if offered and not ctx.confirm("Roll back?"):
        return None
    if ready and not offered:
        options = [("yes", f"put back {counted(len(ready), 'file')}"), ("choose", "file by file"), ("no", "")]
        picked = ctx.choose("Put them back?", options)
        if picked is None or picked == 2:
            return None
        if picked == 1:
            ready = [i for i in ready if ctx.confirm(f"{describe_plan([i], root)[0]}?")]
    return ready + [i for i in ask if ctx.confirm(f"{describe_plan([i], root)[0]}: all the same?")]


def _tell(ctx: SlashContext, chosen: Sequence[Item], failed: dict[str, str], verb: str) -> None:
    done = len(chosen) - len(failed)
    if chosen:
        ctx.say(f"{counted(done, 'file')} {verb}." + (" /redo reverts that." if verb == "put back" and done else ""))
    for path, why in failed.items():
        ctx.say(f"  not {verb}: {os.path.relpath(path, ctx.place.root)}: {why}")
