"""How a turn ended for the person: whether what it left is to be offered to them for taking back."""

from __future__ import annotations

from typing import Literal

from agent_cli.core.messages import ToolMessage
from agent_cli.core.outcome import Complete, Failed, Suspended, TurnResult


def how_it_ended(result: TurnResult | None) -> Literal["well", "stopped", "badly"]:
    """badly: it failed, or the person's no was the end of it. stopped: interrupted, at a bound, or a no was within."""
    if result is None or isinstance(result, Suspended):
        return "well"
    refused = {d.call_id for d in result.end.denials if d.by == "person"}
    calls = [m.call_id for m in result.end.messages if isinstance(m, ToolMessage)]
    reason = result.end.diagnostics.terminal_reason
    failed = (isinstance(result, Failed) and result.failure is not None) or (
        isinstance(result, Complete) and result.degraded and result.failure is not None
    )
    if reason != "interrupted" and (failed or reason == "cancelled" or (calls and calls[-1] in refused)):
        return "badly"
    return "well" if isinstance(result, Complete) and not result.degraded and not refused else "stopped"
