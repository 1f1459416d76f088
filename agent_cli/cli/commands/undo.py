"""Undo the changes of the last turn of a session, including changes by commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_cli import (
    Config,
    RunEnvironment,
    SessionNotFoundError,
    SessionStore,
    UsageError,
    find_environment,
    read_settings,
)
from agent_cli.cli.app import SessionArgument
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.console import echo, print_notice
from agent_cli.kernel.runtime.checkpoints import undo_manager
from agent_cli.undo.undo import UndoManager
from agent_cli.undo.undo_plan import Item, Plan
from agent_tools.text import counted, escape_controls

app = typer.Typer(add_completion=False)


@app.command("undo", epilog=examples("agent undo", "agent undo --to 3", "agent undo --file src/app.py"))
def undo_session(
    session: SessionArgument = "",
    listed: Annotated[bool, typer.Option("--list", help="List the turns that changed something.")] = False,
    to: Annotated[int | None, typer.Option("--to", metavar="TURN", help="Undo this turn and all after it.")] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Redo what was undone last.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Include files that were changed since.")] = False,
    files: Annotated[list[str] | None, typer.Option("--file", metavar="FILE", help="Only this file.")] = None,
) -> int:
    run_env = find_environment(os.environ)
    work = open_undo(session, run_env)
    if listed:
        return _list(work, session, run_env)
    if redo:
        found = work.redo_plan()
        if found is None:
            raise UsageError("There is nothing to redo in this session.")
        number, plan = found
        chosen = _choose_items(plan, run_env, yes=yes, force=force, files=files or ())
        return 1 if chosen is None else _report(work.redo(number, chosen), chosen, run_env, "undo")
    if to is None and work.latest() is None:
        raise UsageError(f"There is nothing to undo in this session.{_unrecorded(session, run_env)}")
    turns = _choose_turns(work, to)
    chosen = _choose_items(work.plan(turns), run_env, yes=yes, force=force, files=files or ())
    return 1 if chosen is None else _report(work.undo(turns, chosen, part=bool(files)), chosen, run_env, "undo --redo")


def open_undo(start: str, run_env: RunEnvironment) -> UndoManager:
    """Return the checkpoints of a session, by its ID or a prefix; the latest by default. Raises UsageError."""
    _, session = _find(start, run_env)
    return undo_manager(run_env, read_settings(Config(), run_env).settings(), session)


def _find(start: str, run_env: RunEnvironment) -> tuple[SessionStore, str]:
    store = SessionStore.of(run_env)
    try:
        return store, store.find_id(start) if start else store.latest(of_hosts=True)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None


def _unrecorded(start: str, run_env: RunEnvironment) -> str:
    """Return a sentence about changes of a session that were not recorded; "" for none."""
    store, session = _find(start, run_env)
    return store.session(session).load().header.unrecorded


def _list(work: UndoManager, start: str, run_env: RunEnvironment) -> int:
    steps = work.steps()
    if not steps:
        print_notice(f"No changes are recorded for this session.{_unrecorded(start, run_env)}")
    for step in steps:
        what = "undone" if step.undone else work.summed([step.turn.turn]) or "nothing to undo"
        echo(f"{step.turn.turn:>3}  {step.turn.time}  {what}: {escape_controls(step.turn.text)}")
    return 0


def _choose_turns(work: UndoManager, to: int | None) -> list[int]:
    known = [s.turn.turn for s in work.steps() if not s.undone]
    if to is None:
        latest = work.latest()
        assert latest is not None
        return [latest]
    found = [n for n in known if n >= to]
    if not found:
        raise UsageError(f"There is nothing to undo from turn {to} on. See: agent undo --list")
    return found


def _choose_items(
    plan: Plan, run_env: RunEnvironment, *, yes: bool, force: bool, files: Sequence[str]
) -> list[Item] | None:
    """Return the files to restore after the user agreed; None if they declined. Raises UsageError."""
    wanted = {os.path.normpath(run_env.cwd / f) for f in files}
    items = [i for i in plan.items if not wanted or i.path in wanted]
    if unknown := sorted(wanted - {i.path for i in items}):
        raise UsageError(f"This undo does not change {escape_controls(unknown[0])}.")
    root = str(run_env.root)
    ready = [i for i in items if i.kind == "ready" or (force and i.kind == "ask")]
    for item in ready:
        echo(f"  {item.described(root)}")
    if left := [i for i in items if i not in ready]:
        echo("Not changed:")
        for item in left:
            echo(f"  {item.described(root)}")
        if any(i.kind == "ask" for i in left):
            echo("  (--force also restores those that were changed since)")
    for note in plan.notes:
        echo(f"Note: {escape_controls(note)}.")
    if not ready:
        echo("There is nothing to restore.")
        return None
    if yes:
        return ready
    if not can_ask():
        raise UsageError("This needs your approval, and nobody can be asked here: --yes does it without asking.")
    return ready if confirm(f"Restore {counted(len(ready), 'file')}?") else None


def _report(failed: dict[str, str], items: Sequence[Item], run_env: RunEnvironment, back: str) -> int:
    echo(f"Restored {counted(len(items) - len(failed), 'file')}. To reverse this: agent {back}")
    for path, why in failed.items():
        print_notice(f"not restored: {escape_controls(os.path.relpath(path, run_env.root))}: {escape_controls(why)}")
    return 1 if failed else 0
