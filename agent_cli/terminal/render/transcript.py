"""Render events for the application: their lines, the current activity of the turn, and its usage.

Also: the details of the latest calls, to view in full: arguments, results and thoughts.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalRequested,
    Compacted,
    Compacting,
    Event,
    FirstChunk,
    HookFinished,
    HookStarted,
    MessageAdded,
    PlanChanged,
    PromptRead,
    QuestionAsked,
    RoundStarted,
    SubagentEvent,
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
from agent_cli.core.messages import AssistantMessage, ToolMessage
from agent_cli.core.result_words import short_result
from agent_cli.core.results import Usage
from agent_cli.terminal.render.code import display_lines
from agent_cli.terminal.render.console import styled, wrap_words
from agent_cli.terminal.render.events import BANG_CALL_ID, EventRenderer
from agent_cli.terminal.render.writer import LiveWriter
from agent_tools.record import Value
from agent_tools.results import CommandOutput, Diff, Diffs, Display, TodoItem
from agent_tools.text import counted, one_line, short_count, shorten

# Number of calls stored, characters of a thought, steps of a sub-agent.
MAX_ENTRIES, MAX_THOUGHT_CHARS, MAX_STEPS = 50, 100_000, 500


class Entry(Value):
    """A call, or a thought if `call_id` is empty. steps: those of a sub-agent."""

    call_id: str
    title: str
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed
    text: str = ""
    display: Display | None = None
    steps: tuple[str, ...] = ()

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
        for step in self.steps:
            yield styled(f"  ● {step}")
        if diff:
            yield from display_lines(self.display, whole=True)
        for line in self.text.split("\n") if self.text and not diff else ():
            yield styled(f"  {line}")


class Details:
    """Listener that stores the latest calls and returns them one by one, the latest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._thought = ""
        self._position = 0

    def __call__(self, event: Event) -> None:
        match event:
            case SubagentEvent(call_id=call_id):
                self._step(call_id, unwrap(event))
                return
            case ThinkingDelta(text=text):
                self._thought = (self._thought + text)[-MAX_THOUGHT_CHARS:]
                return
            case MessageAdded() if self._thought:
                self._add(Entry("", "thought", text=self._thought.strip()))
                self._thought = ""
        match event:
            case ToolRequested(call_id=call_id, summary=summary, arguments=arguments):
                self._add(Entry(call_id, summary, arguments))
            case MessageAdded(message=ToolMessage(call_id=call_id, text=text)):
                self._change(call_id, text=text)
            case ToolFinished(call_id=call_id, display=display):
                # A `!` command has no message.
                own = {"text": display.output} if call_id == BANG_CALL_ID and isinstance(display, CommandOutput) else {}
                self._change(call_id, display=display, **own)

    def _step(self, call_id: str, event: Event) -> None:
        """Add a step of a sub-agent to the entry of its call."""
        match event:
            case ToolRequested(summary=summary):
                step = summary
            case ToolFinished(display=display, is_error=is_error) if brief := short_result(display):
                step = f"  {'failed: ' * is_error}{brief}"
            case MessageAdded(message=AssistantMessage(text=text)) if text.strip():
                step = one_line(text.strip())
            case _:
                return
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].call_id == call_id:
                self._entries[index] = self._entries[index].replace(
                    steps=(*self._entries[index].steps, step)[-MAX_STEPS:]
                )
                return

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._position = 0

    def _change(self, call_id: str, **changes: Any) -> None:
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].call_id == call_id:
                self._entries[index] = self._entries[index].replace(**changes)
                return

    def next(self) -> Entry | None:
        """Return the latest entry, with each further call an earlier one; None after the first."""
        if self._position >= len(self._entries):
            self._position = 0
            return None
        self._position += 1
        return self._entries[-self._position]


_CHARS_PER_TOKEN = 4
# Characters shown of a sub-agent's activity.
_MAX_ACTIVITY_CHARS = 50


class AgentProgress:
    """The progress of a sub-agent."""

    def __init__(self) -> None:
        self.doing, self.calls, self.tokens = "working", 0, 0

    def follow(self, event: Event) -> None:
        match event:
            case ToolRequested(summary=summary):
                self.doing = shorten(summary, _MAX_ACTIVITY_CHARS)
                self.calls += 1
            case ThinkingDelta():
                self.doing = "thinking"
            case TextDelta():
                self.doing = "writing"
            case UsageAdded(usage=usage):
                self.tokens += usage.input + usage.output

    def facts(self) -> Iterator[str]:
        """Yield its calls and tokens."""
        yield from [counted(self.calls, "call")] * bool(self.calls)
        yield from [f"{short_count(self.tokens)} tokens"] * bool(self.tokens)

    def line(self) -> str:
        """Return its activity, calls and tokens."""
        return " · ".join((self.doing, *self.facts()))


