"""What a turn may spend and what it has spent, as values: saved with a suspended turn, handed to the resumed one."""

from __future__ import annotations

from typing import Literal

from agent_tools.values import Value

Cap = Literal["rounds", "duration", "tool_calls", "cost", "failures", "denials", "repetition"]


class Limits(Value):
    """Bounds of one turn; zero means none. Seconds do not count while a person is asked; dollars count known prices.

    failures: calls that failed one after another. denials: refusals of the same call.
    """

    rounds: int = 200
    seconds: float = 0.0
    tool_calls: int = 500
    cost: float = 0.0
    failures: int = 5
    denials: int = 3


class Spent(Value):
    """What earlier parts of the same turn used: sums, refusals by call, and how often it was sent on by which guard."""

    rounds: int = 0
    seconds: float = 0.0
    tool_calls: int = 0
    cost: float = 0.0
    failures: int = 0
    denials: dict[str, int] = {}  # noqa: RUF012 - never changed
    nudges: dict[str, int] = {}  # noqa: RUF012 - never changed
