"""Show what happened in a session: rounds, calls, decisions, durations, tokens, cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli.cli.parameters import AsJson, Session
from agent_cli.core.hooks import hook_line
from agent_cli.core.place import UsageError
from agent_cli.core.results import Usage
from agent_cli.headless.output import echo, put_json
from agent_cli.runtime.environment import find_place
from agent_cli.session.files import read_log
from agent_cli.session.records import SessionNotFoundError
from agent_cli.session.search import SeveralSessionsError, find_session, is_id_like, resolve_reference
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.session.summary import summaries_of_all_projects
from agent_cli.session.timeline import CallSummary, TurnSummary, build_timeline, decision_words
from agent_tools.record import to_json
from agent_tools.text import counted, shorten

app = typer.Typer(add_completion=False)


@app.command()
def show(
    session: Session = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn, from 1; -1 is the last.")] = None,
    as_json: AsJson = False,
) -> int:
    return show_log(log_of(session, every=False), turn, as_json)


def log_of(text: str, every: bool) -> Path:
    """Return the log of the requested session; without a request the latest. Raises UsageError."""
    place = find_place(os.environ)
    state = state_folder(place.env)
    store = SessionStore(state, place.root)
    try:
        if not every:
            return find_session(store, text) if text else store.path(store.latest())
        found = summaries_of_all_projects(state)
        if not found:
            raise SessionNotFoundError("There are no sessions yet.")
        if text:
            ids = [g for g in found if is_id_like(text) and g.session_id.startswith(text.lower())]
            found = ids or resolve_reference(found, text)
        if len(found) > 1 and text:
            raise SeveralSessionsError(f"{counted(len(found), 'session')} fit {shorten(text, 60)!r}.", found)
        if not found:
            raise SessionNotFoundError(
                f"No session fits {shorten(text, 60)!r}. See: agent sessions list --all-projects"
            )
        return found[0].path
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None


def show_log(log: Path, turn: int | None, as_json: bool) -> int:
    """Print a session's timeline, or one turn of it (from 1; negative from the end). Raises UsageError."""
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
    """Convert to plain data with every field and without type tags."""
    plain = to_json(value.replace(**{n: getattr(value, n) for n in value._fields}))
    return _untagged(plain)


def _untagged(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _untagged(v) for k, v in data.items() if k != "type"}
    return [_untagged(v) for v in data] if isinstance(data, list) else data


def _lines(number: int, turn: TurnSummary) -> list[str]:
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


def _call(call: CallSummary) -> str:
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