class Transcript(EventRenderer):
    """Listener for the drawing thread.

    doing: description of the current activity.
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
        folded: bool = False,
    ) -> None:
        self.writer = LiveWriter(console, sink, whole_thoughts=verbose)
        super().__init__(console, verbose=verbose, writer=self.writer, plan=plan, folded=folded)
        self.details = Details()
        self.doing = self._before_hook = ""
        # When a failed call is retried, on the monotonic clock.
        self.retry_at, self._retry = 0.0, ""
        self.turn = Usage()
        self._streamed = 0
        # The plan was made or changed in this turn.
        self.plan_touched = False
        self._agents: dict[str, AgentProgress] = {}

    def __call__(self, event: Event) -> None:
        self._follow(event)
        self.details(event)
        if isinstance(event, Warned) and event.wait:
            return  # shown as the status, which is updated for each retry
        super().__call__(event)

    def _nested(self, agent: str, call_id: str, event: Event) -> None:
        """Show a sub-agent's activity and tokens on the line of its call. Ctrl-O shows its steps."""
        progress = self._agents.setdefault(call_id, AgentProgress())
        progress.follow(event)
        self.writer.agents[call_id] = progress.line()
        if isinstance(event, ToolRequested):
            self._summaries[event.call_id] = event.summary
        if isinstance(event, ToolFinished):
            self._summaries.pop(event.call_id, None)
        if isinstance(event, ToolRequested | Compacted):
            return
        super()._nested(agent, call_id, event)

    def _annotate_result(self, call_id: str, brief: str) -> str:
        progress = self._agents.pop(call_id, None)
        return " · ".join(filter(None, (brief, *progress.facts()))) if progress is not None else brief

    def _follow(self, event: Event) -> None:
        match event:
            case PlanChanged(paused=paused):
                self.plan_touched = not paused
            case TurnStarted():
                self.plan_touched = False
                self._agents.clear()
                self.turn, self._streamed, self.doing = Usage(), 0, "working"
            case RoundStarted() | AnswerRestarted():
                self.doing = "waiting for the model"
            case PromptRead(read=read, total=total):
                self.doing = f"reading the prompt, {100 * read // total} % of {short_count(total)}"
            case FirstChunk():
                self.doing, self.retry_at = "reading the answer", 0.0
            case ThinkingDelta(text=text):
                self.doing = "thinking"
                self._streamed += len(text)
            case TextDelta(text=text):
                self.doing = "writing"
                self._streamed += len(text)
            case ToolStarted():
                self.doing = "running"
            case ApprovalRequested() | QuestionAsked():
                self.doing = "waiting for your answer"
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
                # Reset, for commands that run after the turn.
                self.plan_touched = False
                self.turn, self._streamed, self.doing = Usage(), 0, ""

    def status(self) -> str:
        """Describe the current activity."""
        left = self.retry_at - time.monotonic()
        if left <= 0.5:
            return self.doing
        # The time comes first: a long cause is cut in a narrow window.
        cause, _, rest = self._retry.partition("; trying again in ")
        count = re.search(r" \(\d+ of \d+\)", rest)
        return f"trying again in {left:.0f} s{count[0] if count else ''}: {cause}"

    @property
    def received(self) -> int:
        return self.turn.output + self._streamed // _CHARS_PER_TOKEN


# Lines of a user message that are echoed, and how many of them from its end, where the words after a paste stand. The
# model gets all lines.
MAX_ECHO_LINES, ECHO_END_LINES = 20, 5
# The background of user messages, to the end of the line.
USER_BACKGROUND = "\x1b[100m\x1b[K"


def folded_turn(parts: Iterable[str | Event], console: Console, kept: io.StringIO) -> list[str]:
    """Return the lines of an earlier turn, without the output of its calls.

    parts: messages of the user, as text, and the other events. kept: the file of the console.
    """
    transcript = Transcript(console, kept, folded=True)
    transcript.writer.mark_printed()
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            transcript.writer.release_all()
            lines += [*transcript.writer.take(), *user_bar(part, transcript.writer)]
        else:
            transcript(part)
    transcript.writer.release_all()
    return [*lines, *transcript.writer.take()]


def user_bar(text: str, writer: LiveWriter) -> list[str]:
    """Return a message of the user as rows with a background, between blank rows."""
    lines = text.split("\n")
    left = len(lines) - MAX_ECHO_LINES if len(lines) > MAX_ECHO_LINES + 1 else 0
    if left:
        lines = [*lines[: MAX_ECHO_LINES - ECHO_END_LINES], f"... {left} more lines ...", *lines[-ECHO_END_LINES:]]
    first, *more = [row.plain for line in lines for row in wrap_words(f"  {line}", writer.console)]
    rows = [f"{USER_BACKGROUND}{row}\x1b[0m" for row in (f"> {first[2:]}", *more)]
    above = [] if writer.blank else [""]
    writer.mark_spaced()
    return [*above, *rows, ""]
