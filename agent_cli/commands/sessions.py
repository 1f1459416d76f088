"""`agent sessions list`: the sessions of this project, the latest first."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from agent_cli.commands.output import put, put_json, table
from agent_cli.headless.run import say
from agent_cli.place import find_place
from agent_cli.session.records import SessionInfo
from agent_cli.session.store import SessionStore, state_folder
from agent_tools.values import Value, to_plain

SHORT = 8
# What a list says of sessions that are not simply done.
STAGES = {
    "awaiting_tool_approval": "waiting for approval",
    "awaiting_plan_approval": "a plan waits",
    "awaiting_answer": "a question waits",
    "executing": "not ended",
    "failed": "failed",
}


def list_sessions(as_json: bool) -> int:
    """Print them as a table, or as JSON with every field; the exit code."""
    place = find_place(os.environ)
    sessions = list(SessionStore(state_folder(place.env), place.root).list())
    if as_json:
        put_json([{name: _untyped(getattr(s, name)) for name in SessionInfo._fields} for s in sessions])
        return 0
    if not sessions:
        say(f"There are no sessions of {place.root} yet.")
        return 0
    length = short_length([s.session_id for s in sessions])
    now = datetime.now(UTC)
    rows = [
        (
            s.session_id[:length],
            age(s.updated, now),
            s.model,
            str(s.messages),
            f"${s.cost:.4f}" if s.cost else "-",
            f"{s.first_message}{f' ({STAGES[s.stage]})' if s.stage in STAGES else ''}",
        )
        for s in sessions
    ]
    put("\n".join(table(("ID", "AGE", "MODEL", "MESSAGES", "COST", "FIRST MESSAGE"), rows, frozenset((1, 3, 4)))))
    return 0


def _untyped(value: Any) -> Any:
    """Plain data; the steps of a plan without their type tags."""
    if isinstance(value, tuple):
        return [_untyped(v) for v in value]
    return {k: v for k, v in to_plain(value).items() if k != "type"} if isinstance(value, Value) else value


def short_length(ids: list[str]) -> int:
    """How many characters tell all ids apart, so that each can be given to --resume; at least eight."""
    longest = max((len(i) for i in ids), default=SHORT)
    return next((n for n in range(SHORT, longest) if len({i[:n] for i in ids}) == len(ids)), longest)


def age(time: str, now: datetime) -> str:
    """How long ago a record's time was, in one unit: "5m", "3h", "12d"; "?" for a time that cannot be read."""
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError):
        return "?"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
