"""Output of a one-shot run and of commands: text, progress, and the outcome and exit code of a run.

Answers go to standard output, progress and notices to standard error: escaped on a terminal, unchanged in a
pipe (docs/headless.md).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Event,
    HookFinished,
    MessageAdded,
    Noted,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    UsageAdded,
    Warned,
    unwrap,
)
from agent_cli.core.messages import ToolMessage
from agent_cli.core.results import Complete, Failed, Failure, LimitReached, Suspended, TurnResult, Usage
from agent_cli.core.run_environment import OutputError
from agent_cli.core.window import compacted_line
from agent_tools.lazy import lazy_imports
from agent_tools.results import CommandOutput, Diff, Diffs
from agent_tools.text import counted, escape_controls, one_line, short_duration, tokens_used

with lazy_imports():
    from agent_cli.hooks import events as hook_events


def echo(text: str) -> None:
    """Print text, ending in a line break. Raises OutputError, or BrokenPipeError if the reader is gone."""
    shown = escape_controls(text) if sys.stdout.isatty() else text
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{shown.rstrip(chr(10))}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def print_json(data: Any) -> None:
    """Print data as indented JSON, in ASCII, so that it works in every locale."""
    echo(json.dumps(data, indent=2))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Format rows as lines; each column is as wide as its longest cell. right: columns to align right."""
    cells = [[escape_controls(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in cells
    ]  # fmt: skip


def print_warning(text: str) -> None:
    """Print a notice that names the program, which other programs print beside it."""
    print_notice(f"agent: {text}")


def print_ignored(texts: Iterable[str]) -> None:
    """Print what was ignored in settings and the like, a sentence each."""
    for text in texts:
        print_warning(f"{one_line(text)}.")


def print_notice(text: str) -> None:
    """Print a line on standard error, escaped on a terminal; ignore a closed one."""
    try:
        sys.stderr.write(f"{_escape_for_terminal(2, text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wrap_for_terminal(descriptor: int, text: str, indent: str = "") -> str:
    """Wrap the lines of a text if the descriptor is a terminal. indent: starts each continuation line."""
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
    """Print data as one line of JSON on standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """Print text to standard output without buffering; characters that cannot be encoded are replaced.

    On a terminal, which a model's text must not control, it is escaped; a file or a pipe gets it unchanged. Raises
    OutputError, or BrokenPipeError if the reader is gone.
    """
    data = _escape_for_terminal(1, text).encode("utf-8", "replace")
    try:
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from None


def _escape_for_terminal(number: int, text: str) -> str:
    return escape_controls(text) if os.isatty(number) else text


class ProgressPrinter:
    """A listener that prints progress.

    say: called with each line.
    verbose: also print text between calls, all hooks and totals.
    denials: also print denied calls; False if they are listed at the end.
    """

    def __init__(self, say: Callable[[str], None], verbose: bool, *, denials: bool = True) -> None:
        self._say = say
        self._verbose = verbose
        self._denials = denials
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
                summary = self._summaries.pop(call_id, "")
                if self._denials:
                    self._say(f"denied: {summary} ({escape_controls(reason)})")
            case ToolStarted(call_id=call_id):
                self._started.add(call_id)
            case ToolFinished(call_id=call_id):
                if summary := self._summaries.pop(call_id, ""):
                    unrun = event.is_error and call_id not in self._started
                    self._say(f"{summary} (not run)" if unrun else f"{summary}{_ending(event)}")
            case Compacted():
                self._say(compacted_line(event))
            case HookFinished() if self._verbose or hook_events.should_display(event):
                self._say(hook_events.hook_line(event))
            case Warned(text=text):
                self._say(f"warning: {escape_controls(text)}")
            case Noted(text=text):
                self._say(f"note: {text}")
            case TurnFinished() if self._verbose:
                self._words.clear()
                used = event.earlier + event.usage
                facts = (
                    counted(event.diagnostics.rounds, "model call"),
                    counted(event.diagnostics.tool_calls, "call"),
                    short_duration(event.diagnostics.duration_ms / 1000),
                    tokens_used(used.input, used.output),
                    used.cost_words,
                )
                self._say(" · ".join(filter(None, facts)))

    def _flush(self) -> None:
        if text := "".join(self._words).strip():
            self._say(escape_controls(text))
        self._words.clear()


def _ending(event: ToolFinished) -> str:
    match event.display:
        case CommandOutput(exit_code=code, seconds=seconds, note=note):
            more = "; ".join(["", *note.split("; ")[1:]]) if code is not None else ""
            how = f"exit {code}" if code is not None else "ended"
            return f" ({how}, {short_duration(seconds)}{more})"
        case Diff(created=True):
            return " (created)"
        case Diffs(files=files):
            return f" ({len(files)} files)"
    return " (failed)" if event.is_error else ""


Outcome = Literal[
    "done", "degraded", "denied", "failed", "retryable", "suspended", "limit", "unfinished", "interrupted", "differs"
]
OK, FAILED, USAGE, SUSPENDED, LIMIT, DENIED, DIFFERS, RETRY, PIPE = 0, 1, 2, 3, 4, 5, 6, 75, 141


def outcome_of(
    result: TurnResult,
    *,
    fail_on_denied: bool = False,
    fail_unattended: bool = False,
    fail_on_unfinished: bool = False,
) -> Outcome:
    """Return the outcome of a result.

    fail_unattended: it counts as a failure if nobody could approve any of the calls.

    "denied" and "unfinished" (open steps of a plan) are returned only if they count as failures; "differs" is for a
    replay whose requests are not those that were recorded.
    """
    if (failure := getattr(result, "failure", None)) is not None and failure.kind == "replay":
        return "differs"
    match result:
        case Complete(degraded=True):
            return "degraded"
        case Complete(plan_unfinished=True) if fail_on_unfinished:
            return "unfinished"
        case Complete():
            unattended = sum(denial.by == "default" for denial in result.end.denials)
            fails = fail_on_denied or (fail_unattended and unattended == result.end.diagnostics.tool_calls)
            return "denied" if result.end.denials and fails else "done"
        case Suspended():
            return "suspended"
        case LimitReached():
            return "limit"
        case Failed(failure=None):
            return "interrupted"
        case Failed(failure=failure):
            return "retryable" if failure is not None and failure.retryable else "failed"


def exit_code(outcome: Outcome, *, fail_on_degraded: bool, signal_number: int = 0) -> int:
    """Return the exit code of the process; after a signal, 128 plus its number."""
    if signal_number:
        return 128 + signal_number
    codes: dict[Outcome, int] = {
        "done": OK,
        "degraded": RETRY if fail_on_degraded else OK,
        "denied": DENIED,
        "failed": FAILED,
        "retryable": RETRY,
        "suspended": SUSPENDED,
        "limit": LIMIT,
        "unfinished": FAILED,
        "interrupted": 130,
        "differs": DIFFERS,
    }
    return codes[outcome]


def failure_hint(failure: Failure | None) -> str:
    """Return what to do about a failure of the provider that its message does not say; "" for nothing."""
    if failure is None:
        return ""
    if failure.kind == "auth":
        return "To see which key is used, and its source: agent doctor. To store another one: agent login"
    if "has no model named" in failure.message:
        return "See the names that are known: agent models"
    if "base URL" in failure.message:
        return "To see which address is used, and its source: agent doctor"
    return ""


class ResultBuilder:
    """A listener that collects usage by model, and the questions that the user has not answered.

    by_model: initially the usage of the turn's earlier parts, before it was suspended, and of earlier turns.
    earlier: usage of the run's earlier turns.
    asked: open questions by call ID.
    failed_hooks: the hooks that failed, each once.
    summaries: of the calls, by call ID.
    approvals: what the user was asked to approve, by call ID.
    """

    def __init__(self, by_model: Mapping[str, Usage] | None = None, earlier: Usage | None = None) -> None:
        self.by_model: dict[str, Usage] = dict(by_model or {})
        self.earlier = earlier or Usage()
        self.asked: dict[str, ApprovalRequested | QuestionAsked] = {}
        self.failed_hooks: dict[tuple[str, str, str], HookFinished] = {}
        self.summaries: dict[str, str] = {}
        self.approvals: dict[str, ApprovalRequested] = {}

    def __call__(self, event: Event) -> None:
        match unwrap(event):
            case HookFinished() as hook if hook.failed:
                self.failed_hooks.setdefault((hook.event, hook.source, hook.command), hook)
            case UsageAdded(model=model, usage=usage):
                self.by_model[model] = self.by_model.get(model, Usage()) + usage
            case ToolRequested(call_id=call_id, summary=summary):
                self.summaries[call_id] = summary
            case (ApprovalRequested() | QuestionAsked()) as asked:
                self.asked[asked.call_id] = asked
                if isinstance(asked, ApprovalRequested):
                    self.approvals[asked.call_id] = asked
            case MessageAdded(message=ToolMessage(call_id=call_id)):
                self.asked.pop(call_id, None)
