"""Render events as lines, for both front ends.

Answers are written as they are finished, each call on one line with its result and its output below, failures with
advice. The writer puts the lines on the screen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from agent_cli.core.events import (
    EDITED,
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Compacting,
    Event,
    HookFinished,
    MessageAdded,
    Noted,
    Pinned,
    PlanContinued,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Uncompacted,
    UsageAdded,
    Warned,
    unwrap,
)
from agent_cli.core.messages import CONTINUE_CUT, AssistantMessage, ToolMessage, UserMessage
from agent_cli.core.result_words import short_result
from agent_cli.core.results import Failure, Usage
from agent_cli.core.window import compacted_line, compacting_line, uncompacted_line
from agent_cli.terminal.render.call_output import BANG_ROWS, FAILED_ROWS, RESULT_ROWS
from agent_cli.terminal.render.code import display_lines
from agent_cli.terminal.render.console import styled
from agent_cli.terminal.render.writer import Outcome, Writer
from agent_tools.lazy import lazy_imports
from agent_tools.results import CommandOutput, Diff, Diffs, Display, TodoItem, TodoView
from agent_tools.text import counted, dollars, short_duration, shorten, tokens_used

with lazy_imports():
    from agent_cli.hooks import events as hook_events

_ADVICE_BY_KIND = {
    "auth": "/login stores another key; agent doctor shows which one is used.",
    "rate_limit": "Wait a moment and try again, or switch to another model: /model NAME.",
    "overloaded": "Wait a moment and try again, or switch to another model: /model NAME.",
    "network": "Check the connection and base_url (agent doctor tries it), then try again.",
    "refused": "Rephrase the request, or switch to another model: /model NAME.",
    "context_too_long": "/clear starts a new session; /model NAME switches to a model with a larger window.",
}
_UNKNOWN_MODEL = re.compile(r"no model named|does not exist|not found")
_NO_CREDIT = re.compile(r"quota|credit|billing|balance|money|spending", re.IGNORECASE)


# The call of a command that the user typed after `!`.
BANG_CALL_ID = "!"
# Length of a sub-agent's name with its task.
_MAX_NAME_CHARS = 32

# Limits by terminal reason: what was limited, and the setting.
_LIMITS = {
    "max_rounds": ("model calls per turn", "max_rounds"),
    "max_duration": ("working time per turn", "max_seconds"),
    "max_tool_calls": ("tool calls per turn", "max_tool_calls"),
    "max_cost": ("dollars per turn", "max_cost"),
    "max_failures": ("failed rounds in a row", "max_failures"),
    "max_denials": ("refusals of the same call", None),
    "max_output_tokens": ("tokens of an answer", "max_tokens"),
}


def limit_message(reason: str) -> str:
    """Explain which limit ended a turn and how to continue."""
    if reason not in _LIMITS:
        return "Stopped: the model repeated itself. Say what to do instead to continue."
    what, setting = _LIMITS[reason]
    if setting is None:
        return f'Stopped: the limit of {what} is reached. Say "continue" to continue.'
    text = f"Stopped: the limit of {what} is reached (setting: {setting})."
    return f'{text} Say "continue" to continue, or raise the limit.'


def approval_words(event: ApprovalResolved, summary: str = "") -> str:
    """Describe a user's approval in a few words. summary: of the call, next to which its command is not repeated."""
    if event.mode:
        return "✓ allowed, and all edits this session"
    command = summary.partition(": ")[2]
    what = "exactly this" if command and (event.rule or "").partition("(")[2] == f"{command})" else event.rule
    text = f", always: {what}" if event.rule else ""
    return f"✓ allowed{text}{f' ({event.reason})' if event.reason else ''}"


def failure_advice(failure: Failure) -> str:
    """Return one sentence of advice about a failure; "" if there is none."""
    if failure.kind == "bad_request" and _UNKNOWN_MODEL.search(failure.message):
        return "agent models lists what there is; /model NAME changes it here."
    if failure.kind in ("auth", "rate_limit", "bad_request") and _NO_CREDIT.search(failure.message):
        return "Add credit with the provider, or switch to another model: /model NAME."
    return _ADVICE_BY_KIND.get(failure.kind, "")


