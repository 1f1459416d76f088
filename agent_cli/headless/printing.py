"""Output of a one-shot run and of commands: answers to standard output, progress and notices to standard error.

Escaped on a terminal, unchanged in a pipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalResolved,
    Compacted,
    Event,
    HookFinished,
    Noted,
    SubagentEvent,
    TextDelta,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    Warned,
    unwrap,
)
from agent_cli.core.hooks import hook_line, should_display
from agent_cli.core.place import OutputError
from agent_cli.core.window import compacted_line
from agent_tools.display import CommandOutput, Diff, Diffs
from agent_tools.text import escape_controls


def echo(text: str) -> None:
    """Print text as whole lines. Raises OutputError, or BrokenPipeError if the reader has gone."""
    shown = escape_controls(text) if sys.stdout.isatty() else text
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{shown.rstrip(chr(10))}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def put_json(data: Any) -> None:
    """Print one indented JSON text; ASCII, so that no locale can break it."""
    echo(json.dumps(data, indent=2))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Format lines of columns as wide as their longest cell. right: columns to align right."""
    cells = [[escape_controls(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in cells
    ]  # fmt: skip


def print_notice(text: str) -> None:
    """Print a line on standard error, escaped on a terminal; ignore a closed one."""
    try:
        sys.stderr.write(f"{_for(2, text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wrapped_for(descriptor: int, text: str, indent: str = "") -> str:
    """Wrap the lines of a text at words if they go to a terminal. indent: before each continued line."""
    try:
        width = os.get_terminal_size(descriptor).columns
    except OSError:
        return text
    import textwrap

    shape = textwrap.TextWrapper(
        max(width, 40), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(shape.fill(line) if len(line) > width else line for line in text.split("\n"))


def print_line(fields: Any) -> None:
    """Print a JSON text as one line of standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """Print text to standard output at once; undecodable characters never fail the run.

    Escaped on a terminal, which a model's text must not control; a file or a pipe gets the text unchanged. Raises
    OutputError, or BrokenPipeError if the reader has gone.
    """
    data = _for(1, text).encode("utf-8", "replace")
    try:
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def _for(number: int, text: str) -> str:
    return escape_controls(text) if os.isatty(number) else text


class ProgressPrinter:
    """A listener that prints progress; `say` takes one line. verbose: also text between calls, reasons and totals."""

    def __init__(self, say: Callable[[str], None], verbose: bool) -> None:
        self._say = say
        self._verbose = verbose
        self._summaries: dict[str, str] = {}
        self._words: list[str] = []
        self._started: set[str] = set()

    def __call__(self, event: Event) -> None:
        nested = isinstance(event, SubagentEvent)
        event = unwrap(event)
        if nested and isinstance(event, (TextDelta, TurnFinished)):
            return
        match event:
            case TextDelta(text=text) if self._verbose:
                self._words.append(text)
            case AnswerRestarted():
                self._words.clear()
            case ToolRequested(call_id=call_id, summary=summary):
                self._flush()
                self._summaries[call_id] = escape_controls(summary)
            case ApprovalResolved(decision="reject", call_id=call_id, reason=reason):
                self._say(f"denied: {self._summaries.pop(call_id, '')} ({escape_controls(reason)})")
            case ToolStarted(call_id=call_id):
                self._started.add(call_id)
            case ToolFinished(call_id=call_id):
                if summary := self._summaries.pop(call_id, ""):
                    unrun = event.is_error and call_id not in self._started
                    self._say(f"{summary} (not run)" if unrun else f"{summary}{_ending(event)}")
            case Compacted():
                self._say(compacted_line(event))
            case HookFinished() if self._verbose or should_display(event):
                self._say(hook_line(event))
            case Warned(text=text):
                self._say(f"warning: {escape_controls(text)}")
            case Noted(text=text):
                self._say(f"note: {text}")
            case TurnFinished() if self._verbose:
                self._words.clear()
                used = event.earlier + event.usage
                cost = f"${used.cost:.4f}" if used.reliable else "cost unknown"
                self._say(
                    f"{event.diagnostics.rounds} rounds, {event.diagnostics.tool_calls} calls, "
                    f"{event.diagnostics.duration_ms / 1000:.1f} s, {used.input} tokens in, {used.output} out, {cost}"
                )

    def _flush(self) -> None:
        if text := "".join(self._words).strip():
            self._say(escape_controls(text))
        self._words.clear()


def _ending(event: ToolFinished) -> str:
    match event.display:
        case CommandOutput(exit_code=code, seconds=seconds):
            return f" (exit {code}, {seconds:.1f} s)" if code is not None else f" (ended, {seconds:.1f} s)"
        case Diff(created=True):
            return " (created)"
        case Diffs(files=files):
            return f" ({len(files)} files)"
    return " (failed)" if event.is_error else ""
