"""`agent show SESSION`: what happened, turn by turn; who decided what, how long it took, what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_cli.commands.output import echo, put_json
from agent_cli.commands.which import log_of
from agent_cli.core.hooks import hook_line
from agent_cli.core.usage import Usage
from agent_cli.place import UsageError
from agent_cli.session.lines import read_log
from agent_cli.session.story import CallTold, TurnTold, build_timeline, decision_words
from agent_tools.values import to_plain


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
