"""Show what happened in a session: calls, decisions, durations, tokens and cost."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from agent_cli import SessionNotFoundError, SessionStore, StoredSession, Usage, UsageError, find_environment
from agent_cli.cli.app import AsJson, SessionArgument
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_json
from agent_cli.hooks.events import hook_line
from agent_cli.kernel.session.timeline import CallSummary, TurnSummary
from agent_tools.record import Value, to_json
from agent_tools.text import counted, short_duration

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent show", "agent show 1a2b3c4d --turn -1"))
def show(
    session: SessionArgument = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn, from 1; -1 is the latest.")] = None,
    as_json: AsJson = False,
) -> int:
    return show_log(find_session(session, every=False), turn, as_json=as_json)


def find_session(text: str, *, every: bool) -> StoredSession:
    """Return a session. Raises UsageError.

    text: its ID or the beginning of it, its name, or words; "" for the latest.
    every: search all projects.
    """
    run_env = find_environment(os.environ)
    store = SessionStore.of(run_env)
    try:
        if every:
            return store.find_in_all(run_env.env, text)
        return store.find(text) if text else store.session(store.latest(of_hosts=True))
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None


def show_log(session: StoredSession, turn: int | None, *, as_json: bool) -> int:
    """Print a session's timeline, or one turn of it (from 1; negative from the end). Raises UsageError."""
    session_id = session.session_id
    try:
        turns = list(enumerate(session.turns(), 1))
    except OSError as error:
        raise UsageError(f"Cannot read session {session_id}: {error.strerror or error}.") from None
    if turn is not None:
        index = turn - 1 if turn > 0 else turn
        if not turns or not -len(turns) <= index < len(turns) or turn == 0:
            raise UsageError(f"Session {session_id} has {counted(len(turns), 'turn')}, and no turn {turn}.")
        turns = [turns[index]]
    total = Usage()
    for _, summary in turns:
        total += summary.usage
    if as_json:
        shown = [{"turn": number, **to_plain(summary)} for number, summary in turns]
        print_json({"session_id": session_id, "turns": shown, "usage": to_plain(total)})
        return 0
    echo(f"session {session_id}")
    for number, summary in turns:
        echo("\n".join(_turn_lines(number, summary)))
    echo(f"total: {_usage_text(total)}")
    return 0


def to_plain(value: Value) -> Any:
    """Convert a record to JSON data, with every field and without type tags."""
    plain = to_json(value.replace(**{n: getattr(value, n) for n in value._fields}))
    return _without_tags(plain)


def _without_tags(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _without_tags(v) for k, v in data.items() if k != "type"}
    return [_without_tags(v) for v in data] if isinstance(data, list) else data


def _turn_lines(number: int, turn: TurnSummary) -> list[str]:
    lines = [
        f"\nturn {number}  {turn.started}  {turn.model}  {turn.mode}",
        _quote(turn.query),
    ]
    current, added = 0, list(turn.added)
    for call in turn.calls:
        if call.round != current:
            current = call.round
            while added and added[0].round < current:
                lines.append(_quote(added.pop(0).text))
            lines.append(f"  round {current}")
        lines.append(f"    {_call_line(call)}")
        lines += [f"        {fact}" for fact in call.facts]
    lines += [_quote(message.text) for message in added]
    lines += [f"  {hook_line(hook)}" for hook in turn.hooks]
    lines += [f"  warning: {text}" for text in turn.warnings]
    lines += [f"  {note}" for note in turn.notes]
    for call_id, used in turn.agents.items():
        lines.append(f"  sub-agent {call_id}: {_usage_text(used)}")
    if turn.copied:
        return [f"\nturn {number}  {turn.started}", lines[1], "  copied from another session", *lines[2:]]
    how = turn.terminal_reason or "not ended"
    took = short_duration(turn.duration_ms / 1000)
    lines.append(f"  {how}: {counted(turn.rounds, 'model call')}, {took}, {_usage_text(turn.usage)}")
    return lines


def _quote(text: str) -> str:
    return f"  > {' '.join(text.split())[:200]}"


def _call_line(call: CallSummary) -> str:
    decided = "waiting" if call.decision == "defer" else call.decided
    why = f" ({call.reason})" if call.reason and call.decision == "reject" else ""
    ended = f", {call.outcome} in {call.duration_ms} ms" if call.outcome else ""
    if not call.outcome and call.decision == "approve":
        ended = ", started, not finished" if call.started else ", not run"
    agent = f"[{call.agent}] " if call.agent else ""
    return f"{agent}{call.summary}: {decided or 'not decided'}{why}{ended}"


def _usage_text(usage: Usage) -> str:
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    return f"{usage.input} tokens in{cached}, {usage.output} out, {usage.cost_words}"
