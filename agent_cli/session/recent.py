"""The last exchange of a session, as it was shown: from the end of its log, however long that is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_cli.core.events import (
    ApprovalResolved,
    Event,
    MessageAdded,
    SubagentEvent,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    Warned,
)
from agent_cli.core.messages import AssistantMessage, Message, ToolMessage, UserMessage, typed
from agent_cli.session.lines import Line, read
from agent_tools.display import CommandOutput
from agent_tools.values import Mismatch, Value, from_plain

# So much of a log is looked at, so many steps and characters of an answer are shown again.
TAIL = 4 << 20
STEPS = 60
CHARACTERS = 6_000

_SHOWN: tuple[Any, ...] = (
    ApprovalResolved,
    MessageAdded,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    Warned,
)
_KINDS: dict[str, Any] = {c.__name__: c for c in _SHOWN}


class Exchange(Value):
    """What the person said, and what came of it. skipped: how many events before these are not shown."""

    question: str
    events: tuple[Event, ...]
    skipped: int = 0


def last_exchange(log: Path) -> Exchange | None:
    """Of the session in a log; None where nothing was said, or its beginning is too far away."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = [line for line in read(file) if line is not None]
    except OSError:
        return None
    start = next((n for n in range(len(lines) - 1, -1, -1) if _begins(lines, n)), None)
    if start is None:
        return None
    question = lines[start].data["message"]["text"]
    events = [e for line in lines[start + 1 :] if (e := _event(line)) is not None]
    return bounded(typed(question), events)


def _begins(lines: list[Line], number: int) -> bool:
    """Whether a turn begins there: a message, and the start of the turn right behind it."""
    line, after = lines[number], lines[number + 1] if number + 1 < len(lines) else None
    if line.type != "MessageAdded" or (after is not None and after.type != "TurnStarted"):
        return False
    return bool(line.data["message"]["type"] == "UserMessage")


def _event(line: Line) -> Event | None:
    cls = _KINDS.get(line.type)
    try:
        event: Event | None = from_plain(cls, line.data) if cls else None
    except Mismatch:
        return None
    return event


def exchange_of(history: Iterable[Message]) -> Exchange | None:
    """The same from messages alone, where the log is not at hand: calls by name, without their displays."""
    messages = list(history)
    start = next((n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], UserMessage)), None)
    if start is None:
        return None
    events: list[Event] = []
    for message in messages[start + 1 :]:
        events.append(MessageAdded(message))
        if isinstance(message, AssistantMessage):
            events += [ToolRequested(c.id, c.name, c.arguments, c.name) for c in message.calls]
        elif isinstance(message, ToolMessage):
            events.append(ToolStarted(message.call_id, message.name))
            events.append(ToolFinished(message.call_id, message.name, message.is_error, 0))
    return bounded(typed(messages[start].text), events)


def bounded(question: str, events: list[Event]) -> Exchange:
    """The end of an exchange; an answer stands in it as the text that was streamed."""
    shown: list[Event] = []
    for event in events:
        if isinstance(event, MessageAdded):
            if isinstance(event.message, AssistantMessage) and event.message.text.strip():
                shown.append(TextDelta(shortened(event.message.text)))
            elif isinstance(event.message, ToolMessage):
                shown.append(event)
        else:
            if isinstance(event, ToolFinished) and isinstance(event.display, CommandOutput) and event.display.output:
                # What a command prints is no record of its own.
                shown.append(ToolProgress(event.call_id, event.display.output[:CHARACTERS].rstrip("\n") + "\n"))
            shown.append(event)
    return Exchange(question, tuple(shown[-STEPS:]), max(0, len(shown) - STEPS))


def shortened(text: str) -> str:
    """The end of a long answer, from the beginning of a paragraph."""
    if len(text) <= CHARACTERS:
        return text
    start = text.find("\n\n", len(text) - CHARACTERS)
    return "…\n\n" + text[start + 2 if start >= 0 else len(text) - CHARACTERS :]
