"""List, show, export and remove sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli import (
    RunEnvironment,
    SessionNotFoundError,
    SessionStore,
    SessionSummary,
    StoredSession,
    UsageError,
    find_environment,
)
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, ListingGroup
from agent_cli.cli.commands.show import find_session, show_log, to_plain
from agent_cli.cli.help import examples, one_of
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.kernel.runtime.tools import tool_definitions
from agent_cli.takeover import stores
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted, short_age, short_size, shorten

with lazy_imports():
    from agent_cli.kernel.session import export  # with the parser of markdown

app = typer.Typer(cls=ListingGroup, add_completion=False)


Every = Annotated[bool, typer.Option("--all-projects", "-A", help="Include all projects, also moved and removed ones.")]
One = Annotated[
    str,
    typer.Argument(
        help="ID or its beginning, its name, or part of its text; the latest by default.",
        metavar="[SESSION]",
        autocompletion=completion.complete_sessions,
    ),
]


def find_sessions(every: bool) -> list[SessionSummary]:
    """Return the sessions of this project, or of all; the latest first."""
    run_env = find_environment(os.environ)
    return SessionStore.all_summaries(run_env.env) if every else list(SessionStore.of(run_env).summaries())


MIN_ID_CHARS = 8
# Labels of sessions that are not completed.
STAGES = {
    "awaiting_tool_approval": "waiting for approval",
    "awaiting_plan_approval": "plan waiting",
    "awaiting_answer": "question waiting",
    "executing": "not ended",
    "failed": "failed",
    "interrupted": "interrupted",
}
_RIGHT_ALIGNED = frozenset((1, 4, 5, 6))


@app.command("list", epilog=examples("agent sessions list", "agent sessions list --search login"))
def list_sessions(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every field.")] = False,
    every: Every = False,
    search: Annotated[
        str, typer.Option("--search", "-s", metavar="TEXT", help="Only sessions containing all these words.")
    ] = "",
) -> int:
    """List the sessions of this project, the latest first."""
    found: list[tuple[SessionSummary, str]] = [(g, "") for g in find_sessions(every)]
    if words := search.lower().split():
        found = [(g, piece) for g, _ in found if (piece := StoredSession(g.path).excerpt(words))]
    if as_json:
        print_json([data for g, piece in found if (data := _session_fields(g, piece if words else None)) is not None])
        return 0
    if not found:
        where = "of any project" if every else f"of {find_environment(os.environ).root}"
        print_notice(
            f"No session {where} contains {shorten(search)!r}." if words else f"There are no sessions {where} yet."
        )
        return 0
    length = short_length([g.session_id for g, _ in found])
    now = datetime.now(UTC)
    rows = [_table_row(g, piece, length, now) + ((home_short(g.root),) if every else ()) for g, piece in found]
    names = ("ID", "AGE", "MODEL", "BRANCH", "MESSAGES", "SIZE", "COST", "SESSION", *(("PROJECT",) if every else ()))
    echo("\n".join(table(names, rows, _RIGHT_ALIGNED)))
    return 0


@app.command("show", epilog=examples("agent sessions show", "agent sessions show 1a2b3c4d --turn -1"))
def sessions_show(
    session: One = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn, from 1; -1 is the latest.")] = None,
    as_json: AsJson = False,
    every: Every = False,
) -> int:
    """Show what happened in a session, turn by turn."""
    return show_log(find_session(session, every=every), turn, as_json=as_json)


def _table_row(g: SessionSummary, piece: str, length: int, now: datetime) -> tuple[str, ...]:
    stage = STAGES.get(stage_word(g), "")
    title = f"{shorten(g.title, 80)}{f' ({stage})' if stage else ''}{f' | {piece}' if piece else ''}"
    cost = f"${g.cost:.4f}" if g.cost else "-"
    model = shorten(g.model, 40) or "-"
    return (
        g.session_id[:length], short_age(g.updated, now), model, g.branch or "-", str(g.messages), short_size(g.size),
        cost, title,
    )  # fmt: skip


def stage_word(g: SessionSummary) -> str:
    """Return the stage of a session. What a waiting one waits for is only known after reading all of it."""
    if g.ended == "waiting":
        try:
            return StoredSession(g.path).load().stage
        except SessionNotFoundError:
            return "executing"
    return {"open": "executing", "done": "completed"}.get(g.ended, g.ended)


def _session_fields(g: SessionSummary, piece: str | None) -> dict[str, Any] | None:
    """Return every field of a session; None if it cannot be read."""
    try:
        found: dict[str, Any] = to_plain(StoredSession(g.path).info())
    except (SessionNotFoundError, OSError):
        return None
    return found if piece is None else found | {"match": piece}


def short_length(ids: list[str]) -> int:
    """Return how many characters distinguish all ids, so that each works with --resume; at least eight."""
    longest = max((len(i) for i in ids), default=MIN_ID_CHARS)
    return next((n for n in range(MIN_ID_CHARS, longest) if len({i[:n] for i in ids}) == len(ids)), longest)


def home_short(path: str) -> str:
    """Return a directory with ~ for home; a note if it is gone or unknown."""
    if not path:
        return "?"
    home = os.path.expanduser("~")
    shown = f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
    return shown if os.path.isdir(path) else f"{shown} (gone)"  # noqa: PTH112


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MAX_LISTED = 10


@app.command("rm", epilog=examples("agent sessions rm 1a2b3c4d", "agent sessions rm --older-than 30d"))
def remove_sessions(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            help="IDs, names, or text in them.",
            metavar="[SESSION...]",
            autocompletion=completion.complete_sessions,
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Sessions unchanged for this long: 12h, 30d or 4w.", metavar="TIME")
    ] = "",
    every: Every = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Delete sessions. This cannot be undone."""
    if bool(sessions) == bool(older_than):
        raise UsageError("Name the sessions to remove by ID, or give --older-than 30d.")
    if older_than:
        before = datetime.now(UTC) - read_time(older_than)
        chosen = [g for g in find_sessions(every) if _last_changed(g) < before]
    else:
        meant = {each.path: each for text in sessions or () for each in (find_session(text, every=every),)}
        # An unreadable session can be removed by its ID too.
        chosen = [each.summary() or SessionSummary(each.session_id, path) for path, each in meant.items()]
    if not chosen:
        print_notice(f"No session is older than {older_than}.")
        return 0
    _confirm_removal(chosen, yes=yes)
    kept = [problem for g in chosen if (problem := StoredSession(g.path).remove())]
    for problem in kept:
        print_notice(problem)
    removed = len(chosen) - len(kept)
    print_notice(f"{counted(removed, 'session')} removed.")
    return 1 if kept else 0