class EventRenderer:
    """Listener that writes each event, append-only.

    questions_stay: questions stay on the screen, so approved calls and changes are not written again.
    writer: puts lines on the screen; by default directly on the console.
    plan: returns the current plan if a panel shows it; the plan is then written only at the end of the turn.
    folded: omit the output of calls, as for turns of a resumed session.
    """

    questions_stay = True

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        writer: Writer | None = None,
        plan: Callable[[], Sequence[TodoItem]] | None = None,
        folded: bool = False,
    ) -> None:
        self._folded = folded
        self._out = writer or Writer(console, whole_thoughts=verbose)
        self._plan, self._planned = plan, False
        # Files that calls of the turn changed; True once the turn was seen from its start.
        self._changed: dict[str, ChangedLines] = {}
        self._from_start = False
        self._errors: dict[str, str] = {}
        self._explained_compaction = False
        self._answered = ""
        self._summaries: dict[str, str] = {}
        self._started: set[str] = set()
        self._shown: dict[str, Display] = {}
        # The user's decision by call.
        self._decided: dict[str, str] = {}
        self._verbose = verbose
        self.usage = Usage()
        self.context_tokens = 0

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._out.answer(text)
            case ThinkingDelta(text=text):
                self._out.think(text)
            case AnswerRestarted():
                self._out.discard("  (the answer broke off here; asking again)")
            case ToolRequested(call_id=call_id, summary=summary):
                self._out.settle()
                self._summaries[call_id] = summary
            case ToolStarted(call_id=call_id, tool=tool):
                self._started.add(call_id)
                self._begin(call_id, tool)
            case ToolProgress(call_id=call_id, text=text) if not self._folded:
                self._out.output(call_id, text)
            case MessageAdded(message=AssistantMessage(text=text)):
                self._answered = text
            case MessageAdded(message=ToolMessage(call_id=call_id, text=text, is_error=True)):
                self._errors[call_id] = text
            case MessageAdded(message=UserMessage(text=text)) if text != CONTINUE_CUT:
                # What the model says to a message is another answer.
                self._out.settle()
                for line in text.split("\n") if text.startswith("[diagnostics: ") else ():
                    self._say(f"  {line}", "ask")
            case ToolFinished():
                self._finished(event)
            case ApprovalRequested(call_id=call_id, preview=preview, summary=summary):
                self._out.settle()
                # A second request for a call means that the user has changed it.
                self._summaries[call_id] = summary
                if preview is not None and self.questions_stay:
                    self._shown[call_id] = preview
            case ApprovalResolved(decision="approve", by="person", call_id=call_id) if not self.questions_stay:
                self._decided[call_id] = f" {approval_words(event, self._summaries.get(call_id, ''))}"
            case ApprovalResolved(decision="reject", by="person", reason=reason) if reason == EDITED:
                # The call is requested again; in a resumed session that request is not shown.
                pass
            case ApprovalResolved(decision="reject", by=by, reason=reason, call_id=call_id):
                summary = self._summaries.pop(call_id, "")
                if by != "person":
                    self._out.begin(call_id, summary)
                    self._out.end(call_id, f"denied: it {reason}", "denied")
                elif not self.questions_stay:
                    self._out.begin(call_id, summary)
                    self._out.end(call_id, f"denied{f': {reason}' if reason else ''}", "denied")
            case QuestionAsked():
                self._out.settle()
            case QuestionAnswered(verdict="answer", text=text) if self._folded:
                for line in text.splitlines():
                    self._say(f"? {line.replace(' -> ', ' → ')}")
            case QuestionAnswered(call_id=call_id, verdict="revise" | "cancel") if not self._folded:
                # The call fails with the user's own words, which are already shown.
                self._summaries.pop(call_id, None)
            case PlanContinued():
                self._say("  (the plan has open steps; continuing)", "dim")
            case SubagentEvent(agent=agent, call_id=call_id, event=inner):
                self._nested(self._subagent_label(agent, call_id), call_id, unwrap(inner))
            case UsageAdded(usage=usage, aside=aside):
                self.usage += usage
                if usage.input and not aside:
                    self.context_tokens = usage.input + usage.output
            case Compacting() | Compacted() | Uncompacted() | Pinned():
                self._compaction(event)
            case HookFinished(outcome=outcome):
                if hook_events.should_display(event) or self._verbose:
                    self._out.settle()
                    self._say(f"  {hook_events.hook_line(event)}", "dim" if outcome == "success" else "ask")
            case Warned(text=text):
                self._say(f"warning: {text}", "ask")
            case Noted(text=text):
                self._say(f"  ({text[0].lower()}{text[1:].rstrip('.')})", "dim")
            case TurnStarted():
                self._changed.clear()
                self._from_start = True
            case TurnFinished():
                self._end(event)

    def _subagent_label(self, agent: str, call_id: str) -> str:
        """Return the label of a sub-agent's lines: its name, with its task if several run at the same time."""
        if len(self._started) < 2:
            return agent
        return shorten(self._summaries.get(call_id, agent).removeprefix("Sub-agent "), _MAX_NAME_CHARS)

    def _nested(self, agent: str, call_id: str, event: Event) -> None:
        """Write the calls and warnings of a sub-agent, one line each."""
        match event:
            case ToolRequested(summary=summary):
                self._say(f"  [{agent}] {summary}", "dim")
            case ApprovalResolved(decision="reject", by=by, reason=reason) if by != "person":
                self._say(f"  [{agent}] denied: it {reason}", "bad")
            case ApprovalResolved(decision="reject", reason=reason) if not self.questions_stay and reason != EDITED:
                what = self._summaries.get(event.call_id, "")
                self._say(f"  [{agent}] {f'{what} ' if what else ''}✗ denied{f': {reason}' if reason else ''}", "bad")
            case Warned(text=text):
                self._say(f"  [{agent}] warning: {text}", "ask")
            case ApprovalRequested() | QuestionAsked():
                self._out.settle()
            case UsageAdded(usage=usage):
                self.usage += usage
            case ToolFinished(display=display):
                self._count(display)
            case Compacted():
                self._say(f"  [{agent}] {compacted_line(event)}", "dim")
            case HookFinished() if hook_events.should_display(event):
                self._say(f"  [{agent}] {hook_events.hook_line(event)}", "ask")

    def _compaction(self, event: Compacting | Compacted | Uncompacted | Pinned) -> None:
        self._out.settle()
        match event:
            case Compacting():
                self._say(f"  {compacting_line(event)} ...", "dim")
            case Compacted():
                self.context_tokens = event.tokens_after
                self._say(f"  {compacted_line(event)}", "dim")
                if not self._explained_compaction:
                    self._explained_compaction = True
                    self._say("  (/context shows what fills the window, /uncompact undoes it)", "dim")
            case Uncompacted():
                self.context_tokens = event.tokens
                self._say(f"  {uncompacted_line(event)}", "dim")
            case Pinned():
                self._say(f"  {'pinned' if event.on else 'no longer pinned'}: {shorten(event.text, 80)}", "dim")

    def _begin(self, call: str, tool: str) -> None:
        self._out.begin(call, f"{self._summaries.get(call, tool)}{self._decided.pop(call, '')}")

    def _say(self, text: str, style: str = "") -> None:
        self._out.say(text, style)

    def _finished(self, event: ToolFinished) -> None:
        """Write the result of a call: in a few words on its line if it is the last one, the rest below."""
        call, display = event.call_id, event.display
        error = self._errors.pop(call, "")
        failed = event.is_error or (isinstance(display, CommandOutput) and display.failed)
        most = BANG_ROWS if call == BANG_CALL_ID else FAILED_ROWS if failed else RESULT_ROWS
        rows = self._out.end_output(call, most)
        if isinstance(display, Diff | Diffs):
            # What formatters and checkers said of a change.
            rows = [styled(row.plain, "ask") for row in rows]
        self._count(display)
        if self._plan is not None and isinstance(display, TodoView):
            self._planned, display = True, None
        # A change just approved is not shown again, unless the result differs from it.
        approved = self._shown.pop(call, None)
        brief = self._annotate_result(call, short_result(display, words=self._out.words))
        if display is None and error and self._summaries.get(call):
            brief = _first_line(error)
        if self._summaries.get(call) and call not in self._started and brief:
            self._begin(call, event.tool)
        if brief and event.is_error and self._out.words:
            brief = f"failed: {brief}"
        self._out.end(call, brief, "failed" if failed else "done")
        self._out.release(call)
        if display is not None and not short_result(display) and display != approved and not self._folded:
            # Below output, which has no margin, it continues the same block.
            rows += [line[2:] if rows else line for line in self._rows_of(display)]
        if rows:
            self._out.rows(rows)
        self._summaries.pop(call, None)
        self._started.discard(call)

    def _annotate_result(self, call_id: str, brief: str) -> str:
        """Return the short result of a call, to which a front end may add."""
        return brief

    def _count(self, display: Display | None) -> None:
        """Add the files that a call changed."""
        for diff in display.files if isinstance(display, Diffs) else (display,) if isinstance(display, Diff) else ():
            self._changed.setdefault(diff.path, ChangedLines()).add(diff)

    def _rows_of(self, display: Display) -> Iterator[Text]:
        if self._out.words:
            return display_lines(display, words=True)
        return display_lines(display, width=self._out.console.width - self._out.indent, heading=False)

    def _end(self, event: TurnFinished) -> None:
        self._out.release_all()
        if self._plan is not None and self._planned:
            for line in display_lines(TodoView(tuple(self._plan()))):
                self._out.put(line)
            self._planned = False
        if event.degraded and event.failure is not None:
            # The calls before it are on the screen.
            self._say(event.text.partition("\n\nBefore that:")[0], "bad")
            resume = "Nothing is lost: write continue to resume the work."
            self._say(" ".join(filter(None, (failure_advice(event.failure), resume))), "dim")
        elif event.degraded or event.result == "MaxIterations":
            # A summary written by the model is already shown.
            if event.text != self._answered:
                self._say(event.text, "ask")
            if not event.degraded:
                self._say(limit_message(event.diagnostics.terminal_reason), "ask")
        elif event.diagnostics.terminal_reason == "interrupted":
            for call_id in [call_id for call_id in self._summaries if call_id not in self._started]:
                self._out.begin(call_id, self._summaries.pop(call_id))
                self._out.end(call_id, "not run", "denied")
            # After the ^C that the terminal printed.
            self._say("")
            self._say("interrupted; say what to do instead, or continue", "ask")
        elif event.failure is not None:
            self._say(event.failure.message, "bad")
            if hint := failure_advice(event.failure):
                self._say(hint, "dim")
        if event.result == "Complete" and event.plan_unfinished and self._plan is None:
            self._say("the plan has open steps: /todos shows it", "ask")
        self._out.close(*self._summarize_turn(event))

    def _summarize_turn(self, event: TurnFinished) -> tuple[Outcome, list[tuple[str, str]]]:
        """Return the outcome of the turn, and its facts with styles: time, tokens, cost, changes, verification."""
        reason = event.diagnostics.terminal_reason
        complete = event.result == "Complete" and not event.degraded
        used = event.earlier + event.usage
        facts = [
            "interrupted" if reason == "interrupted" else "",
            short_duration(event.diagnostics.duration_ms / 1000),
            tokens_used(used.input, used.output),
            f"{'~' if used.estimated else ''}{dollars(used.cost)}" if used.reliable and used.cost else "",
            self._changes() if event.changed_files or self._changed else "",
        ]
        styled_facts = [(fact, "dim") for fact in facts if fact]
        if event.result == "Complete" and (event.verified or event.changed_files):
            styled_facts.append(_verification(event.verified))
        return "done" if complete else "failed", styled_facts

    def _changes(self) -> str:
        if not self._changed or not self._from_start:
            return "changed files"
        added, removed = (sum(counts) for counts in zip(*(c.counts for c in self._changed.values()), strict=True))
        return f"changed {counted(len(self._changed), 'file')} (+{added} -{removed})"


