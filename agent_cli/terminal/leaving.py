"""How a turn ended for the user: whether what it left is to be offered to them for taking back."""

from __future__ import annotations

from typing import Literal

from agent_cli.core.outcome import Complete, Failed, Suspended, TurnResult


def how_it_ended(result: TurnResult | None) -> Literal["well", "stopped", "badly"]:
    """badly: it failed, or the user ended it by a no to all of it. stopped: interrupted, at a bound, or a call was
    refused, after which people would rather say what they want instead than answer another question."""
    if result is None or isinstance(result, Suspended):
        return "well"
    refused = any(d.by == "person" for d in result.end.denials)
    reason = result.end.diagnostics.terminal_reason
    failed = (isinstance(result, Failed) and result.failure is not None) or (
        isinstance(result, Complete) and result.degraded and result.failure is not None
    )
    if reason != "interrupted" and (failed or reason == "cancelled"):
        return "badly"
    return "well" if isinstance(result, Complete) and not result.degraded and not refused else "stopped"
