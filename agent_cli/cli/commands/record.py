"""Show the completion record of a session: each step with its evidence; write it as a git note, share such notes."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli import Config, SessionView, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJsonObject, ListingGroup, SessionArgument
from agent_cli.cli.commands.show import find_session
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.console import echo, print_json, print_notice
from agent_cli.git.notes import NotesRepository
from agent_tools.text import counted, escape_controls, one_line

app = typer.Typer(cls=ListingGroup, add_completion=False)
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
SessionOption = Annotated[
    str,
    typer.Option("--session", metavar="SESSION", help="The session; the latest by default.",
                 autocompletion=completion.complete_sessions),
]  # fmt: skip


def _view(session: str) -> tuple[SessionView, str]:
    """Return a session and its ID. Raises UsageError."""
    found = find_session(session, every=False)
    try:
        return found.view(), found.session_id
    except OSError as error:
        raise UsageError(f"Cannot read session {found.session_id}: {error.strerror or error}.") from None


def _open_notes() -> NotesRepository:
    """Return the notes of the repository. Raises UsageError."""
    run_env = find_environment(os.environ)
    return NotesRepository(run_env.root, read_settings(Config(), run_env).trust.git_use, run_env.env)


@app.command("show", epilog=examples("agent record show", "agent record show 1a2b3c4d --json"))
def show_record(session: SessionArgument = "", as_json: AsJsonObject = False) -> int:
    """Show the record of a session."""
    view, session_id = _view(session)
    record = view.completion()
    if as_json:
        print_json({"session_id": session_id, **record.data()})
    else:
        echo("\n".join(escape_controls(line) for line, _ in record.lines()))
    return 0


@app.command("note", epilog=examples("agent record note", "agent record note HEAD --dry-run"))
def write_note(
    commits: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMIT]...", help="The commits; those that the session made by default."),
    ] = None,
    session: SessionOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the notes and write none.")] = False,
    yes: Yes = False,
) -> int:
    """Write the record as a git note of the session's commits. The first one in a repository is shown before."""
    view, session_id = _view(session)
    record, notes = view.completion(), _open_notes()
    if not record.summary:
        raise UsageError("Nothing was planned or changed in this session.")
    chosen = [notes.commit(name) for name in commits or ()] or notes.made(view, record)
    if not chosen:
        raise UsageError(
            "No commit of this session is in the history of HEAD. Name the commits: agent record note COMMIT"
        )
    if not (dry_run or yes or notes.agreed or can_ask()):
        raise UsageError("The first note in a repository needs your agreement. See --dry-run, then use --yes.")
    for commit in chosen:
        text = notes.text(view, record, session_id, commit)
        if dry_run:
            echo(f"{notes.subject(commit)}\n{text}")
        elif not notes.offer(commit, session_id, text, print_notice, lambda question: yes or confirm(question)):
            return 1
        else:
            echo(f"Noted at {notes.subject(commit)}")
    return 0


@app.command("share", epilog=examples("agent record share", "agent record share upstream --yes"))
def share(
    remote: Annotated[str, typer.Argument(metavar="[REMOTE]", help="The remote; origin by default.")] = "origin",
    yes: Yes = False,
) -> int:
    """Show the settings with which git fetches and merges notes, and write them if you agree."""
    notes = _open_notes()
    if remote not in notes.remotes():
        raise UsageError(f"There is no remote {one_line(remote)}.")
    missing = notes.missing_settings(remote)
    for key, value in missing:
        echo(f"git config --local --add {key} '{value}'")
    if missing and (yes or (can_ask() and confirm(f"Write {counted(len(missing), 'setting')} to .git/config?"))):
        for key, value in missing:
            notes.add_setting(key, value)
        print_notice("Written.")
    elif not missing:
        print_notice("The settings are there.")
    print_notice(f"{notes.REF} is never pushed by agent. After git fetch {remote}:")
    for line in notes.share_commands(remote):
        echo(line)
    return 0
