"""A verdict about a call: ALLOW < ASK < DENY, so that combining verdicts is `max`, and never without its reason."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from agent_cli.core.events import Decider
from agent_tools.record import Value


class Level(IntEnum):
    ALLOW = 0
    ASK = 1
    DENY = 2


class Verdict(Value):
    """What was decided about one part of a command line, or one file of it. `firm`: no mode waves it through."""

    text: str
    level: Level
    reason: str
    rule: str = ""
    by: Decider = "default"
    firm: bool = False


class Decision(Value):
    """`reason` is a sentence for a user and the model; `rule` is the rule's text where one decided.

    parts: for a command line, the verdicts about what it consists of. firm: neither a mode nor a hook waves it through.
    """

    level: Level
    reason: str
    by: Decider = "default"
    rule: str = ""
    parts: tuple[Verdict, ...] = ()
    firm: bool = False


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The highest level wins; among equals the first, so that reasons are stable. One that is firm makes it firm."""
    every = list(decisions)
    found = max(every, key=lambda d: d.level)
    return found if found.firm or not any(d.firm for d in every) else found.but(firm=True)
