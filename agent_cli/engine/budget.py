"""What a turn may spend, and what it has spent. Zero means no limit.

One budget lasts over every pause of a turn: what was used before a suspension is passed in again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agent_tools.values import Value

Cap = Literal["rounds", "duration", "tool_calls", "cost"]


class Limits(Value):
    """Bounds of one turn; zero means none. Seconds do not count while a person is asked; dollars count known prices."""

    rounds: int = 200
    seconds: float = 0.0
    tool_calls: int = 500
    cost: float = 0.0


class Spent(Value):
    """What earlier parts of the same turn used."""

    rounds: int = 0
    seconds: float = 0.0
    tool_calls: int = 0
    cost: float = 0.0


class Budget:
    """Asked before each round; told of each round, call and dollar."""

    def __init__(self, limits: Limits, clock: Callable[[], float], before: Spent | None = None) -> None:
        spent = before or Spent()
        self.limits = limits
        self.rounds = spent.rounds
        self.tool_calls = spent.tool_calls
        self.cost = spent.cost
        self._clock = clock
        self._started = clock() - spent.seconds
        self._waited = 0.0

    def reached(self) -> Cap | None:
        """The first bound that is used up, or None."""
        limits = self.limits
        if limits.rounds and self.rounds >= limits.rounds:
            return "rounds"
        if limits.seconds and self.seconds >= limits.seconds:
            return "duration"
        if limits.tool_calls and self.tool_calls >= limits.tool_calls:
            return "tool_calls"
        if limits.cost and self.cost >= limits.cost:
            return "cost"
        return None

    @property
    def seconds(self) -> float:
        """Working time so far, without the time a person took to answer."""
        return self._clock() - self._started - self._waited

    @property
    def rounds_left(self) -> int | None:
        return max(0, self.limits.rounds - self.rounds) if self.limits.rounds else None

    @property
    def spent(self) -> Spent:
        return Spent(self.rounds, self.seconds, self.tool_calls, self.cost)

    def waited(self, seconds: float) -> None:
        self._waited += seconds
