"""Events for the application: their lines, the current activity of the turn, and its usage.

Also the details of the latest calls for viewing in full: arguments, results and thoughts.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.events import (
    ApprovalRequested,
    Compacted,
    Compacting,
    Event,
    FirstChunk,
    HookFinished,
    HookStarted,
    MessageAdded,
    QuestionAsked,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageAdded,
    Warned,
    unwrap,
)
from agent_cli.core.messages import ToolMessage
from agent_cli.core.results import Usage
from agent_cli.terminal.render.code import display_lines
from agent_cli.terminal.render.console import styled
from agent_cli.terminal.render.events import EventRenderer
from agent_cli.terminal.render.writer import LiveWriter
from agent_tools.display import Diff, Diffs, Display, TodoItem
from agent_tools.record import Value

# Number of calls stored, and characters of a thought.
MOST, THOUGHT = 50, 100_000


class Entry(Value):
    """A call, or a thought if `call_id` is empty."""

    call_id: str
    title: str
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed
    text: str = ""
    display: Display | None = None

    def lines(self) -> Iterator[Text]:
        """Yield all lines of the entry."""
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
    """Listener that stores the latest calls and returns them one by one, the latest first."""

    def __init__(self) -> None:
        self._kept: deque[Entry] = deque(maxlen=MOST)
        self._thought = ""
        self._back = 0

    def __call__(self, event: Event) -> None:
        inner = unwrap(event)
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
                self._kept[place] = self._kept[place].replace(**changes)
                return

    def next(self) -> Entry | None:
        """Return the latest entry, with each further call an earlier one; None after the first."""
        if self._back >= len(self._kept):
            self._back = 0
            return None
        self._back += 1
        return self._kept[-self._back]


_CHARS_PER_TOKEN = 4


class Transcript(EventRenderer):
    """Listener for the drawing thread.

    doing: current activity, in words.
    turn: usage of the turn.
    received: tokens received, estimated while they stream in.
    plan: returns the current plan, which the user may have changed.
    """

    questions_stay = False

    def __init__(
        self,
        console: Console,
        sink: io.StringIO,
        plan: Callable[[], Sequence[TodoItem]] = tuple,
        *,
        verbose: bool = False,
    ) -> None:
        self.writer = LiveWriter(console, sink, whole_thoughts=verbose)
        super().__init__(console, verbose=verbose, writer=self.writer, plan=plan)
        self.details = Details()
        self.doing = self._before_hook = ""
        # When a failed call is retried, on the monotonic clock.
        self.retry_at, self._retry = 0.0, ""
        self.turn = Usage()
        self._streamed = 0

    def __call__(self, event: Event) -> None:
        self._follow(event)
        self.details(event)
        if isinstance(event, Warned) and event.wait:
            return  # one line of the status that changes, not a warning for each try
        super().__call__(event)

    def _follow(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.turn, self._streamed, self.doing = Usage(), 0, "working"
            case RoundStarted():
                self.doing = "waiting for the model"
            case FirstChunk():
                self.doing, self.retry_at = "reading the answer", 0.0
            case ThinkingDelta(text=text):
                self.doing = "thinking"
                self._streamed += len(text)
            case TextDelta(text=text):
                self.doing = "writing"
                self._streamed += len(text)
            case ToolStarted(call_id=call_id, tool=tool):
                self.doing = self._summaries.get(call_id, tool)
            case ApprovalRequested() | QuestionAsked():
                self.doing = "waiting for you"
            case ToolFinished() | Compacted():
                self.doing = "working"
            case Compacting():
                self.doing = "compacting the conversation"
            case HookStarted(name=name):
                self.doing, self._before_hook = f"hook {name}", self.doing
            case HookFinished():
                self.doing = self._before_hook
            case UsageAdded(usage=usage):
                self.turn += usage
                self._streamed = 0
            case Warned(text=text, wait=wait) if wait:
                self.retry_at, self._retry = time.monotonic() + wait, text
            case TurnFinished():
                # A later command sends and receives no tokens.
                self.turn, self._streamed, self.doing = Usage(), 0, ""

    def status(self) -> str:
        """Return the current activity, in words."""
        left = self.retry_at - time.monotonic()
        return re.sub(r"(?<=again in )[\d.]+", f"{left:.0f}", self._retry) if left > 0.5 else self.doing

    @property
    def received(self) -> int:
        return self.turn.output + self._streamed // _CHARS_PER_TOKEN
