"""What was shown in short, kept for who wants it in full: arguments, results and thoughts of the latest calls."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from agent_cli.core.events import Event, MessageAdded, ThinkingDelta, ToolFinished, ToolRequested, innermost
from agent_cli.core.messages import ToolMessage
from agent_cli.terminal.console import styled
from agent_cli.terminal.views import display_lines
from agent_tools.display import Diff, Diffs, Display
from agent_tools.values import Value

# Calls that are kept, and characters of a thought.
MOST, THOUGHT = 50, 100_000


class Entry(Value):
    """A call, or a thought, where `call_id` is empty."""

    call_id: str
    title: str
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed
    text: str = ""
    display: Display | None = None

    def lines(self) -> Iterator[Text]:
        """All of it."""
        yield styled(f"● {self.title}", "tool")
        diff = isinstance(self.display, (Diff, Diffs))
        for name, value in self.arguments.items():
            if diff and name not in ("file_path", "notebook_path"):
                continue
            first, *more = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split("\n")
            yield styled(f"  {name}: {first}", "dim")
            for line in more:
                yield styled(f"    {line}", "dim")
        if diff:
            yield from display_lines(self.display, whole=True)
        for line in self.text.split("\n") if self.text and not diff else ():
            yield styled(f"  {line}")


class Details:
    """A listener; what it keeps is asked for one by one, the latest first."""

    def __init__(self) -> None:
        self._kept: deque[Entry] = deque(maxlen=MOST)
        self._thought = ""
        self._back = 0

    def __call__(self, event: Event) -> None:
        inner = innermost(event)
        if isinstance(inner, ThinkingDelta):
            self._thought = (self._thought + inner.text)[-THOUGHT:]
            return
        if isinstance(inner, MessageAdded) and self._thought:
            self._add(Entry("", "thought", text=self._thought.strip()))
            self._thought = ""
        match inner:
            case ToolRequested(call_id=call_id, summary=summary, arguments=arguments):
                self._add(Entry(call_id, summary, arguments))
            case MessageAdded(message=ToolMessage(call_id=call_id, text=text)):
                self._change(call_id, text=text)
            case ToolFinished(call_id=call_id, display=display):
                self._change(call_id, display=display)

    def _add(self, entry: Entry) -> None:
        self._kept.append(entry)
        self._back = 0

    def _change(self, call_id: str, **changes: Any) -> None:
        for place in range(len(self._kept) - 1, -1, -1):
            if self._kept[place].call_id == call_id:
                self._kept[place] = self._kept[place].but(**changes)
                return

    def next(self) -> Entry | None:
        """The latest entry, and with each further call the one before; None where there is no more."""
        if self._back >= len(self._kept):
            self._back = 0
            return None
        self._back += 1
        return self._kept[-self._back]
