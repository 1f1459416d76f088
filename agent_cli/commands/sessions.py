"""`agent sessions list`: the sessions of this project or of all, the latest first"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from agent_cli.commands.output import echo, put_json, table
from agent_cli.commands.which import find_sessions
from agent_cli.headless.printing import print_notice
from agent_cli.place import find_place
from agent_cli.session.ages import age, size
from agent_cli.session.finding import says
from agent_cli.session.glance import Glance
from agent_cli.session.lines import read_log
from agent_cli.session.records import SessionInfo, SessionNotFoundError
from agent_cli.session.restore import restore
from agent_cli.session.store import info_of
from agent_cli.session.story import stage_of
from agent_tools.clipping import shorten
from agent_tools.values import Value, to_plain

SHORT = 8
# What a list says of sessions that are not simply done.
STAGES = {
    "awaiting_tool_approval": "waiting for approval",
    "awaiting_plan_approval": "a plan waits",
    "awaiting_answer": "a question waits",
    "executing": "not ended",
    "failed": "failed",
    "interrupted": "interrupted",
}
_RIGHT = frozenset((1, 4, 5, 6))


def list_sessions(as_json: bool, *, every: bool = False, search: str = "") -> int:
    """Print them as a table, or as JSON with every field; the exit code. search: words that all have to be in it."""
    found: list[tuple[Glance, str]] = [(g, "") for g in find_sessions(every)]
    if words := search.lower().split():
        found = [(g, piece) for g, _ in found if (piece := says(g.path, words))]
    if as_json:
        put_json([data for g, piece in found if (data := _whole(g, piece if words else None)) is not None])
        return 0
    if not found:
        where = "of any project" if every else f"of {find_place(os.environ).root}"
        print_notice(
            f"No session {where} says {shorten(search)!r}." if words else f"There are no sessions {where} yet."
        )
        return 0
    length = short_length([g.session_id for g, _ in found])
    now = datetime.now(UTC)
    rows = [_row(g, piece, length, now) + ((home_short(g.root),) if every else ()) for g, piece in found]
    names = ("ID", "AGE", "MODEL", "BRANCH", "MESSAGES", "SIZE", "COST", "SESSION", *(("PROJECT",) if every else ()))
    echo("\n".join(table(names, rows, _RIGHT)))
    return 0


def _row(g: Glance, piece: str, length: int, now: datetime) -> tuple[str, ...]:
    stage = STAGES.get(stage_word(g), "")
    title = f"{shorten(g.title, 80)}{f' ({stage})' if stage else ''}{f' | {piece}' if piece else ''}"
    cost = f"${g.cost:.4f}" if g.cost else "-"
    model = shorten(g.model, 40)
    return (
        g.session_id[:length], age(g.updated, now), model, g.branch or "-", str(g.messages), size(g.size), cost, title,
    )  # fmt: skip


def stage_word(g: Glance) -> str:
    """Where a session stands. What a waiting one waits for is only known when all of it is read."""
    if g.ended == "waiting":
        try:
            return stage_of(restore(read_log(g.path), g.session_id))
        except (SessionNotFoundError, OSError):
            return "executing"
    return {"open": "executing", "done": "completed"}.get(g.ended, g.ended)


def _whole(g: Glance, piece: str | None) -> dict[str, Any] | None:
    """Every field of a session; None where it cannot be read."""
    try:
        data = read_log(g.path)
        info = info_of(g.session_id, restore(data, g.session_id), data)
    except (SessionNotFoundError, OSError):
        return None
    found = {name: _untyped(getattr(info, name)) for name in SessionInfo._fields}
    return found if piece is None else found | {"match": piece}


def _untyped(value: Any) -> Any:
    """Plain data; the steps of a plan without their type tags."""
    if isinstance(value, tuple):
        return [_untyped(v) for v in value]
    return {k: v for k, v in to_plain(value).items() if k != "type"} if isinstance(value, Value) else value


def short_length(ids: list[str]) -> int:
    """How many characters tell all ids apart, so that each can be given to --resume; at least eight."""
    longest = max((len(i) for i in ids), default=SHORT)
    return next((n for n in range(SHORT, longest) if len({i[:n] for i in ids}) == len(ids)), longest)


def home_short(path: str) -> str:
    """A folder with ~ for the home folder; a word where it is gone or not known."""
    if not path:
        return "?"
    home = os.path.expanduser("~")
    shown = f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
    return shown if os.path.isdir(path) else f"{shown} (gone)"  # noqa: PTH112
