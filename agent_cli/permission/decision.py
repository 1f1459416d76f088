"""A verdict about a call: ALLOW < ASK < DENY, so that combining verdicts is `max`, and never without its reason."""

from __future__ import annotations

from enum import IntEnum

from agent_cli.core.events import Decider
from agent_tools.values import Value


class Level(IntEnum):
    ALLOW = 0
    ASK = 1
    DENY = 2


class Decision(Value):
    """`reason` is a sentence for a person and the model; `rule` is the rule's text where one decided."""

    level: Level
    reason: str
    by: Decider = "default"
    rule: str = ""


def strictest(decisions: list[Decision]) -> Decision:
    """The highest level wins; among equals the first, so that reasons are stable."""
    return max(decisions, key=lambda d: d.level)
