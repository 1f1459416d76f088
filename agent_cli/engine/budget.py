"""What a turn may still spend, over every pause: what was used before a suspension is passed in again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_cli.core.limits import Cap, Limits
from agent_cli.core.messages import ToolCall
from agent_cli.core.spent import Spent


class Budget:
    """Asked before each round and each call; updated with each round, call, dollar, failure and refusal."""

    def __init__(self, limits: Limits, clock: Callable[[], float], before: Spent | None = None) -> None:
        spent = before or Spent()
        self.limits = limits
        self.rounds = spent.rounds
        self.tool_calls = spent.tool_calls
        self.cost = spent.cost
        self.failures = spent.failures
        self._round: set[bool] = set()
        self._denials = dict(spent.denials)
        self._stopped: Cap | None = None
        self._clock = clock
        self._started = clock() - spent.seconds
        self._waited = 0.0
        self._waiting_since: float | None = None

    def reached(self) -> Cap | None:
        """The first bound that is used up, or None."""
        limits = self.limits
        if self._stopped:
            return self._stopped
        if limits.rounds and self.rounds >= limits.rounds:
            return "rounds"
        if self.out_of_time:
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

    def renew(self, cap: Cap) -> None:
        """The user wants the turn to continue: count this bound from zero again."""
        if cap == "failures":
            self.failures = 0
        elif cap == "denials":
            self._denials.clear()
        self._stopped = None

    def called(self, *, failed: bool) -> None:
        """A call was answered."""
        self.tool_calls += 1
        self._round.add(failed)

    def end_round(self) -> None:
        """Every call of a round has its result: it failed where none of those that ran succeeded."""
        if self._round:
            self.failures = 0 if False in self._round else self.failures + 1
        self._round.clear()

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
        """Working time so far, without the time that the user took to answer."""
        now = self._clock() if self._waiting_since is None else self._waiting_since
        return now - self._started - self._waited

    @property
    def out_of_time(self) -> bool:
        return bool(self.limits.seconds) and self.seconds >= self.limits.seconds

    @property
    def rounds_left(self) -> int | None:
        return max(0, self.limits.rounds - self.rounds) if self.limits.rounds else None

    @property
    def spent(self) -> Spent:
        """The sums that the limits hold for."""
        return Spent(self.rounds, self.seconds, self.tool_calls, self.cost, self.failures, dict(self._denials))

    def take(self, spent: Spent) -> None:
        """What a nested turn that began with our own sum has come to."""
        self.rounds, self.tool_calls, self.cost = spent.rounds, spent.tool_calls, spent.cost
        self._waited = self._clock() - self._started - spent.seconds

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock while the user is asked."""
        self._waiting_since = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None
