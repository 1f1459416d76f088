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

from agent_cli import (
    ApprovalQuestion,
    ApprovalRequested,
    ApprovalResolved,
    CallView,
    Event,
    Failure,
    LiveSession,
    TextDelta,
    ToolFinished,
    TurnFinished,
    ViewChange,
)
from agent_cli.kernel.events import EDITED
from agent_cli.kernel.result_words import short_result
from agent_cli.kernel.session.view_entries import PlanNow
from agent_cli.shells.terminal.render.call_output import BANG_ROWS, FAILED_ROWS, RECORD_KEY, RESULT_ROWS
from agent_cli.shells.terminal.render.code import PLAN_MARKS, display_lines
from agent_cli.shells.terminal.render.console import MARGIN, styled
from agent_cli.shells.terminal.render.writer import Outcome, Writer, call_title, has_counts
from agent_tools.lazy import lazy_imports
from agent_tools.registry import tool_traits
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


def failure_advice(failure: Failure) -> str:
    """Return one sentence of advice about a failure; "" if there is none."""
    if failure.kind == "bad_request" and _UNKNOWN_MODEL.search(failure.message):
        return "agent models lists what there is; /model NAME changes it here."
    if failure.kind in ("auth", "rate_limit", "bad_request") and _NO_CREDIT.search(failure.message):
        return "Add credit with the provider, or switch to another model: /model NAME."
    return _ADVICE_BY_KIND.get(failure.kind, "")


