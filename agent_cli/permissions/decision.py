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
    """What was decided about one part of a command line, or one file of it. `final`: no mode waves it through."""

    text: str
    level: Level
    reason: str
    rule: str = ""
    by: Decider = "default"
    final: bool = False


class Decision(Value):
    """`reason` is a sentence for a user and the model; `rule` is the rule's text where one decided.

    parts: for a command line, the verdicts about its parts. final: neither a mode nor a hook waves it through.
    """

    level: Level
    reason: str
    by: Decider = "default"
    rule: str = ""
    parts: tuple[Verdict, ...] = ()
    final: bool = False


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The highest level wins; among equals the first, so that reasons are stable. One that is final makes it final."""
    every = list(decisions)
    found = max(every, key=lambda d: d.level)
    return found if found.final or not any(d.final for d in every) else found.but(final=True)