def read_time(text: str) -> timedelta:
    """Parse a duration: 90m, 12h, 30d, 4w. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    if found is None:
        raise UsageError(f"--older-than: {shorten(text, 40)} is not a duration; write 12h, 30d or 4w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _last_changed(g: SessionSummary) -> datetime:
    try:
        return datetime.fromisoformat(g.updated)
    except ValueError:
        return datetime.fromtimestamp(g.path.stat().st_mtime, UTC)


def _confirm_removal(chosen: Sequence[SessionSummary], *, yes: bool) -> None:
    """Ask the user to confirm. Raises UsageError if they decline or nobody can be asked."""
    if yes:
        return
    if not can_ask():
        raise UsageError(f"{counted(len(chosen), 'session')} would be deleted; --yes does it without asking.")
    now = datetime.now(UTC)
    for g in chosen[:_MAX_LISTED]:
        print_notice(
            f"  {g.session_id[:8]}  {short_age(g.updated, now):>4}  {short_size(g.size):>5}  {shorten(g.title, 60)}"
        )
    if len(chosen) > _MAX_LISTED:
        print_notice(f"  and {len(chosen) - _MAX_LISTED} more")
    what = "this session" if len(chosen) == 1 else f"these {len(chosen)} sessions"
    if not confirm(f"Delete {what}?"):
        raise UsageError("Nothing was removed.")


@app.command("import", epilog=examples("agent sessions import claude", "agent sessions import --list"))
def import_session(
    program: Annotated[
        str, typer.Argument(help=f"Whose session: {one_of(stores.PROGRAMS)}; of any by default.", metavar="[PROGRAM]",
                            autocompletion=completion.one_of_choices(stores.PROGRAMS))
    ] = "",
    session: Annotated[
        str, typer.Argument(help="ID or its beginning; the latest of this project by default.", metavar="[ID]")
    ] = "",
    listed: Annotated[bool, typer.Option("--list", "-l", help="List what there is, and take nothing over.")] = False,
    every: Annotated[bool, typer.Option("--all-projects", "-A", help="Include sessions of other folders.")] = False,
    as_json: AsJson = False,
) -> int:  # fmt: skip
    """Take over a session of Claude Code, Codex, Gemini CLI or OpenCode, which is not changed."""
    run_env = find_environment(os.environ)
    if program and not session and program not in stores.PROGRAMS:
        program, session = "", program
    programs = stores.read_programs(program)
    if listed:
        found = stores.foreign_session_rows(run_env, programs, every=every)
        return _list_foreign([f for f in found if f["source_id"].startswith(session)], run_env, every, as_json)
    made = stores.take_over(run_env, stores.choose_session(run_env, programs, session, every=every))
    if as_json:
        print_json({"session_id": made.session_id, "new": made.new, "messages": made.messages, "notes": made.notes,
                    "program": made.found.program, "source_id": made.found.session_id})  # fmt: skip
        return 0
    echo(made.session_id)
    print_notice(f"{made.sentence} To go on: agent -r {made.session_id[:8]}")
    return 0


def _list_foreign(found: list[dict[str, str]], run_env: RunEnvironment, every: bool, as_json: bool) -> int:
    """List sessions of other programs, and as which of ours they were taken over."""
    if as_json:
        print_json(found)
        return 0
    if not found:
        where = "" if every else f" of {run_env.root}"
        print_notice(f"There are no sessions{where} of Claude Code, Codex, Gemini CLI or OpenCode.")
        return 0
    now = datetime.now(UTC)
    rows = []
    for f in found:
        row = (f["program"], shorten(f["source_id"], 36), short_age(f["updated"], now), f["taken_over_as"][:8] or "-")
        rows.append((*row, shorten(f["title"], 60), *((home_short(f["cwd"]),) if every else ())))
    names = ("PROGRAM", "ID", "AGE", "AS", "SESSION", *(("FOLDER",) if every else ()))
    echo("\n".join(table(names, rows, frozenset((2,)))))
    return 0


_EXPORTS = ("markdown", "html", "json", "atif")


@app.command(
    "export", epilog=examples("agent sessions export -o session.html", "agent sessions export 1a2b3c4d --format json")
)
def export_session(
    session: One = "",
    kind: Annotated[
        str, typer.Option("--format", "-f", help=f"Format: {one_of(_EXPORTS)}.", metavar="FORMAT",
                          show_default="from the name of FILE, otherwise markdown",
                          autocompletion=completion.one_of_choices(_EXPORTS))
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write.", show_default="standard output", metavar="FILE")
    ] = "",
    every: Every = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> int:  # fmt: skip
    """Write a session as markdown, as one HTML page, as JSON, or as an ATIF trajectory."""
    if kind and kind not in export.FORMATS:
        raise UsageError(f"--format: {kind} is not one of {', '.join(export.FORMATS)}.")
    log = find_session(session, every=every).path
    try:
        made = export.document(log, kind or export.format_of(output) or "markdown", tool_definitions)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot read session {log.stem}: {error.strerror or error}.") from None
    if output in ("", "-"):
        echo(made)
        return 0
    try:
        export.write_document(Path(output), made, replace=force)
    except FileExistsError:
        raise UsageError(f"{output} exists already; --force replaces it.") from None
    except OSError as error:
        raise UsageError(f"Cannot write {output}: {error.strerror or error}.") from None
    print_notice(f"Session {log.stem[:8]} is in {output}.")
    return 0
