"""Permission levels and decisions. ALLOW < ASK < DENY, so decisions combine with `max`; each carries its reason."""

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
    """The verdict about one part of a command line, or one file that it touches.

    final: no permission mode may relax it.
    """

    text: str
    level: Level
    reason: str
    rule: str = ""
    by: Decider = "default"
    final: bool = False


class Decision(Value):
    """The decision about a call.

    reason: a sentence for the user and the model.
    rule: text of the rule that decided; "" if none did.
    parts: verdicts about the parts of a command line.
    final: neither a mode nor a hook may relax it.
    """

    level: Level
    reason: str
    by: Decider = "default"
    rule: str = ""
    parts: tuple[Verdict, ...] = ()
    final: bool = False


def strictest(decisions: Iterable[Decision]) -> Decision:
    """Return the highest decision, the first among equals. It is final if any of them is."""
    every = list(decisions)
    found = max(every, key=lambda d: d.level)
    return found if found.final or not any(d.final for d in every) else found.replace(final=True)
