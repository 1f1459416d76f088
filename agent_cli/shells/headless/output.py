"""Output of a one-shot run and of commands: text, progress, and the outcome and exit code of a run.

Answers go to standard output, progress and notices to standard error: escaped on a terminal, unchanged in a
pipe (docs/headless.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from agent_cli import Complete, Event, Failed, Failure, LimitReached, SubagentEvent, Suspended, ToolFinished, TurnResult
from agent_cli.kernel.events import KINDS, PIECES, unwrap
from agent_tools.lazy import lazy_imports
from agent_tools.results import CommandOutput, Diff, Diffs
from agent_tools.text import counted, escape_controls, short_duration, tokens_used

if TYPE_CHECKING:
    from agent_cli import CallView, LiveSession, ViewChange

with lazy_imports():
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel.session import live  # an answer without calls needs none

# What an answer without calls consists of, which changes nothing that is printed.
_QUIET = frozenset(("begun", "round", "reading", "first", "usage", "ended"))


class RunListener:
    """A listener that follows a run, and passes on what each event changes.

    view: the session. Without one it begins with the first call or note: an answer alone needs none.
    pieces: the answer is shown while it streams.
    """

    def __init__(
        self, *shows: Callable[[ViewChange], None], view: LiveSession | None = None, pieces: bool = False
    ) -> None:
        self.view = view
        self._shows = shows
        self._unseen = (frozenset() if pieces else PIECES) | (_QUIET if view is None else frozenset())

    def __call__(self, event: Event) -> None:
        kind = KINDS.get(type(event), "")
        if kind in self._unseen or (type(event) is SubagentEvent and KINDS.get(type(unwrap(event))) in self._unseen):
            return
        if self.view is None:
            if not kind and type(event) is not SubagentEvent:
                return
            self.view = live.LiveSession()
        change = self.view.follow(event)
        for show in self._shows:
            show(change)


class ProgressPrinter:
    """Prints progress.

    say: called with each line.
    verbose: also print text between calls, all hooks and totals.
    denials: also print denied calls; False if they are listed at the end.
    """

    def __init__(self, say: Callable[[str], None], verbose: bool, *, denials: bool = True) -> None:
        self._say = say
        self._verbose = verbose
        self._denials = denials
        self._words: list[str] = []

    def show(self, change: ViewChange) -> None:
        """Print what an event changed."""
        event, call, nested = change.event, change.call, change.view.task is not None
        match change.kind:
            case "text" if self._verbose and not nested:
                self._words.append(event.text)
            case "restarted":
                self._words.clear()
            case "requested":
                self._flush()
            case "decided" if call is not None and call.decision == "reject" and self._denials:
                self._say(f"denied: {_summary(call)} ({escape_controls(call.reason)})")
            case "finished" if call is not None and call.decision != "reject" and (summary := _summary(call)):
                unrun = event.is_error and not call.started
                self._say(f"{summary} (not run)" if unrun else f"{summary}{_ending(event)}")
            case "compacted":
                self._say(change.note)
            case "hook" if self._verbose or hook_events.should_display(event):
                self._say(change.note)
            case "warning":
                self._say(f"warning: {escape_controls(change.note)}")
            case "notice":
                self._say(f"note: {change.note}")
            case "ended" if self._verbose and not nested:
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


def _summary(call: CallView) -> str:
    """Return the summary of a call; "" if it was requested in an earlier part of the turn."""
    return escape_controls(call.summary) if call.requested else ""


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
    "done", "degraded", "denied", "failed", "retryable", "suspended", "limit", "unfinished", "interrupted", "differs",
    "unpriced",
]  # fmt: skip
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
    if failure is not None and failure.kind == "price":
        return "unpriced"
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
        "unpriced": USAGE,
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
