"""Render events for the application: their lines, the current activity of the turn, and its usage."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console

from agent_cli import CallView, Event, LiveSession, ViewChange
from agent_cli.shells.terminal.render.console import wrap_words
from agent_cli.shells.terminal.render.details import Details
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_cli.shells.terminal.render.live_writer import LiveWriter
from agent_tools.results import TodoItem
from agent_tools.text import counted, short_count, short_duration, shorten

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


# Seconds before the next try in which it is not shown as waiting any more.
_LAST_SECONDS = 0.5


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
                case "begun" | "ended":
                    self.plan_touched, self.called_at = False, 0.0
                case "round" | "restarted":
                    self.called_at = self.heard_at
                case "answer":
                    self.called_at = 0.0
                case "first":
                    self.retry_at = 0.0
                case "output" if change.call and change.call.call_id not in self.writer.running_calls:
                    self._begin(change.call)  # it runs beside a question
                case "warning" if change.event.wait:
                    # Shown as the status, which is updated for each retry.
                    self.retry_at, self._retry = time.monotonic() + change.event.wait, change.note
                    return
        self._draw(change)

    def _nested(self, agent: str, task: CallView, change: ViewChange) -> None:
        """Show a sub-agent's activity and tokens on the line of its call. Ctrl-O shows its steps."""
        if task.nested is not None and task.nested.background:
            # It has a row of its own below.
            if change.kind in ("warning", "hook"):
                super()._nested(agent, task, change)
            return
        if isinstance(task.nested, LiveSession):
            doing = shorten(task.nested.lately, _MAX_ACTIVITY_CHARS)
            self.writer.agents[task.call_id] = " · ".join((doing, *_facts(task)))
        if change.kind not in ("requested", "compacted"):
            super()._nested(agent, task, change)

    def _annotate_result(self, call: CallView, brief: str) -> str:
        return " · ".join(filter(None, (super()._annotate_result(call, brief), *_facts(call))))

    @property
    def waits_to_retry(self) -> bool:
        """True while a failed call of the model waits for its next try."""
        return self.retry_at - time.monotonic() > _LAST_SECONDS

    def status(self, seconds: float = 0.0) -> str:
        """Describe the current activity; while the model is called, also for how long, and when it has gone silent.

        seconds: of the turn, which is shown elsewhere.
        """
        now = time.monotonic()
        left = self.retry_at - now
        if left <= _LAST_SECONDS:
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
    writer.flush()
    lines = text.split("\n")
    left = len(lines) - MAX_ECHO_LINES if len(lines) > MAX_ECHO_LINES + 1 else 0
    if left:
        lines = [*lines[: MAX_ECHO_LINES - ECHO_END_LINES], f"... {left} more lines ...", *lines[-ECHO_END_LINES:]]
    first, *more = [row.plain for line in lines for row in wrap_words(f"  {line}", writer.console)]
    rows = [f"{USER_BACKGROUND}{row}\x1b[0m" for row in (f"> {first[2:]}", *more)]
    above = [] if writer.blank else [""]
    writer.mark_spaced()
    return [*above, *rows, ""]
