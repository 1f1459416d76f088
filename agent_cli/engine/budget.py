"""What a turn may still spend, over every pause: what was used before a suspension is passed in again."""

from __future__ import annotations

import json
from collections.abc import Callable

from agent_cli.core.limits import Cap, Limits, Spent
from agent_cli.core.messages import ToolCall


class Budget:
    """Asked before each round and each call; told of each round, call, dollar, failure and refusal."""

    def __init__(self, limits: Limits, clock: Callable[[], float], before: Spent | None = None) -> None:
        spent = before or Spent()
        self.limits = limits
        self.rounds = spent.rounds
        self.tool_calls = spent.tool_calls
        self.cost = spent.cost
        self.failures = spent.failures
        self._denials = dict(spent.denials)
        self._stopped: Cap | None = None
        self._clock = clock
        self._started = clock() - spent.seconds
        self._waited = 0.0

    def reached(self) -> Cap | None:
        """The first bound that is used up, or None."""
        limits = self.limits
        if self._stopped:
            return self._stopped
        if limits.rounds and self.rounds >= limits.rounds:
            return "rounds"
        if limits.seconds and self.seconds >= limits.seconds:
            return "duration"
        if self.calls_left == 0:
            return "tool_calls"
        if limits.cost and self.cost >= limits.cost:
            return "cost"
        if limits.failures and self.failures >= limits.failures:
            return "failures"
        if limits.denials and max(self._denials.values(), default=0) >= limits.denials:
            return "denials"
        return None

    def stop(self, cap: Cap) -> None:
        """Let the turn end at the next round."""
        self._stopped = cap

    def called(self, *, failed: bool) -> None:
        """A call was answered."""
        self.tool_calls += 1
        self.failures = self.failures + 1 if failed else 0

    def denied(self, call: ToolCall) -> None:
        """A call was refused. It is no failure of the model's, but the same refusal again and again ends the turn."""
        self.tool_calls += 1
        key = f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
        self._denials[key] = self._denials.get(key, 0) + 1

    @property
    def calls_left(self) -> int | None:
        return max(0, self.limits.tool_calls - self.tool_calls) if self.limits.tool_calls else None

    @property
    def seconds(self) -> float:
        """Working time so far, without the time a person took to answer."""
        return self._clock() - self._started - self._waited

    @property
    def rounds_left(self) -> int | None:
        return max(0, self.limits.rounds - self.rounds) if self.limits.rounds else None

    @property
    def spent(self) -> Spent:
        return Spent(self.rounds, self.seconds, self.tool_calls, self.cost, self.failures, dict(self._denials))

    def take(self, spent: Spent) -> None:
        """What a nested turn that began with our own sum has come to."""
        self.rounds, self.tool_calls, self.cost = spent.rounds, spent.tool_calls, spent.cost

    def waited(self, seconds: float) -> None:
        """A person took this long to answer."""
        self._waited += seconds
