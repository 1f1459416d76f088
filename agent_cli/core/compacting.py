"""What a compaction did, in a line for a user; every front end has the same."""

from __future__ import annotations

from agent_cli.core.events import Compacted, Compacting, Uncompacted
from agent_tools.clipping import counted
from agent_tools.inert import inert

_WHY = {"auto": "the window is nearly full", "manual": "you asked", "too_long": "the provider refused it as too long"}


def compacting_line(event: Compacting) -> str:
    return f"compacting the conversation ({event.tokens:,} tokens): {_WHY[event.trigger]}"


def compacted_line(event: Compacted) -> str:
    """How much smaller it is, what went, what stayed."""
    said = f"compacted: {event.tokens_before:,} tokens are now about {event.tokens_after:,}"
    if not event.head:
        return f"{said}; {counted(len(event.cuts), 'old result')} cut, all else stays"
    by = "" if event.by == "model" else " (made by the program, as no model could write it)"
    parts = [
        f"{counted(event.dropped, 'message')} became a summary{by}",
        f"the newest {event.kept} stay" if event.kept > 1 else "the newest stays",
    ]
    if event.cuts:
        parts.append(f"{counted(len(event.cuts), 'long result')} cut")
    if event.restated:
        parts.append(f"carried over: {inert(', '.join(event.restated))}")
    return "; ".join([said, *parts])


def uncompacted_line(event: Uncompacted) -> str:
    return f"the last compaction is undone: about {event.tokens:,} tokens"
