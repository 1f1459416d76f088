"""What /undo, /redo, /rewind and /diff do: say what would happen, ask, do it, and tell what became of it.

/undo, /redo, /rewind, and /diff. Their dependencies load on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_cli.checkpoints.git_store import StoreError
from agent_cli.checkpoints.undo import UndoManager
from agent_cli.checkpoints.undo_plan import Item, Plan, describe_plan
from agent_cli.core.messages import is_user_message, user_text
from agent_cli.core.place import UsageError
from agent_cli.runtime.checkpoints import undoing
from agent_cli.terminal.commands.registry import slash
from agent_cli.terminal.startup import measure
from agent_tools.display import Diffs
from agent_tools.text import counted, number_in, shorten

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl

_MOST_LISTED = 30


@contextmanager
def _work(repl: Repl) -> Iterator[UndoManager]:
    """The session's snapshots. Raises UsageError."""
    agent = repl.agent
    try:
        yield undoing(agent.place, agent.settings, agent.header.session_id)
    except StoreError as error:
        raise UsageError(f"The snapshots cannot be used: {error}.") from None


def undo_turn(repl: Repl, words: str) -> None:
    with _work(repl) as work:
        latest = work.latest()
        if latest is None:
            repl.say("There is nothing to undo.")
            return
        text = work.story().turns[latest].text
        repl.say(f"The turn: {shorten(user_text(text), 80)}")
        _undo_turns(repl, work, [latest])


def roll_back(repl: Repl) -> None:
    """Offer to take back what the turn that just ended has changed. Raises UsageError, CancelledError."""
    with _work(repl) as work:
        latest = work.latest()
        if latest is not None and not _undo_turns(repl, work, [latest], offered=True):
            repl.say("  /undo undoes it later.")


def redo(repl: Repl, words: str) -> None:
    with _work(repl) as work:
        found = work.redo_plan()
        if found is None:
            repl.say("There is nothing to redo.")
            return
        number, plan = found
        chosen = _chosen(repl, plan)
        if chosen is not None:
            _tell(repl, chosen, work.redo(number, chosen), "made again")


def rewind(repl: Repl, words: str) -> None:
    conversation = repl.agent.conversation
    said = [(n, m) for n, m in enumerate(conversation.history) if is_user_message(m)]
    if not said:
        repl.say("Nothing was said yet.")
        return
    kept = True
    try:
        with _work(repl) as work:
            changes = work.summed_since([n for n, _ in said])
    except UsageError as error:
        repl.say(f"Only the conversation can go back. {error}")
        kept, changes = False, [""] * len(said)
    options = [
        (shorten(" ".join(user_text(message.text).split()), 70), f"since then: {changed}" if changed else "")
        for (_, message), changed in zip(reversed(said), reversed(changes), strict=True)
    ]
    picked = repl.choose("Go back to before which message?", options)
    if picked is None:
        return
    at, message = said[len(said) - 1 - picked]
    if kept and not _rewind_files(repl, at):
        return
    conversation.rewind(at)
    measure(repl)
    repl.say(f"The conversation goes on from before: {shorten(' '.join(user_text(message.text).split()), 80)}")
    # To be said again, or otherwise.
    repl.propose(user_text(message.text))


def _rewind_files(repl: Repl, at: int) -> bool:
    """Put files back as they were at a message, where the user wants that; whether the conversation goes back too.

    Raises UsageError.
    """
    ways = [("conversation and files", ""), ("only the conversation", ""), ("only the files", "")]
    way = repl.choose("What is to go back?", ways)
    if way is None:
        return False
    with _work(repl) as work:
        turns = work.from_message(at)
        if way != 1 and turns and not _undo_turns(repl, work, turns, quiet=way == 0):
            return False
    return way != 2


