"""Sub-agents side by side: one line each while they run, their steps behind Ctrl-O."""

from __future__ import annotations

import io
import re

from rich.console import Console

from agent_cli.kernel.events import (
    ApprovalResolved,
    Event,
    MessageAdded,
    SubagentEvent,
    ThinkingDelta,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Usage
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_tools.results import Listing


def helper(call: str, *events: Event) -> list[Event]:
    return [SubagentEvent("explore", call, event) for event in events]


def test_helpers_side_by_side_have_a_line_each_and_their_steps_stand_behind_it() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, width=80, force_terminal=True, soft_wrap=True, color_system=None), kept)
    for call, task in (("a", "find the parser"), ("b", "find the tests")):
        transcript(ToolRequested(call, "Task", {"prompt": task}, f"Sub-agent {task}"))
        transcript(ToolStarted(call, "Task"))
    for event in (
        *helper("a", ToolRequested("x", "Grep", {}, "Grep def parse"), ToolStarted("x", "Grep")),
        *helper("a", ToolFinished("x", "Grep", False, 1, Listing("found", ("a", "b")))),
        *helper("b", UsageAdded("m", Usage(input=2_000, output=100)), ThinkingDelta("hm")),
    ):
        transcript(event)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in transcript.writer.running("*")]
    assert plain == [
        "* Sub-agent find the parser · Grep def parse · 1 call",
        "* Sub-agent find the tests · thinking · 2.1k tokens",
    ]
    assert transcript.writer.take() == []
    transcript(MessageAdded(ToolMessage("a", "Task", "It is in parser.py.")))
    transcript(ToolFinished("a", "Task", False, 1, None))
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in transcript.writer.take()] == [
        "● Sub-agent find the parser · 1 call"
    ]
    view = transcript.details.view()
    assert view is not None
    shown = [(item.label, [line.plain for line in item.detail(80)]) for item in view.items if item.detail is not None]
    assert shown == [
        ("Sub-agent find the parser", ["prompt: find the parser", "● Grep def parse", "●   2 found",
                                       "It is in parser.py."]),
        ("Sub-agent find the tests", ["prompt: find the tests"]),
    ]  # fmt: skip


def test_a_denied_call_of_a_helper_is_named() -> None:
    kept = io.StringIO()
    transcript = Transcript(Console(file=kept, width=80, soft_wrap=True, color_system=None), kept)
    denied = ApprovalResolved("x", "reject", "person", "too secret", "", "", "", "")
    for event in (
        ToolRequested("a", "Task", {}, "Sub-agent explore: look"),
        *helper("a", ToolRequested("x", "Read", {}, "Read /etc/hosts"), denied),
    ):
        transcript(event)
    assert "  [explore] Read /etc/hosts ✗ denied: too secret" in transcript.writer.take()
