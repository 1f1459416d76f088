"""The bounds of a turn, as values."""

from __future__ import annotations

from typing import Literal

from agent_tools.values import Value

Cap = Literal["rounds", "duration", "tool_calls", "cost", "failures", "denials", "repetition", "output"]


class Limits(Value):
    """Bounds of one turn; zero means none. Seconds do not count while the user is asked; dollars count known prices.

    failures: rounds one after another in which no call succeeded. denials: refusals of the same call.
    """

    rounds: int = 200
    seconds: float = 0.0
    tool_calls: int = 500
    cost: float = 0.0
    failures: int = 5
    denials: int = 3
