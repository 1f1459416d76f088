"""What prompts lend to a turn, and what is kept of it while the turn waits: rules, a model, the state of its gates."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from agent_cli.core.events import Event, Warned
from agent_cli.engine.turn import Turn
from agent_cli.model.transport import ModelError
from agent_tools.lent import Lent
from agent_tools.values import from_plain, to_plain


def begin_overrides(turn: Turn) -> Generator[Event, None, None]:
    """Take what the turn begins with: what its message lends, or, where it was suspended, what held then."""
    options = turn.options
    if not (options.lent or options.kept or options.review != "off"):
        return
    lent = [options.lent, *(from_plain(Lent, plain) for plain in options.kept.get("lent", ()))]
    flow = next((each.flow for each in lent if each.flow), "")
    if options.review != "off" or flow:
        from agent_cli.engine.gates import Gates  # only where a user is to look at steps

        turn.kit.gates = Gates(turn, flow, options.kept)
    for each in lent:
        yield from borrow(turn, each)


def borrow(turn: Turn, lent: Lent) -> Generator[Event, None, None]:
    """Let what a prompt brings hold until the turn ends. A model that cannot be had is told, and done without."""
    if not lent:
        return
    turn.lent.append(lent)
    turn.borrowed += turn.kit.policy.lend(lent.rules, lent.source, own=lent.own)
    if not lent.model or turn.kit.open_model is None:
        return
    try:
        other = turn.kit.open_model(lent.model)
    except ModelError as error:
        yield Warned(f"{lent.source} asks for the model {lent.model}: {error.failure.message} Going on without.")
        return
    turn.switch(other)


def give_back(turn: Turn) -> None:
    """The end of what was lent; also where the turn breaks off."""
    turn.kit.policy.take_back(turn.borrowed)
    if turn.kit.depth == 0:
        turn.kit.gates = None


def kept(turn: Turn) -> dict[str, Any]:
    """What a turn that is suspended goes on with, as plain data; {} where there is nothing of the kind."""
    found: dict[str, Any] = {}
    if turn.lent:
        found["lent"] = [to_plain(each) for each in turn.lent]
    if turn.kit.gates is not None and turn.kit.depth == 0:
        found |= turn.kit.gates.kept()
    if turn.plan_approved and turn.options.plan_review == "always":
        found["plan_approved"] = True
    return found
