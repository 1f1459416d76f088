"""`agent why FILE:LINE`: which turn, prompt and model wrote a line."""

from __future__ import annotations

import os

from agent_cli.commands.output import echo
from agent_cli.keeping import undoing
from agent_cli.options import RunOptions
from agent_cli.place import UsageError, find_place, read_settings
from agent_cli.snapshots.git import StoreError
from agent_cli.snapshots.why import who_wrote
from agent_tools.clipping import number_in
from agent_tools.inert import inert
from agent_tools.regular import read_regular

_LARGEST = 20_000_000


def explain_line(text: str) -> int:
    """Say who wrote a line; 1 where that was none of ours. Raises UsageError."""
    name, _, number = text.rpartition(":")
    if not name or number_in(number) < 1:
        raise UsageError("Say which line, as in: agent why src/app.py:42")
    place = find_place(os.environ)
    path = os.path.realpath(place.cwd / name)
    try:
        lines = read_regular(path, _LARGEST).decode("utf-8", "replace").splitlines(keepends=True)
    except OSError as error:
        raise UsageError(f"{inert(name)} cannot be read: {error.strerror or error}.") from None
    if int(number) > len(lines):
        raise UsageError(f"{inert(name)} has {len(lines)} lines.")
    try:
        store = undoing(place, read_settings(RunOptions(), place).settings(), "none").store
        found = who_wrote(store, path, int(number), lines)
    except StoreError as error:
        raise UsageError(f"The snapshots cannot be used: {error}.") from None
    echo(f"{inert(name)}:{number}: {inert(lines[int(number) - 1].rstrip())}")
    if found is None:
        echo("No session that is kept wrote this line.")
        return 1
    turn, change = found.turn, found.change
    echo(f"  written by {turn.model} in turn {turn.turn} of session {found.session[:8]}, {change.time}")
    echo(f"  with: {inert(change.summary)}")
    echo(f"  asked: {inert(turn.text)}")
    return 0
