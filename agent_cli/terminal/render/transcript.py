"""Events as the lines of the application: what is finished is handed out once, what is not stands in the live part.

What was shown in short, kept for who wants it in full: arguments, results and thoughts of the latest calls.
"""

from __future__ import annotations

import io
import json
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
    HookRan,
    HookStarted,
    MessageAdded,
    QuestionAsked,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageAdded,
    Warned,
    innermost,
)
from agent_cli.core.messages import ToolMessage
from agent_cli.core.results import Usage
from agent_cli.terminal.render.console import by_words, styled
from agent_cli.terminal.render.diff import display_lines, short_result
from agent_cli.terminal.render.plain import PlainRenderer
from agent_cli.terminal.render.writer import Writer
from agent_tools.display import Diff, Diffs, Display, TodoItem, TodoView
from agent_tools.record import Value
from agent_tools.text import counted, inert

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


TAIL = 5
# Of a command's output the first and last lines stay in the scrollback.
HEAD, END = 4, 8
_CHARS_PER_TOKEN = 4


class LiveWriter(Writer):
    """A writer whose console is a text in memory. Lines that wait for their end are kept apart, so several can."""

    def __init__(self, console: Console, sink: io.StringIO, *, whole_thoughts: bool) -> None:
        super().__init__(console, whole_thoughts=whole_thoughts)
        self._sink = sink
        self._kind = ""
        self.begun: dict[str, Text] = {}

    def spaced(self) -> None:
        """There is a blank row above what comes next."""
        self._kind = ""

    def gap(self) -> None:
        """A blank row, where the row above is none."""
        if self._kind:
            self._sink.write("\n")
        self._kind = ""

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self._of("text")
            super()._lines(lines)

    @property
    def blank(self) -> bool:
        """Whether the row above is blank."""
        return not self._kind

    def printed(self) -> None:
        """Other lines have been written between."""
        self._kind = "line"

    def say(self, text: str, style: str = "") -> None:
        """A note, wrapped by words; an empty one is for terminals that have shown a ^C."""
        self.settle()
        for line in text.split("\n") if text else ():
            for row in by_words(line, self.console, style):
                self.put(row)

    def put(self, line: Text) -> None:
        self._of("line")
        super().put(line)

    def _of(self, kind: str) -> None:
        """A blank row sets the words of an answer off from calls and notes."""
        if self._kind and kind != self._kind:
            self._sink.write("\n")
        self._kind = kind

    def begin(self, key: str, text: str, style: str = "") -> None:
        self.settle()
        self.begun[key] = styled(text, style)

    def end(self, key: str, text: str, style: str = "") -> None:
        line = self.begun.pop(key, None)
        if line is None:
            super().end(key, text, style)
        else:
            self.settle()
            self.put(line.append_text(styled(f" · {text}" if text else "", style)))

    def release(self, key: str) -> None:
        """Write a line that was begun: what follows stands below it."""
        if (line := self.begun.pop(key, None)) is not None:
            self.settle()
            self.put(line)

    def take(self) -> list[str]:
        """The finished lines, once."""
        text = self._sink.getvalue()
        if not text:
            return []
        self._sink.seek(0)
        self._sink.truncate()
        return text.removesuffix("\n").split("\n")

    def tail(self) -> list[str]:
        """What is not finished: the end of the answer, or of the thought."""
        if self._answer is not None:
            return self._answer.tail()
        if self._thought.strip():
            lines = [line for line in inert(self._thought[-600:]).split("\n") if line.strip()]
            return [f"\x1b[2m  {line}\x1b[0m" for line in lines[-2:]]
        return []

    def resize(self, columns: int) -> None:
        self.console.width = columns
        if self._answer is not None:
            self._answer.resize(columns)


