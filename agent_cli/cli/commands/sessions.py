"""`agent sessions list`: the sessions of this project or of all, the latest first.

`agent sessions rm`: sessions removed for good, after a question.
`agent sessions export`: a session as markdown, as an HTML page or as JSON, to standard output or into a file.
The session that a command is about: of this project, or of any.
`agent show SESSION`: what happened, turn by turn; who decided what, how long it took, what it cost.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_cli.core.hooks import hook_line
from agent_cli.core.place import UsageError
from agent_cli.core.results import Usage
from agent_cli.headless.output import echo, put_json, table
from agent_cli.headless.printing import print_notice
from agent_cli.runtime.environment import find_place
from agent_cli.session.codec import read_log
from agent_cli.session.export.formats import FORMATS, document, format_of, write_document
from agent_cli.session.log import SessionBusyError, SessionLog
from agent_cli.session.pending_plans import take_plan
from agent_cli.session.records import SessionInfo, SessionNotFoundError
from agent_cli.session.restore import restore
from agent_cli.session.search import SeveralSessionsError, find_session, is_id_like, meant_by, says
from agent_cli.session.store import SessionStore, info_of, state_folder
from agent_cli.session.summary import SessionSummary, age, everywhere, glance, glances, size
from agent_cli.session.timeline import CallTold, TurnTold, build_timeline, decision_words, stage_of
from agent_tools.record import Value, to_plain
from agent_tools.text import counted, shorten


def find_sessions(every: bool) -> list[SessionSummary]:
    """The sessions of this project, or of all; the latest first."""
    place = find_place(os.environ)
    state = state_folder(place.env)
    return everywhere(state) if every else list(glances(SessionStore(state, place.root).folder))


def log_of(text: str, every: bool) -> Path:
    """The log of the session that is meant; nothing said means the latest. Raises UsageError."""
    place = find_place(os.environ)
    state = state_folder(place.env)
    store = SessionStore(state, place.root)
    try:
        if not every:
            return find_session(store, text) if text else store.path(store.latest())
        found = everywhere(state)
        if not found:
            raise SessionNotFoundError("There are no sessions yet.")
        if text:
            ids = [g for g in found if is_id_like(text) and g.session_id.startswith(text.lower())]
            found = ids or meant_by(found, text)
        if len(found) > 1 and text:
            raise SeveralSessionsError(f"{counted(len(found), 'session')} fit {shorten(text, 60)!r}.", found)
        if not found:
            raise SessionNotFoundError(
                f"No session fits {shorten(text, 60)!r}. See: agent sessions list --all-projects"
            )
        return found[0].path
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None


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
    found: list[tuple[SessionSummary, str]] = [(g, "") for g in find_sessions(every)]
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


def _row(g: SessionSummary, piece: str, length: int, now: datetime) -> tuple[str, ...]:
    stage = STAGES.get(stage_word(g), "")
    title = f"{shorten(g.title, 80)}{f' ({stage})' if stage else ''}{f' | {piece}' if piece else ''}"
    cost = f"${g.cost:.4f}" if g.cost else "-"
    model = shorten(g.model, 40)
    return (
        g.session_id[:length], age(g.updated, now), model, g.branch or "-", str(g.messages), size(g.size), cost, title,
    )  # fmt: skip


def stage_word(g: SessionSummary) -> str:
    """Where a session stands. What a waiting one waits for is only known when all of it is read."""
    if g.ended == "waiting":
        try:
            return stage_of(restore(read_log(g.path), g.session_id))
        except (SessionNotFoundError, OSError):
            return "executing"
    return {"open": "executing", "done": "completed"}.get(g.ended, g.ended)


def _whole(g: SessionSummary, piece: str | None) -> dict[str, Any] | None:
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


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHOWN = 10


def remove_sessions(texts: Sequence[str], *, older_than: str, every: bool, yes: bool) -> int:
    """Remove those that are named, or those that were not changed for a time; the exit code. Raises UsageError."""
    if bool(texts) == bool(older_than):
        raise UsageError("Say which sessions: their IDs, or --older-than 30d.")
    if older_than:
        before = datetime.now(UTC) - read_time(older_than)
        chosen = [g for g in find_sessions(every) if _changed(g) < before]
    else:
        paths = list(dict.fromkeys(log_of(text, every) for text in texts))
        # What cannot be read can be removed by its ID too.
        chosen = [glance(path) or SessionSummary(path.stem, path) for path in paths]
    if not chosen:
        print_notice(f"No session is older than {older_than}.")
        return 0
    _ask(chosen, yes=yes)
    kept = [problem for g in chosen if (problem := _remove(g))]
    for problem in kept:
        print_notice(problem)
    removed = len(chosen) - len(kept)
    print_notice(f"{counted(removed, 'session')} removed.")
    return 1 if kept else 0


def read_time(text: str) -> timedelta:
    """A length of time as people write it: 90m, 12h, 30d, 4w. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    if found is None:
        raise UsageError(f"--older-than: {shorten(text, 40)} is no time; write 12h, 30d or 4w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _changed(g: SessionSummary) -> datetime:
    try:
        return datetime.fromisoformat(g.updated)
    except ValueError:
        return datetime.fromtimestamp(g.path.stat().st_mtime, UTC)


def _ask(chosen: Sequence[SessionSummary], *, yes: bool) -> None:
    """Have the user agree. Raises UsageError where they do not, or nobody is there."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{counted(len(chosen), 'session')} would be removed for good; --yes says so without a question."
        )
    now = datetime.now(UTC)
    for g in chosen[:_SHOWN]:
        print_notice(f"  {g.session_id[:8]}  {age(g.updated, now):>4}  {size(g.size):>5}  {shorten(g.title, 60)}")
    if len(chosen) > _SHOWN:
        print_notice(f"  and {len(chosen) - _SHOWN} more")
    what = "this session" if len(chosen) == 1 else f"these {len(chosen)} sessions"
    sys.stderr.write(f"Remove {what} for good? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("Nothing was removed.")


def _remove(g: SessionSummary) -> str:
    """Remove one with all files that belong to it; "" or why it is still there."""
    store = SessionStore.at(g.path.parent)
    log = SessionLog(g.path, lambda text: None, os.environ)
    try:
        log.acquire()
        for path in reversed(store.files(g.session_id)):
            path.unlink(missing_ok=True)
        take_plan(store.folder, g.session_id)
        # Without them the contents go with the next clean-up of the snapshots.
        snapshots = store.folder.parent.parent / "snapshots" / store.folder.name
        (snapshots / "sessions" / f"{g.session_id}.records").unlink(missing_ok=True)
    except SessionBusyError:
        return f"Session {g.session_id[:8]} is open in another process and was not removed."
    except OSError as error:
        return f"Session {g.session_id[:8]} was not removed: {error.strerror or error}."
    finally:
        log.close()
    _drop_if_empty(store.folder)
    return ""


def _drop_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def export_session(text: str, kind: str, output: str, *, every: bool, force: bool) -> int:
    """Write the session that is meant; the exit code. kind: empty for what the file's name says. Raises UsageError."""
    if kind and kind not in FORMATS:
        raise UsageError(f"--format: {kind} is none of {', '.join(FORMATS)}.")
    log = log_of(text, every)
    try:
        made = document(log, kind or format_of(output) or "markdown")
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot read session {log.stem}: {error.strerror or error}.") from None
    if output in ("", "-"):
        echo(made)
        return 0
    try:
        write_document(Path(output), made, replace=force)
    except FileExistsError:
        raise UsageError(f"{output} exists already; --force replaces it.") from None
    except OSError as error:
        raise UsageError(f"Cannot write {output}: {error.strerror or error}.") from None
    print_notice(f"Session {log.stem[:8]} is in {output}.")
    return 0


def show_session(start: str, turn: int | None, as_json: bool) -> int:
    """Print the story of a session of this project. Raises UsageError."""
    return show_log(log_of(start, every=False), turn, as_json)


def show_log(log: Path, turn: int | None, as_json: bool) -> int:
    """Print a session's story, or one turn of it (from 1; negative from the end). Raises UsageError."""
    session_id = log.stem
    try:
        data = read_log(log)
    except OSError as error:
        raise UsageError(f"Cannot read session {session_id}: {error.strerror or error}.") from None
    turns = list(enumerate(build_timeline(data), 1))
    if turn is not None:
        index = turn - 1 if turn > 0 else turn
        if not turns or not -len(turns) <= index < len(turns) or turn == 0:
            raise UsageError(f"Session {session_id} has {len(turns)} turns, and no turn {turn}.")
        turns = [turns[index]]
    total = Usage()
    for _, told in turns:
        total += told.usage
    if as_json:
        shown = [{"turn": number, **_plain(told)} for number, told in turns]
        put_json({"session_id": session_id, "turns": shown, "usage": _plain(total)})
        return 0
    echo(f"session {session_id}")
    for number, told in turns:
        echo("\n".join(_lines(number, told)))
    echo(f"in all: {_used(total)}")
    return 0


def _plain(value: Any) -> Any:
    """Plain data with every field and without type tags."""
    plain = to_plain(value.but(**{n: getattr(value, n) for n in value._fields}))
    return _untagged(plain)


def _untagged(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _untagged(v) for k, v in data.items() if k != "type"}
    return [_untagged(v) for v in data] if isinstance(data, list) else data


def _lines(number: int, turn: TurnTold) -> list[str]:
    lines = [
        f"\nturn {number}  {turn.started}  {turn.model}  {turn.mode}",
        f"  > {' '.join(turn.query.split())[:200]}",
    ]
    current = 0
    for call in turn.calls:
        if call.round != current:
            current = call.round
            lines.append(f"  round {current}")
        lines.append(f"    {_call(call)}")
        lines += [f"        {fact}" for fact in call.facts]
    lines += [f"  {hook_line(hook)}" for hook in turn.hooks]
    lines += [f"  warning: {text}" for text in turn.warnings]
    lines += [f"  {note}" for note in turn.notes]
    for call_id, used in turn.agents.items():
        lines.append(f"  sub-agent {call_id}: {_used(used)}")
    if turn.copied:
        return [f"\nturn {number}  {turn.started}", lines[1], "  copied from another session", *lines[2:]]
    how = turn.terminal_reason or "not ended"
    lines.append(f"  {how}: {turn.rounds} rounds, {turn.duration_ms / 1000:.1f} s, {_used(turn.usage)}")
    return lines


def _call(call: CallTold) -> str:
    decided = "waiting" if call.decision == "defer" else decision_words(call.decision, call.by)
    why = f" ({call.reason})" if call.reason and call.decision == "reject" else ""
    ended = f", {call.outcome} in {call.duration_ms} ms" if call.outcome else ""
    if not call.outcome and call.decision == "approve":
        ended = ", begun and not ended" if call.started else ", not carried out"
    agent = f"[{call.agent}] " if call.agent else ""
    return f"{agent}{call.summary}: {decided or 'not decided'}{why}{ended}"


def _used(usage: Usage) -> str:
    cost = f"${usage.cost:.4f}" if usage.reliable else "cost unknown"
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    return f"{usage.input} tokens in{cached}, {usage.output} out, {cost}"
