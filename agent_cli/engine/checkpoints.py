"""What a turn is resumed with if the program ends while a question is open; written before a user is asked."""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.core.events import Checkpoint, Event
from agent_cli.engine.lending import kept
from agent_cli.engine.turn import Turn


def checkpoint(turn: Turn) -> Generator[Event, None, None]:
    """Yield a checkpoint; none where no user is there, since nothing is waited for then."""
    if turn.kit.attended:
        yield Checkpoint(turn.spent, turn.kit.policy.mode, kept(turn))


def outer(turn: Turn, inner: Checkpoint) -> Checkpoint:
    """Return the checkpoint of a turn whose sub-agent made one: its own state, with what both have spent."""
    own = turn.spent
    spent = inner.spent.but(failures=own.failures, denials=own.denials, nudges=own.nudges)
    return Checkpoint(spent, turn.kit.policy.mode, kept(turn))
