"""Sessions on disk for tests, written as the program writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent_cli.core.events import (
    Event,
    MessageAdded,
    SessionNamed,
    ToolFinished,
    ToolRequested,
    TurnFinished,
    TurnStarted,
)
from agent_cli.core.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.core.results import Diagnostics, Usage
from agent_cli.session.codec import sealed
from agent_cli.session.log import SessionLog
from agent_cli.session.records import Header
from agent_cli.session.store import SessionStore
from agent_tools.display import Display
from agent_tools.record import to_plain


def session_id(number: int) -> str:
    return f"{number:08x}-0000-4000-a000-{number:012x}"


def said(text: str) -> MessageAdded:
    return MessageAdded(UserMessage(text))


def answered(text: str, *calls: ToolCall) -> MessageAdded:
    return MessageAdded(AssistantMessage((Text(text), *calls)))


def called(call: ToolCall, result: str, display: Display | None = None, *, summary: str = "") -> list[Event]:
    """A call that ran, behind the answer that asked for it."""
    return [
        ToolRequested(call.id, call.name, call.arguments, summary or call.name),
        ToolFinished(call.id, call.name, False, 7, display=display),
        MessageAdded(ToolMessage(call.id, call.name, result)),
    ]


def ended(cost: float = 0.0, result: Any = "Complete", reason: Any = "completed") -> TurnFinished:
    return TurnFinished(result, Diagnostics(1, 0, 5, 4, "end_turn", reason), Usage(10, 5, cost=cost))


def turn(question: str, answer: str, cost: float = 0.0) -> list[Event]:
    return [said(question), TurnStarted("m", "default"), answered(answer), ended(cost)]


def log_bytes(header: Header, events: list[Event]) -> bytes:
    """A log as it would be on disk, without one."""
    lines = []
    for number, value in enumerate([header, *events], 1):
        record = {"v": 1, "seq": number, "id": str(number), "parent": str(number - 1), "type": type(value).__name__}
        lines.append(sealed(record | {"time": "2026-01-02T03:04:05.678Z", "data": to_plain(value)}))
    return b"\n".join(lines) + b"\n"


def keep(store: SessionStore, number: int, events: list[Event], name: str = "", **header: Any) -> Path:
    """Write a session; its log. Later ones are newer."""
    path = store.path(session_id(number))
    log = SessionLog(path, lambda text: None)
    place = header.pop("root", "/nowhere")
    log.create(Header(session_id(number), place, place, "scripted:x", "You are.", ("Read",), "0", **header))
    for event in events:
        log.record(event)
    if name:
        log.record(SessionNamed(name))
    log.close()
    os.utime(path, ns=(10**18 + number * 10**9, 10**18 + number * 10**9))
    return path
