"""Show which turn, prompt and model wrote a line."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli import Config, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli.help import examples
from agent_cli.console import echo
from agent_cli.git.notes import NotesRepository
from agent_cli.kernel.runtime.checkpoints import undo_manager
from agent_cli.policy.git_use import Use
from agent_tools.fs.safe_files import read_regular
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import counted, escape_controls, parse_number

app = typer.Typer(add_completion=False)
_MAX_FILE_BYTES = 20_000_000


@app.command(epilog=examples("agent why src/app.py:42"))
def why(line: Annotated[str, typer.Argument(metavar="FILE:LINE", help="Line of a file, as in src/app.py:42.")]) -> int:
    name, _, number = line.rpartition(":")
    if not name or parse_number(number) < 1:
        raise UsageError("Name a line, as in: agent why src/app.py:42")
    run_env = find_environment(os.environ)
    layers = read_settings(Config(), run_env)
    path = os.path.realpath(run_env.cwd / name)
    try:
        lines = read_regular(path, _MAX_FILE_BYTES).decode("utf-8", "replace").splitlines(keepends=True)
    except OSError as error:
        raise UsageError(f"{escape_controls(name)} cannot be read: {error.strerror or error}.") from None
    if int(number) > len(lines):
        raise UsageError(f"{escape_controls(name)} has {counted(len(lines), 'line')}.")
    found = undo_manager(run_env, layers.settings(), "none").blame(path, int(number), lines)
    echo(f"{escape_controls(name)}:{number}: {escape_controls(lines[int(number) - 1].rstrip())}")
    if found is None:
        return _from_notes(run_env, layers.trust.git_use, os.path.relpath(path, run_env.root), int(number))
    turn, change = found.turn, found.change
    echo(f"  written by {turn.model} in turn {turn.turn} of session {found.session[:8]}, {change.time}")
    echo(f"  with: {escape_controls(change.summary)}")
    echo(f"  asked: {escape_controls(turn.text)}")
    return 0


def _from_notes(run_env: RunEnvironment, use: Use, path: str, number: int) -> int:
    """Show what the note of the line's commit says: what was asked, the step, and its evidence."""
    try:
        notes = NotesRepository(run_env.root, use, run_env.env)
        blamed = notes.blame(path, number)
        lines = notes.read(blamed.commit).lines_about(blamed.path) if blamed is not None and blamed.commit else []
    except UsageError as error:
        echo(f"No stored session wrote this line. {escape_controls(str(error))}")
        return 1
    if blamed is None or not blamed.commit:
        echo("No stored session wrote this line.")
        return 1
    echo(f"  commit {blamed.commit[:10]} of {blamed.author}, {blamed.time}: {blamed.subject}")
    if not lines:
        echo("No stored session wrote this line, and its commit has no note of one.")
        return 1
    echo("  its note, as somebody wrote it:")
    for line in lines:
        echo(f"    {escape_lookalikes(line)}")
    return 0