class EventRenderer:
    """Listener that writes each event, append-only.

    view: the session.
    questions_stay: questions stay on the screen, so approved calls and changes are not written again.
    writer: puts lines on the screen; by default directly on the console.
    plan: returns the current plan if a panel shows it; the transcript then has each step once, when it is done.
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
        self._plan = plan
        self._steps: tuple[TodoItem, ...] = ()
        self._told_of_paused = False
        # What hooks said about a call whose line is still open, each with its style.
        self._notes_of_call: list[tuple[str, str]] = []
        self._explained_compaction = False
        self._verbose = verbose
        self.view = LiveSession()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):  # there are many, and nothing here depends on what the view makes of them
            self._out.answer(event.text)
        else:
            self._draw(self.view.follow(event))

    def _draw(self, change: ViewChange) -> None:
        """Write what an event changed. Pieces of an answer are many, so they come first."""
        if change.kind == "text" and change.view is self.view:
            self._out.answer(change.event.text)
            return
        if (task := change.task) is not None:
            self._nested(self._subagent_label(task), task, change)
            return
        if change.call is not None:
            self._draw_call(change, change.call)
            return
        event = change.event
        match change.kind:
            case "thinking":
                self._out.think(event.text)
            case "restarted":
                self._out.discard("  (the answer broke off here; asking again)")
            case "message" if not event.message.continues_answer:
                text = event.message.text
                # What the model says to a message is another answer.
                self._out.settle()
                for line in text.split("\n") if text.startswith("[diagnostics: ") else ():
                    self._say(f"  {line}", "warn")
            case "plan" if self._plan is not None:
                self._draw_plan(event.items, paused=event.paused)
            case "continued":
                self._say("  (the plan has open steps; continuing)", "dim")
            case "compacting" | "compacted" | "uncompacted" | "pinned":
                self._compaction(change)
            case "hook" if hook_events.should_display(event) or self._verbose:
                style = "dim" if event.outcome == "success" else "warn"
                if self.view.running and hook_events.is_after_call(event):
                    self._notes_of_call.append((change.note, style))
                else:
                    self._out.settle()
                    self._say(f"  {change.note}", style)
            case "warning":
                self._say(f"warning: {change.note}", "warn")
            case "notice":
                text = change.note
                self._say(f"  ({text[0].lower()}{text[1:].rstrip('.')})", "dim")
            case "ended":
                self._write_notes()
                self._end(event)

    def _draw_call(self, change: ViewChange, call: CallView) -> None:
        match change.kind:
            case "requested" | "asked":
                self._out.settle()
            case "started":
                self._begin(call)
            case "output" if not self._folded:
                self._out.output(call.call_id, change.event.text)
            case "decided":
                self._decided(call)
            case "finished":
                self._finished(call, change.event)
                self._write_notes()

    def _write_notes(self) -> None:
        """Write what hooks said about a call, below it."""
        notes, self._notes_of_call = self._notes_of_call, []
        for note, style in notes:
            self._out.settle()
            self._say(f"  {note}", style)

    def _decided(self, call: CallView) -> None:
        """Write a refusal, and the answers of the user in an earlier turn."""
        if call.decision == "answer" and self._folded:
            for line in call.reason.splitlines():
                self._say(f"? {line.replace(' -> ', ' → ')}")
        if call.decision != "reject" or _was_edited(call) or (call.by == "person" and self.questions_stay):
            return
        reason = f": {call.reason}" if call.reason else ""
        self._out.begin(call.call_id, _title(call) if _is_known(call) else "")
        self._out.end(call.call_id, f"denied{reason if call.by == 'person' else f': it {call.reason}'}", "denied")

    def _has_line(self, call: CallView) -> bool:
        """Return True if a call has a line of its own, or will have one: it is known, and not refused."""
        # A plan that is revised fails with the user's own words, which are already shown.
        refused = call.decision == "reject" and not _was_edited(call)
        return _is_known(call) and not refused and (self._folded or call.decision not in ("revise", "cancel"))

    def _subagent_label(self, task: CallView) -> str:
        """Return the label of a sub-agent's lines: its name, with its task if several run at the same time."""
        agent = task.nested.agent if task.nested is not None else ""
        if len(self.view.running) < 2:
            return agent
        return shorten((_title(task) if _is_known(task) else agent).removeprefix("Sub-agent "), _MAX_NAME_CHARS)

    def _nested(self, agent: str, task: CallView, change: ViewChange) -> None:
        """Write the calls and warnings of a sub-agent, one line each. task: its call."""
        call = change.call
        match change.kind:
            case "requested" if call is not None:
                self._say(f"  [{agent}] {call.summary}", "dim")
            case "decided" if call is not None and call.decision == "reject":
                if call.by != "person":
                    self._say(f"  [{agent}] denied: it {call.reason}", "bad")
                elif not self.questions_stay and not _was_edited(call):
                    what = f"{call.summary} " if call.requested else ""
                    self._say(f"  [{agent}] {what}✗ denied{f': {call.reason}' if call.reason else ''}", "bad")
            case "warning":
                self._say(f"  [{agent}] warning: {change.note}", "warn")
            case "asked":
                self._out.settle()
            case "compacted":
                self._say(f"  [{agent}] {change.note}", "dim")
            case "hook" if hook_events.should_display(change.event):
                self._say(f"  [{agent}] {change.note}", "warn")

    def _compaction(self, change: ViewChange) -> None:
        self._out.settle()
        self._say(f"  {change.note}{' ...' * (change.kind == 'compacting')}", "dim")
        if change.kind == "compacted" and not self._explained_compaction:
            self._explained_compaction = True
            self._say("  (/context shows what fills the window, /uncompact undoes it)", "dim")

    def _begin(self, call: CallView) -> None:
        if not self._is_plan(call):
            self._out.begin(call.call_id, _title(call), tool_traits(call.tool).explores)

    def _is_plan(self, call: CallView) -> bool:
        """Return True if a call only changes the plan, which has rows of its own."""
        return self._plan is not None and tool_traits(call.tool).changes_plan

    def _draw_plan(self, items: tuple[TodoItem, ...], *, paused: bool) -> None:
        """Write a plan once, and later the steps that are done; of an earlier plan, that there is one."""
        before, self._steps = {item.content: item.status for item in self._steps}, items
        done = [item for item in items if item.status in ("completed", "cancelled")]
        if paused:
            if not self._told_of_paused:
                self._say(f"  an earlier plan is paused, {len(done)} of {len(items)} done (/todos shows it)", "dim")
            self._told_of_paused = True
            return
        if set(before) != {item.content for item in items}:
            self._out.step(Text("≡ ").append_text(call_title(f"Plan of {counted(len(items), 'step')}")))
            self._out.change(list(display_lines(TodoView(items))))
            return
        changed = [item for item in done if item.status != before[item.content]]
        for number, item in enumerate(changed, len(done) - len(changed) + 1):
            mark = styled(f"{PLAN_MARKS[item.status]} ", "good" if item.status == "completed" else "dim")
            line = Text().append_text(mark).append_text(styled(item.content))
            self._out.step(line.append_text(styled(f" · {number} of {len(items)}", "dim")))

    def _say(self, text: str, style: str = "") -> None:
        self._out.say(text, style)

    def _finished(self, call: CallView, event: ToolFinished) -> None:
        """Write the result of a call: in a few words on its line if it is the last one, the rest below."""
        key, display = call.call_id, event.display
        error = call.result.text if call.result is not None and call.result.is_error else ""
        failed = event.is_error or (isinstance(display, CommandOutput) and display.failed)
        most = BANG_ROWS if key == BANG_CALL_ID else FAILED_ROWS if failed else RESULT_ROWS
        rows = self._out.end_output(key, most)
        if isinstance(display, Diff | Diffs):
            # What formatters and checkers said of a change.
            rows = [styled(row.plain, "warn") for row in rows]
        if self._is_plan(call):
            if not error:
                return
            display = None
        # A change that the user has just approved is not shown again, unless the result differs from it.
        approved = call.question.preview if isinstance(call.question, ApprovalRequested) else None
        named = self._has_line(call)
        found = short_result(display, words=self._out.words)
        brief = self._annotate_result(call, found or (_line_counts(display, _title(call)) if named else ""))
        if display is None and error and named:
            brief = _first_line(error)
        if named and not call.started and brief:
            self._begin(call)
        if brief and event.is_error and self._out.words:
            brief = f"failed: {brief}"
        slip = event.is_error and display is None and not self._out.words
        self._out.end(key, brief, "slip" if slip else "failed" if failed else "done")
        self._out.release(key)
        if display is not None and not short_result(display) and display != approved and not self._folded:
            drawn = list(self._rows_of(display))
            if isinstance(display, Diff | Diffs):
                self._out.change(drawn)
            else:
                rows += [line[2:] if rows else line for line in drawn]
        if rows:
            self._out.rows(rows)

    def _annotate_result(self, call: CallView, brief: str) -> str:
        """Return the short result of a call, with what the user decided about it, unless the question shows that."""
        verdict = call.answer
        if self.questions_stay or not isinstance(verdict, ApprovalResolved):
            return brief
        words = (
            ApprovalQuestion.besides(verdict, _title(call))
            if (verdict.decision, verdict.by) == ("approve", "person")
            else ""
        )
        return " · ".join(filter(None, (brief, words)))

    def _rows_of(self, display: Display) -> Iterator[Text]:
        if self._out.words:
            return display_lines(display, words=True)
        return display_lines(display, width=self._out.console.width - len(MARGIN), heading=False)

    def _end(self, event: TurnFinished) -> None:
        self._out.release_all()
        if event.degraded and event.failure is not None:
            # The calls before it are on the screen.
            self._say(event.text.partition("\n\nBefore that:")[0], "bad")
            resume = "Nothing is lost: write continue to resume the work."
            self._say(" ".join(filter(None, (failure_advice(event.failure), resume))), "dim")
        elif event.degraded or event.result == "MaxIterations":
            # A summary written by the model is already shown.
            if event.text != self.view.answer:
                self._say(event.text, "warn")
            if not event.degraded:
                self._say(limit_message(event.diagnostics.terminal_reason), "warn")
        elif event.diagnostics.terminal_reason == "interrupted":
            unrun = [c for c in self.view.own_calls() if self._has_line(c) and not c.started and c.finished is None]
            for call in unrun[:1]:
                title = _title(call) if len(unrun) == 1 else f"{len(unrun)} calls"
                self._out.begin(call.call_id, title)
                self._out.end(call.call_id, "not run", "skipped")
            # After the ^C that the terminal printed.
            self._say("")
        elif event.failure is not None:
            self._say(event.failure.message, "bad")
            if hint := failure_advice(event.failure):
                self._say(hint, "dim")
        if event.result == "Complete" and event.plan_unfinished and self._plan is None:
            self._say("the plan has open steps: /todos shows it", "warn")
        self._record(event)
        self._out.close(*self._summarize_turn(event))

    def _record(self, event: TurnFinished) -> None:
        """Say how much of the plan is done and checked, if the turn had to do with it."""
        number, work = self.view.turn_number, self.view.work
        if event.result == "Suspended" or not any(isinstance(w, PlanNow) and w.turn == number for w in work):
            return
        found = self.view.completion()
        if found.has_evidence:
            self._say(f"{found.summary} · {'/record' if self._plan is None else RECORD_KEY}", "dim")

    def _summarize_turn(self, event: TurnFinished) -> tuple[Outcome, list[tuple[str, str]]]:
        """Return the outcome of the turn, and its facts with styles: time, tokens, cost, changes, verification."""
        reason = event.diagnostics.terminal_reason
        complete = event.result == "Complete" and not event.degraded
        used = event.earlier + event.usage
        facts = [
            "interrupted: say what to do instead, or continue" if reason == "interrupted" else "",
            short_duration(event.diagnostics.duration_ms / 1000),
            tokens_used(used.input, used.output),
            f"{'~' if used.estimated else ''}{dollars(used.cost)}" if used.reliable and used.cost else "",
            self._changes(event),
        ]
        styled_facts = [(fact, "dim") for fact in facts if fact]
        if event.result == "Complete" and (event.verified or event.changed_files):
            styled_facts.append(_verification(event.verified))
        return "done" if complete else "failed", styled_facts

    def _changes(self, event: TurnFinished) -> str:
        """Describe what the turn changed."""
        turn, files = self.view.turn, dict[str, ChangedLines]()
        for diff in (diff for call in (turn.calls if turn is not None else ()) for diff in call.diffs):
            files.setdefault(diff.path, ChangedLines()).add(diff)
        if not files:
            return "changed files" if event.changed_files else ""
        added, removed = (sum(counts) for counts in zip(*(c.counts for c in files.values()), strict=True))
        return f"changed {counted(len(files), 'file')} (+{added} -{removed})"


def _title(call: CallView) -> str:
    """Return the summary of a call. The user may have changed the call in its question."""
    return call.question.summary if isinstance(call.question, ApprovalRequested) else call.summary


def _is_known(call: CallView) -> bool:
    return call.requested or isinstance(call.question, ApprovalRequested)


def _was_edited(call: CallView) -> bool:
    """Return True if the user changed the call: it is requested again; in a resumed session that is not shown."""
    return call.decision == "reject" and call.by == "person" and call.reason == EDITED


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


def _line_counts(display: Display | None, title: str) -> str:
    """Return how many lines a change of files added and removed; "" if its title says so, or all files are new."""
    diffs = display.files if isinstance(display, Diffs) else (display,) if isinstance(display, Diff) else ()
    if has_counts(title) or all(diff.created for diff in diffs):
        return ""
    return f"+{sum(diff.added for diff in diffs)} -{sum(diff.removed for diff in diffs)}"


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
        return "not verified: no test was run", "warn"
    if check.endswith(" passed"):
        return f"verified: {check.removesuffix(' passed')}", "good"
    return f"not verified: {check}", "bad"
