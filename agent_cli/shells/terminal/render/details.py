"""What the transcript leaves out: messages, answers, calls and thoughts in full, as a view.

Opened with Ctrl-O. The latest entries are kept.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator

from rich.text import Text

from agent_cli import AssistantMessage, CallView, ViewChange
from agent_cli.kernel.result_words import short_result
from agent_cli.kernel.session.view_entries import CallStatus
from agent_cli.shells.terminal.dialogs.view import View, ViewItem, prose_lines
from agent_cli.shells.terminal.render.code import display_lines
from agent_cli.shells.terminal.render.console import styled
from agent_cli.shells.terminal.render.events import BANG_CALL_ID
from agent_cli.shells.terminal.render.writer import CALL_MARKS, Outcome
from agent_tools.registry import tool_traits
from agent_tools.results import CommandOutput, Diff, Diffs
from agent_tools.text import one_line, shorten

# Number of entries kept, characters of a thought, steps of a sub-agent, characters of a title.
MAX_ENTRIES, MAX_THOUGHT_CHARS, MAX_STEPS, _MAX_TITLE_CHARS = 300, 100_000, 500, 300
_OUTCOMES: dict[CallStatus, Outcome] = {"done": "done", "failed": "failed", "denied": "denied", "stopped": "denied"}


class Entry:
    """A call with the steps of its sub-agent, or a text: a message of the user, an answer, a thought.

    mark, style: the symbol of a text, and its colour.
    """

    def __init__(self, call: CallView | None, text: str = "", mark: str = "·", style: str = "dim") -> None:
        self.call, self.text, self.mark, self.style = call, text, mark, style
        self.steps: deque[str] = deque(maxlen=MAX_STEPS)

    def item(self) -> ViewItem:
        """Return the entry as a row of the view."""
        call = self.call
        if call is None:
            return ViewItem(_title(self.text), mark=self.mark, style=self.style, detail=self._text_lines)
        mark, style = CALL_MARKS[_OUTCOMES.get(call.status, "running")]
        brief = short_result(call.finished.display) if call.finished is not None else ""
        live = call.status not in _OUTCOMES
        return ViewItem(_title(call.summary), brief, mark=mark, style=style, detail=self._call_lines, live=live)

    def _text_lines(self, width: int) -> list[Text]:
        return prose_lines(self.text, width, "dim" if self.mark == "·" else "")

    def _call_lines(self, width: int) -> list[Text]:
        return [row for line in self.lines(width) for row in _wrapped(line, width)]

    def lines(self, width: int = 0) -> Iterator[Text]:
        """Yield all lines of a call. width: wrap changes to it; 0 to not wrap."""
        call = self.call
        assert call is not None
        display = call.finished.display if call.finished is not None else None
        diff = isinstance(display, (Diff, Diffs))
        for name, value in call.arguments.items():
            if diff and name not in ("file_path", "notebook_path"):
                continue
            first, *more = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split("\n")
            yield styled(f"{name}: {first}", "dim")
            for line in more:
                yield styled(f"  {line}", "dim")
        for step in self.steps:
            yield styled(f"● {step}")
        if diff:
            yield from display_lines(display, whole=True, width=width)
        text = call.result.text if call.result is not None else ""
        if call.call_id == BANG_CALL_ID and isinstance(display, CommandOutput):
            text = display.output  # it has no message
        for line in text.split("\n") if text and not diff else ():
            yield styled(line)


def _title(text: str) -> str:
    return shorten(one_line(text.strip()), _MAX_TITLE_CHARS)


def _wrapped(line: Text, width: int) -> list[Text]:
    """Return a line wrapped at spaces; one that fits stays as it is, such as a row of a change."""
    return [line] if line.cell_len <= width else prose_lines(line.plain, width, "dim" if line.style == "dim" else "")


class Details:
    """The latest entries."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._thought = ""

    def show(self, change: ViewChange) -> None:
        """Store what an event changed."""
        event, call = change.event, change.call
        if (task := change.task) is not None:
            self._step(task, change)
            return
        if change.kind == "thinking":
            self._thought = (self._thought + event.text)[-MAX_THOUGHT_CHARS:]
            return
        if change.kind in ("message", "answer", "answered") and self._thought:
            self._entries.append(Entry(None, self._thought.strip()))
            self._thought = ""
        if change.kind == "message" and event.message.from_user:
            self._entries.append(Entry(None, event.message.words, ">", "accent"))
        elif change.kind == "answer" and event.message.text.strip():
            self._entries.append(Entry(None, event.message.text.strip(), " "))
        elif call is not None and self._is_new(change.kind, call):
            self._entries.append(Entry(call))

    def _is_new(self, kind: str, call: CallView) -> bool:
        """Return True for a call that is requested, or was refused before that; the plan is shown elsewhere."""
        known = any(entry.call is call for entry in self._entries)
        return kind in ("requested", "answered") and not known and not tool_traits(call.tool).changes_plan

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

    def view(self) -> View | None:
        """Return the entries as a view, with the latest call or thought chosen; None if there are none."""
        entries = list(self._entries)
        if not entries:
            return None
        latest = next((n for n in range(len(entries) - 1, -1, -1) if entries[n].call or entries[n].mark == "·"), 0)
        return View("Transcript", items=tuple(entry.item() for entry in entries), at=latest, opened=True)
