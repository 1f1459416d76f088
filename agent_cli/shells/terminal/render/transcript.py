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

from rich.console import Console
from rich.text import Text

from agent_cli.kernel.events import Event, PlanChanged
from agent_cli.kernel.messages import AssistantMessage
from agent_cli.kernel.result_words import short_result
from agent_cli.kernel.session.live import LiveSession, ViewChange
from agent_cli.kernel.session.view_entries import CallView
from agent_cli.shells.terminal.render.code import display_lines
from agent_cli.shells.terminal.render.console import styled, wrap_words
from agent_cli.shells.terminal.render.events import BANG_CALL_ID, EventRenderer
from agent_cli.shells.terminal.render.writer import LiveWriter
from agent_tools.results import CommandOutput, Diff, Diffs, TodoItem
from agent_tools.text import counted, one_line, short_count, short_duration, shorten

# Number of calls stored, characters of a thought, steps of a sub-agent.
MAX_ENTRIES, MAX_THOUGHT_CHARS, MAX_STEPS = 50, 100_000, 500


class Entry:
    """A call with the steps of its sub-agent, or a thought."""

    def __init__(self, call: CallView | None, thought: str = "") -> None:
        self.call, self.thought = call, thought
        self.steps: deque[str] = deque(maxlen=MAX_STEPS)

    def lines(self) -> Iterator[Text]:
        """Yield all lines of the entry."""
        call = self.call
        yield styled(f"● {call.summary if call is not None else 'thought'}", "tool")
        display = call.finished.display if call is not None and call.finished is not None else None
        diff = isinstance(display, (Diff, Diffs))
        for name, value in call.arguments.items() if call is not None else ():
            if diff and name not in ("file_path", "notebook_path"):
                continue
            first, *more = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split("\n")
            yield styled(f"  {name}: {first}", "dim")
            for line in more:
                yield styled(f"    {line}", "dim")
        for step in self.steps:
            yield styled(f"  ● {step}")
        if diff:
            yield from display_lines(display, whole=True)
        text = call.result.text if call is not None and call.result is not None else self.thought
        if call is not None and call.call_id == BANG_CALL_ID and isinstance(display, CommandOutput):
            text = display.output  # it has no message
        for line in text.split("\n") if text and not diff else ():
            yield styled(f"  {line}")