class ChangedLines:
    """Counts the lines that several changes of a file added and removed, without those that were added and removed."""

    def __init__(self) -> None:
        self._added: Counter[str] = Counter()
        self._removed: Counter[str] = Counter()

    def add(self, diff: Diff) -> None:
        lines = diff.patch.splitlines()
        added = Counter(line[1:] for line in lines if line.startswith("+"))
        removed = Counter(line[1:] for line in lines if line.startswith("-"))
        if (added.total(), removed.total()) != (diff.added, diff.removed):  # the patch is shortened
            added, removed = Counter({"+": diff.added}), Counter({"-": diff.removed})
        reverted, restored = removed & self._added, added & self._removed
        self._added = self._added - reverted + (added - restored)
        self._removed = self._removed - restored + (removed - reverted)

    @property
    def counts(self) -> tuple[int, int]:
        """The lines added, and those removed."""
        return self._added.total(), self._removed.total()


def _first_line(error: str) -> str:
    """Return the first line of an error, without a final introduction of the lines below ("Differences:")."""
    first = error.splitlines()[0]
    if not first.endswith(":"):
        return first
    sentences, _, last = first.rpartition(". ")
    return f"{sentences}." if sentences else last[:-1]


def _verification(check: str) -> tuple[str, str]:
    """Describe the verification of the work, with a style. check: `verified` of the turn; "" if there was none."""
    if not check:
        return "not verified: no test was run", "ask"
    if check.endswith(" passed"):
        return f"verified: {check.removesuffix(' passed')}", "good"
    return f"not verified: {check}", "bad"
