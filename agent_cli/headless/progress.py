"""Progress of a one-shot run on standard error: a line per tool call, warnings, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalResolved,
    Compacted,
    Event,
    HookFinished,
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
from agent_cli.core.window import compacted_line
from agent_tools.display import CommandOutput, Diff, Diffs
from agent_tools.text import escape_controls


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