class Details:
    """Stores the latest calls and returns them one by one, the latest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._thought = ""
        self._position = 0

    def show(self, change: ViewChange) -> None:
        """Store what an event changed."""
        event, call = change.event, change.call
        if (task := change.task) is not None:
            self._step(task, change)
        elif change.kind == "thinking":
            self._thought = (self._thought + event.text)[-MAX_THOUGHT_CHARS:]
        elif change.kind in ("message", "answer", "answered") and self._thought:
            self._add(Entry(None, self._thought.strip()))
            self._thought = ""
        elif change.kind == "requested" and call is not None:
            self._add(Entry(call))

    def _step(self, task: CallView, change: ViewChange) -> None:
        """Add a step of a sub-agent to the entry of its call."""
        message, event = change.message, change.event
        if change.kind == "requested":
            step = event.summary
        elif change.kind == "finished" and (brief := short_result(event.display)):
            step = f"  {'failed: ' * event.is_error}{brief}"
        elif message is not None and isinstance(message.message, AssistantMessage) and message.message.text.strip():
            step = one_line(message.message.text.strip())
        else:
            return
        if (entry := next((e for e in reversed(self._entries) if e.call is task), None)) is not None:
            entry.steps.append(step)

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._position = 0

    def next(self) -> Entry | None:
        """Return the latest entry, with each further call an earlier one; None after the first."""
        if self._position >= len(self._entries):
            self._position = 0
            return None
        self._position += 1
        return self._entries[-self._position]


_CHARS_PER_TOKEN = 4
# Seconds without anything from the model after which the status says so.
SILENT_SECONDS = 10.0
# Characters shown of a sub-agent's activity.
_MAX_ACTIVITY_CHARS = 50


def _facts(task: CallView) -> Iterator[str]:
    """Yield the calls and tokens of a sub-agent. task: its call."""
    if isinstance(view := task.nested, LiveSession):
        tokens = view.spent.input + view.spent.output
        yield from [counted(view.every, "call")] * bool(view.every)
        yield from [f"{short_count(tokens)} tokens"] * bool(tokens)


class Transcript(EventRenderer):
    """Listener for the drawing thread. plan: returns the current plan, which the user may have changed."""

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
        # When a failed call is retried, on the monotonic clock.
        self.retry_at, self._retry = 0.0, ""
        # When the model was called, and when something came from it; 0 while it is not called.
        self.called_at = self.heard_at = 0.0
        # The paused plan that was mentioned.
        self._paused: Sequence[TodoItem] = ()
        # The plan was made or changed in this turn.
        self.plan_touched = False

    def __call__(self, event: Event) -> None:
        change = self.view.follow(event)
        self.heard_at = time.monotonic()
        if change.kind != "text":
            self.details.show(change)
        if change.view is self.view:
            match change.kind:
                case "plan":
                    self.plan_touched = not change.event.paused
                    self._mention_paused(change.event)
                case "begun" | "ended":
                    self.plan_touched, self.called_at = False, 0.0
                case "round" | "restarted":
                    self.called_at = self.heard_at
                case "answer":
                    self.called_at = 0.0
                case "first":
                    self.retry_at = 0.0
                case "warning" if change.event.wait:
                    # Shown as the status, which is updated for each retry.
                    self.retry_at, self._retry = time.monotonic() + change.event.wait, change.note
                    return
        self._draw(change)

    def _mention_paused(self, event: PlanChanged) -> None:
        """Say once that a plan of an earlier request is paused."""
        if event.paused and event.items != self._paused:
            done = sum(item.status in ("completed", "cancelled") for item in event.items)
            self._say(f"  (an earlier plan is paused, {done} of {len(event.items)} done; /todos shows it)", "dim")
        self._paused = event.items if event.paused else ()

    def _nested(self, agent: str, task: CallView, change: ViewChange) -> None:
        """Show a sub-agent's activity and tokens on the line of its call. Ctrl-O shows its steps."""
        if isinstance(task.nested, LiveSession):
            doing = shorten(task.nested.lately, _MAX_ACTIVITY_CHARS)
            self.writer.agents[task.call_id] = " · ".join((doing, *_facts(task)))
        if change.kind not in ("requested", "compacted"):
            super()._nested(agent, task, change)

    def _annotate_result(self, call: CallView, brief: str) -> str:
        return " · ".join(filter(None, (brief, *_facts(call))))

    def status(self, seconds: float = 0.0) -> str:
        """Describe the current activity; while the model is called, also for how long, and when it has gone silent.

        seconds: of the turn, which is shown elsewhere.
        """
        now = time.monotonic()
        left = self.retry_at - now
        if left <= 0.5:
            silent = now - max(self.heard_at, self.called_at, self.retry_at)
            facts = [self.view.doing]
            if self.called_at and now - self.called_at + 1 < seconds:
                facts.append(short_duration(int(now - self.called_at)))
            if self.called_at and silent >= SILENT_SECONDS:
                facts.append(f"no data for {silent:.0f} s")
            return " · ".join(facts)
        # The time comes first: a long cause is cut in a narrow window.
        cause, _, rest = self._retry.partition("; trying again in ")
        count = re.search(r" \(\d+(?: of \d+)?\)", rest)
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + left))
        return f"trying again in {left:.0f} s, at {until}{count[0] if count else ''}: {cause}"

    @property
    def received(self) -> int:
        """Tokens received, estimated while they stream in."""
        return self.view.turn_usage.output + self.view.streamed // _CHARS_PER_TOKEN


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
