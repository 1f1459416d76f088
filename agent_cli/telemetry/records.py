"""What telemetry consists of, as plain data, and the names of the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The metrics with their units and descriptions, as Claude Code has them.
METRICS = {
    "claude_code.session.count": ("", "Count of CLI sessions started"),
    "claude_code.lines_of_code.count": ("", "Count of lines of code modified"),
    "claude_code.pull_request.count": ("", "Number of pull requests created"),
    "claude_code.commit.count": ("", "Number of git commits created"),
    "claude_code.cost.usage": ("USD", "Cost of the session"),
    "claude_code.token.usage": ("tokens", "Number of tokens used"),
    "claude_code.code_edit_tool.decision": ("", "Count of code editing tool permission decisions"),
    "claude_code.active_time.total": ("s", "Total active time in seconds"),
}


class EventRecord:
    """An event at a time in nanoseconds. trace, span: what it belongs to; 0 for nothing."""

    __slots__ = ("attributes", "name", "span", "time", "trace")

    def __init__(self, name: str, time: int, attributes: Mapping[str, Any], trace: int, span: int) -> None:
        self.name, self.time, self.attributes, self.trace, self.span = name, time, attributes, trace, span


class SpanRecord:
    """A span, from `start` to `end` in nanoseconds.

    parent: ID of the one that contains it; 0 for none. remote: that one is of another process.
    events: names with time and attributes. error: None if it did not fail.
    """

    __slots__ = ("attributes", "end", "error", "events", "id", "name", "parent", "remote", "start", "trace")

    def __init__(self, name: str, trace: int, span_id: int, parent: int, start: int) -> None:
        self.name, self.trace, self.id, self.parent, self.start = name, trace, span_id, parent, start
        self.end, self.remote = start, False
        self.attributes: dict[str, Any] = {}
        self.events: list[tuple[str, int, Mapping[str, Any]]] = []
        self.error: str | None = None
