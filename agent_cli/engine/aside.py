"""A question beside the conversation: a tool asks the small model, and neither history nor prompt knows of it."""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.core.events import Event, UsageAdded, Warned
from agent_cli.core.messages import UserMessage
from agent_cli.engine.turn import Opened, Turn
from agent_cli.model.transport import ModelError, PlainAnswer, Request
from agent_tools.base import AskModel


def ask_aside(turn: Turn, ask: AskModel) -> Generator[Event, None, str | None]:
    """The small model's answer, paid for from the turn's budget; None where it failed. Raises CancelledError."""
    opened = Opened(turn.options.label, turn.options.model, turn.transport, turn.price)
    try:
        opened = turn.kit.small() if turn.kit.small is not None else opened
        request = Request(opened.model, ask.system, (UserMessage(ask.text),), max_tokens=ask.max_tokens, aside=True)
        return (yield from complete_text(turn, opened, request)) or None
    except ModelError as error:
        yield Warned(f"The small model did not answer: {error.failure.message}")
        return None


def complete_text(turn: Turn, opened: Opened, request: Request) -> Generator[Event, None, str]:
    """The words of one answer, paid for from the turn's budget. Raises ModelError, CancelledError."""
    answer, usage = PlainAnswer(), None
    try:
        answer.read(opened.transport.stream(request, turn.kit.context.cancel))
    finally:
        if answer.usage is not None:
            usage = opened.price(answer.usage)
            turn.usage += usage
            turn.budget.cost += usage.cost
    if usage is not None:
        yield UsageAdded(opened.label, usage, aside=True)
    turn.kit.context.cancel.check()
    return answer.text.strip()
