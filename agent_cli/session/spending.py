"""What a session used, read from its log: by model, and turn by turn; sub-agents and side jobs are in it."""

from __future__ import annotations

from typing import Any

from agent_cli.core.messages import typed
from agent_cli.core.usage import Usage
from agent_cli.session.restore import records
from agent_cli.session.story import beginnings
from agent_tools.values import Value, from_plain


class TurnSpent(Value):
    """One turn: what was asked, and what it used."""

    query: str
    usage: Usage


class Spending(Value):
    """A session's usage in all, by model in the order of first use, and by turn."""

    total: Usage = Usage()
    models: dict[str, Usage] = {}  # noqa: RUF012 - never changed
    turns: tuple[TurnSpent, ...] = ()


def spending(data: bytes) -> Spending:
    """The usage that a log tells of; a copy has no part in what was used before it."""
    found = records(data)[0]
    starts = beginnings(found)
    models: dict[str, Usage] = {}
    turns: list[TurnSpent] = []
    for number, record in enumerate(found):
        kind, event = record["type"], record["data"]
        if starts.get(number):
            turns.append(TurnSpent(typed(event["message"]["text"]), Usage()))
        while kind == "SubagentEvent":
            event = event["event"]
            kind = event["type"] if event["type"] in ("SubagentEvent", "UsageAdded") else ""
        if kind == "UsageAdded" or (kind == "SessionNamed" and event.get("model")):
            used = _usage(event)
            models[event["model"]] = models.get(event["model"], Usage()) + used
            if turns:
                turns[-1] = turns[-1].but(usage=turns[-1].usage + used)
    return Spending(sum(models.values(), Usage()), models, tuple(turns))


def _usage(event: dict[str, Any]) -> Usage:
    usage: Usage = from_plain(Usage, event["usage"])
    return usage