class _Output:
    """What a running command has printed: its first lines, its last, and how many there were."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.end: deque[str] = deque(maxlen=END)
        self.count = 0
        self.partial = ""
        # Of a flood only the latest is handed on, with a note of how much was not.
        self.flood = False

    def add(self, text: str) -> None:
        *lines, self.partial = (self.partial + text).split("\n")
        self.partial = self.partial[-4096:]
        self.flood = self.flood or " bytes not shown …]" in text
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        self.count += 1
        if len(self.head) < HEAD:
            self.head.append(line)
        else:
            self.end.append(line)

    def close(self) -> list[str]:
        """The lines to keep."""
        if self.partial:
            self._line(self.partial)
        left = self.count - len(self.head) - len(self.end)
        more = f"... {'over ' * self.flood}{counted(left, 'more line')} ..."
        return [*self.head, *([more] if left else []), *self.end]

    def tail(self) -> list[str]:
        lines = [*self.head, *self.end, *([self.partial] if self.partial else [])]
        return lines[-TAIL:]


class Transcript(PlainRenderer):
    """A listener for the thread that draws.

    doing: what the turn is at, in words. turn: its usage; received: an estimate of the tokens that are streaming in.
    plan: the plan as it now is, which the user may have changed.
    """

    def __init__(
        self,
        console: Console,
        sink: io.StringIO,
        plan: Callable[[], Sequence[TodoItem]] = tuple,
        *,
        verbose: bool = False,
    ) -> None:
        super().__init__(console, verbose=verbose)
        self.writer = self._out = LiveWriter(console, sink, whole_thoughts=verbose)
        self._outputs: dict[str, _Output] = {}
        self._plan, self._planned = plan, False
        self.details = Details()
        self.doing = self._before_hook = ""
        # When a failed call is tried again, on the monotonic clock.
        self.retry_at = 0.0
        self.turn = Usage()
        self._streamed = 0

    def __call__(self, event: Event) -> None:
        self._follow(event)
        self.details(event)
        if isinstance(event, ToolProgress):
            self._outputs.setdefault(event.call_id, _Output()).add(event.text)
        else:
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
            case HookRan():
                self.doing = self._before_hook
            case UsageAdded(usage=usage):
                self.turn += usage
                self._streamed = 0
            case Warned(wait=wait) if wait:
                self.retry_at = time.monotonic() + wait
            case TurnFinished():
                # A command that comes next sends and receives nothing of this.
                self.turn, self._streamed, self.doing = Usage(), 0, ""

    def status(self) -> str:
        """What is being done, in words."""
        left = self.retry_at - time.monotonic()
        return f"trying again in {left:.0f} s" if left > 0.5 else self.doing

    @property
    def received(self) -> int:
        return self.turn.output + self._streamed // _CHARS_PER_TOKEN

    def _finished(self, event: ToolFinished) -> None:
        output = self._outputs.pop(event.call_id, None)
        lines = output.close() if output is not None else []
        if lines or (event.display is not None and not short_result(event.display)):
            self.writer.release(event.call_id)
        for line in lines:
            self.writer.put(styled(f"  {line}", "dim"))
        if isinstance(event.display, TodoView):
            # The panel has it; the scrollback gets it once, as it is when the turn ends.
            self._planned, event = True, event.but(display=None)
        super()._finished(event)
        self.writer.release(event.call_id)

    def _end(self, event: TurnFinished) -> None:
        for key in list(self.writer.begun):
            self.writer.release(key)
        self._outputs.clear()
        if self._planned:
            self.writer.settle()
            for line in display_lines(TodoView(tuple(self._plan()))):
                self.writer.put(line)
            self._planned = False
        super()._end(event)

    def running(self) -> list[str]:
        """Lines of the live part: the calls that run, and the end of what the last of them prints."""
        lines = [self._line_of(text) for text in self.writer.begun.values()]
        for output in list(self._outputs.values())[-1:]:
            lines += [f"\x1b[2m  {inert(line)}\x1b[0m" for line in output.tail()]
        return lines

    def _line_of(self, text: Text) -> str:
        return f"\x1b[1m{text.plain}\x1b[0m"
