"""Checkpoints: the state to resume a turn with if the program ends while a question is open."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from agent_cli.core.events import Checkpoint, Event
from agent_cli.engine.turn import Turn
from agent_tools.record import to_json


def checkpoint(turn: Turn) -> Generator[Event, None, None]:
    """Yield a checkpoint if a user is present; otherwise nothing waits for an answer."""
    if turn.deps.attended:
        yield Checkpoint(turn.spent, turn.deps.policy.mode, suspended_state(turn))


def outer(turn: Turn, inner: Checkpoint) -> Checkpoint:
    """Return the checkpoint of a turn whose sub-agent made one: its own state, and what both have spent."""
    own = turn.spent
    spent = own.replace(
        rounds=inner.spent.rounds,
        seconds=inner.spent.seconds,
        tool_calls=inner.spent.tool_calls,
        cost=inner.spent.cost,
        usage=own.usage + inner.spent.usage,
        denied=(*own.denied, *inner.spent.denied),
        changed_since=own.changed_since or inner.spent.changed_since,
        wrote=own.wrote or inner.spent.wrote,
    )
    return Checkpoint(spent, turn.deps.policy.mode, suspended_state(turn))


def suspended_state(turn: Turn) -> dict[str, Any]:
    """State to persist while suspended, as plain data; {} where there is none."""
    found: dict[str, Any] = {}
    if turn.overrides:
        found["lent"] = [to_json(each) for each in turn.overrides]
    if turn.gates is not None and turn.deps.depth == 0:
        found |= turn.gates.state()
    if turn.plan_approved and turn.options.plan_review == "always":
        found["plan_approved"] = True
    return found
