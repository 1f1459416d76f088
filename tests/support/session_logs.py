"""Sessions on disk for tests, written as the program writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import (
    Event,
    MessageAdded,
    SessionNamed,
    TextDelta,
    ToolFinished,
    ToolRequested,
    TurnFinished,
    TurnStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Failure, Usage
from agent_cli.kernel.session.files import encode_record
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.store import SessionStore
from agent_cli.shells.terminal import commands  # noqa: F401 - registers them
from agent_tools.record import to_json
from agent_tools.results import Diff, Display


def session_id(number: int) -> str:
    return f"{number:08x}-0000-4000-a000-{number:012x}"


def asked(text: str) -> MessageAdded:
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
    return [asked(question), TurnStarted("m", "default"), spent(cost), answered(answer), ended(cost)]


def spent(cost: float = 0.0) -> UsageAdded:
    """What a model call used, as `ended` says it of a turn with one."""
    return UsageAdded("m", ended(cost).usage)


def log_bytes(header: Header, events: list[Event]) -> bytes:
    """Return the bytes of a log without writing it."""
    lines = []
    for number, value in enumerate([header, *events], 1):
        record = {"v": 1, "seq": number, "id": str(number), "parent": str(number - 1), "type": type(value).__name__}
        lines.append(encode_record(record | {"time": "2026-01-02T03:04:05.678Z", "data": to_json(value)}))
    return b"\n".join(lines) + b"\n"


def keep(store: SessionStore, number: int, events: list[Event], name: str = "", **header: Any) -> Path:
    """Write a session and return its log. Later ones are newer."""
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


def log_of(work: Path) -> str:
    return "".join(path.read_text() for path in (work.parent / "home").rglob("*.jsonl"))


def sent(work: Path) -> list[str]:
    """The texts of all messages to the model in the one session."""
    log = next((work.parent / "home/state/sessions").rglob("*.jsonl")).read_text()
    data = [json.loads(line)["data"] for line in log.splitlines()]
    return [d["message"]["text"] for d in data if d.get("type") == "MessageAdded" and "text" in d["message"]]


HEADER = Header("s-1", "/w", "/w", "a/b", "Be good.", ("Read",), "1")


MESSAGES = [
    UserMessage("fix\u2028it \u0085 é 😀\n"),
    AssistantMessage(
        (Thinking("hm", "sig"), Text("I look."), ToolCall("c1", "Read", {"file_path": "a"})), "tool_use", "id", "m"
    ),
    ToolMessage("c1", "Read", "text", is_error=False),
    AssistantMessage((Text("Done."),), "end_turn"),
]


def quiet(text: str) -> None:
    raise AssertionError(text)


def write_log(path: Path) -> None:
    log = SessionLog(path, quiet)
    log.create(HEADER)
    for message in MESSAGES:
        log.record(MessageAdded(message))
        log.record(TextDelta("not kept"))
    log.record(ToolFinished("c1", "Read", False, 3, Diff("a", "@@", 1, 2), {"/w/a": "hash"}))
    end = Diagnostics(2, 1, 50, 40, "stop", "completed")
    log.record(UsageAdded("a/b", Usage(5, 6)))
    log.record(TurnFinished("Complete", end, Usage(5, 6), "Done.", failure=Failure("auth", "no")))
    log.close()