def diff(repl: Repl, words: str) -> None:
    with _work(repl) as work:
        turns = [s.turn.turn for s in work.steps() if not s.undone]
        if words == "last":
            turns = turns[-1:]
        elif words.startswith("since ") and (first := number_in(words[6:].strip())):
            turns = [n for n in turns if n >= first]
        elif words:
            if number_in(words) not in turns:
                repl.say(
                    f"There is no such turn; those that changed something: {', '.join(map(str, turns)) or 'none'}."
                )
                return
            turns = [number_in(words)]
        diffs = work.diffs(turns)
        if not diffs:
            repl.say("Nothing was changed.")
            return
        root = str(repl.place.root)
        near = tuple(
            d.but(path=os.path.relpath(d.path, root) if d.path.startswith(f"{root}/") else d.path) for d in diffs
        )
        repl.show_display(Diffs(near))


def _undo_turns(
    repl: Repl, work: UndoManager, turns: Sequence[int], *, quiet: bool = False, offered: bool = False
) -> bool:
    """Undo turns as far as the user agrees; False where they would rather not. quiet: the model need not know.

    offered: they did not ask for it, so that it is a yes or a no.
    """
    plan = work.plan(turns)
    if plan.empty and not plan.notes:
        repl.say("No file is to be put back.")
        return True
    chosen = _chosen(repl, plan, offered=offered)
    if chosen is None:
        return False
    failed = work.undo(turns, chosen)
    _tell(repl, chosen, failed, "put back")
    names = [os.path.relpath(i.path, repl.place.root) for i in chosen if i.path not in failed]
    if names and not quiet:
        listed = ", ".join(names[:_MOST_LISTED])
        repl.agent.conversation.inbox.append(f"<undo>\nThe user took back your changes to: {listed}\n</undo>")
    return True


def _chosen(repl: Repl, plan: Plan, *, offered: bool = False) -> list[Item] | None:
    """Which files are put back: shown first; those that were changed since are asked about one by one."""
    root = str(repl.place.root)
    ready, ask, lost = list(plan.of("ready")), plan.of("ask"), plan.of("lost")
    for line in describe_plan([*ready, *ask], root)[:_MOST_LISTED]:
        repl.say(f"  {line}")
    if len(ready) + len(ask) > _MOST_LISTED:
        repl.say(f"  and {len(ready) + len(ask) - _MOST_LISTED} more")
    for line in describe_plan(lost, root)[:_MOST_LISTED]:
        repl.say(f"  cannot {line}")
    for note in plan.notes:
        repl.say(f"  note: {note}")
    if not ready and not ask:
        repl.say("No file can be put back.")
        return []
    if offered and not repl.confirm("Roll back?"):
        return None
    if ready and not offered:
        options = [("yes", f"put back {counted(len(ready), 'file')}"), ("choose", "file by file"), ("no", "")]
        picked = repl.choose("Put them back?", options)
        if picked is None or picked == 2:
            return None
        if picked == 1:
            ready = [i for i in ready if repl.confirm(f"{describe_plan([i], root)[0]}?")]
    return ready + [i for i in ask if repl.confirm(f"{describe_plan([i], root)[0]}: all the same?")]


def _tell(repl: Repl, chosen: Sequence[Item], failed: dict[str, str], verb: str) -> None:
    done = len(chosen) - len(failed)
    if chosen:
        repl.say(f"{counted(done, 'file')} {verb}." + (" /redo reverts that." if verb == "put back" and done else ""))
    for path, why in failed.items():
        repl.say(f"  not {verb}: {os.path.relpath(path, repl.place.root)}: {why}")


@slash("undo", "undo what the last turn changed, commands included")
def _undo(repl: Repl, words: str) -> None:

    undo_turn(repl, words)


@slash("redo", "make again what the last undo took back")
def _redo(repl: Repl, words: str) -> None:

    redo(repl, words)


@slash("rewind", "go back to a message: the conversation, the files, or both")
def _rewind(repl: Repl, words: str) -> None:

    rewind(repl, words)


@slash("diff", "what the session changed; in turn N; from turn N on; in the last turn", "[N|since N|last]", aside=True)
def _diff(repl: Repl, words: str) -> None:

    diff(repl, words)
