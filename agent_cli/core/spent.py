"""What the earlier parts of a turn did and used: saved when it is suspended, so that its end is of the whole turn."""

from __future__ import annotations

from typing import Literal

from agent_cli.core.outcome import Denial
from agent_cli.core.usage import Usage
from agent_tools.values import Value


class Action(Value, tag="Action"):
    """A call that was answered, as the summary of a turn lists it."""

    summary: str
    outcome: Literal["done", "failed", "refused"]


class Check(Value, tag="Check"):
    """A command that verified something. `exit_code` is None where it was ended from outside."""

    command: str
    exit_code: int | None

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        how = "passed" if self.passed else f"failed (exit {self.exit_code})"
        return f"`{self.command}` {how}"


class Spent(Value, tag="Spent"):
    """What earlier parts of the same turn come to.

    rounds, seconds, tool_calls, cost: sums that the limits hold for. failures: rounds in a row without a success.
    denials: refusals by call. nudges: how often each guard sent the turn on. usage, model_ms, first_chunk_ms: of the
    conversation's own model calls and those of its tools. actions, denied: what was called and what was refused, in
    order. check: the last command that verified the work; changed_since: files changed after it; wrote: files changed
    at all. plan_touched: the plan was made, approved or changed in this turn. recent: the latest calls with their
    results, as hashes, for the loop detector.
    """

    rounds: int = 0
    seconds: float = 0.0
    tool_calls: int = 0
    cost: float = 0.0
    failures: int = 0
    denials: dict[str, int] = {}  # noqa: RUF012 - never changed
    nudges: dict[str, int] = {}  # noqa: RUF012 - never changed
    usage: Usage = Usage()
    model_ms: int = 0
    first_chunk_ms: int | None = None
    actions: tuple[Action, ...] = ()
    denied: tuple[Denial, ...] = ()
    check: Check | None = None
    changed_since: bool = False
    wrote: bool = False
    plan_touched: bool = False
    recent: tuple[str, ...] = ()
