"""Choose the old results to clear, in steps: what comes before a summary, and costs no model call.

A cleared result is replaced by one line, which says what it was and how to get it back: from a file of the session, by
reading the file again, or by the same call. First go the results of commands, searches and pages; in the last step what
was read from files, failures and reports of sub-agents too. The newest rounds, plans, answers of the user and
instructions stay. Each clearing invalidates the provider's cached prefix once, so it has to be worth it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_cli.core.messages import AssistantMessage, Message, ToolMessage
from agent_cli.core.window import CLEARED_WINDOW, tokens_of_message, tokens_of_text
from agent_cli.engine.compaction.carry_over import superseded
from agent_cli.engine.compaction.measure import scaled
from agent_cli.engine.turn import Turn
from agent_tools.base import Tool
from agent_tools.text import counted

CLEARED = "[Cleared to make room: "
# Rounds that stay, if they fit into this share of the window; the newest always does.
ROUNDS = 3
_NEWEST = 1 / 8
# A shorter result is not worth a line that replaces it, in tokens.
_LEAST = 200
# A clearing frees this share of the window at least.
_FREES = 0.15
_SAVED_IN = re.compile(r" in (/[^\n]*?/output-\d+\.txt)[;: ]")


def old_results(turn: Turn, used: int) -> tuple[dict[str, str], int]:
    """Return lines that replace results, by call id, and the tokens that this frees; nothing if it is not worth it."""
    size = min(turn.window_size, CLEARED_WINDOW)
    shares = sorted(turn.options.clear_at)
    reached = sum(used >= share * size for share in shares)
    # The user has undone the first step: it is not made again.
    if not reached or (reached == 1 < len(shares) and turn.deps.state.window.uncleared):
        return {}, 0
    found = _clearable(turn, everything=reached == len(shares), newest=int(size * _NEWEST))
    freed = scaled(turn.deps.state.window, sum(tokens_of_message(m) for m in found) - 60 * len(found))
    if freed < size * _FREES:
        return {}, 0
    again = superseded(turn.view, str(turn.deps.context.workspace.cwd), (), turn.deps.tool_class)
    cuts = {m.call_id: again.get(m.call_id) or _line(turn, m) for m in found}
    kept = sum(tokens_of_text(line) for line in cuts.values())
    return cuts, scaled(turn.deps.state.window, sum(tokens_of_message(m) for m in found) - kept)


def _clearable(turn: Turn, *, everything: bool, newest: int) -> list[ToolMessage]:
    border = _newest_rounds(turn.view, newest)
    window = turn.deps.state.window
    cuts = window.cuts
    again = superseded(turn.view, str(turn.deps.context.workspace.cwd), window.pins, turn.deps.tool_class)
    found = []
    for message in turn.view[:border]:
        if not isinstance(message, ToolMessage) or message.call_id in cuts or message.text in window.pins:
            continue
        kind = turn.deps.tool_class(message.name)
        if _stays(kind) or tokens_of_message(message) < _LEAST:
            continue
        if everything or message.call_id in again or not (message.is_error or _valuable(kind)):
            found.append(message)
    return found


def _newest_rounds(view: Sequence[Message], room: int) -> int:
    """Return where the newest rounds begin."""
    border, total, rounds = len(view), 0, 0
    for place in range(len(view) - 1, -1, -1):
        message = view[place]
        total += tokens_of_message(message)
        if rounds and total > room:
            break
        if isinstance(message, AssistantMessage) and message.calls:
            border, rounds = place, rounds + 1
            if rounds == ROUNDS:
                break
    return border


def _stays(kind: type[Tool[Any]]) -> bool:
    """Return True if results of a tool are never cleared: plans, answers of the user, instructions."""
    about_plans = kind.changes_plan or kind.ends_plan_mode or kind.plan_argument
    return bool(about_plans or kind.asks_user or kind.result_size == "whole")


def _valuable(kind: type[Tool[Any]]) -> bool:
    """Return True if results of a tool are only cleared in the last step."""
    return kind.shows_file or kind.changes_files or kind.nested


def _line(turn: Turn, message: ToolMessage) -> str:
    """Return what replaces a result; save the result in a file if it cannot be had otherwise."""
    kind = turn.deps.tool_class(message.name)
    what = f"{counted(message.text.count(chr(10)) + 1, 'line')} of {message.name}"
    if kind.reopens:
        return f"{CLEARED}{what}. Read the file again if you need it.]"
    workspace = turn.deps.context.workspace
    search = workspace.advice("Grep Read", "{} shows any part of it")
    known = _SAVED_IN.search(message.text)
    path = Path(known[1]) if known and workspace.scratch.holds(Path(known[1])) else None
    if search and (path or not message.media):
        path = path or workspace.scratch.save(message.text)
        if path is not None:
            return f"{CLEARED}{what}. All of it is in {path};{search}.]"
    return f"{CLEARED}{what}. Make the call again if you need them.]"
