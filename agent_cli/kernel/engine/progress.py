"""The progress of a turn: its budget, repeated calls, the checks that ran, and the open steps of its plan.

The budget covers all parts of a turn: what was used before a suspension is passed in again. A repeated call is skipped
if it would return the same, and the turn ends if repeated calls form a loop. The outcomes of the checks (`checks`),
and what changed after it, decide whether work may be reported as done.
"""

from __future__ import annotations

import json
import re
import stat
from binascii import crc32
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from agent_cli.kernel.engine.types import PreparedCall
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, is_user_message, user_text
from agent_cli.kernel.results import Cap, Check, Limits, Spent, is_checked
from agent_tools.base import ToolContext, ToolResult
from agent_tools.lazy import lazy_imports
from agent_tools.results import CommandOutput, Diff, Note, TodoItem

with lazy_imports():
    from agent_cli.kernel.engine import checks  # parses command lines; only for turns that run commands

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x", "cancelled": "-"}


def open_steps(plan: Sequence[TodoItem]) -> list[TodoItem]:
    return [t for t in plan if t.status in ("pending", "in_progress")]


def unfinished(plan: Sequence[TodoItem]) -> bool:
    """Return True for a plan of two or more steps with open ones."""
    return len(plan) >= 2 and bool(open_steps(plan))


def format_plan(plan: Sequence[TodoItem]) -> str:
    return "\n".join(f"[{_MARKS[t.status]}] {t.label}" for t in plan)


def goal_of(history: Iterable[Message]) -> str:
    """Return the start of the latest turn's request, and the newest message that the user added to it."""
    messages = list(history)
    places = [i for i, message in enumerate(messages) if is_user_message(message)]
    # An answer without calls ends a turn; a message that follows calls was added to the running turn.
    first = next((i for i in reversed(places) if not i or not _calls_before(messages, i)), None)
    if first is None:
        return ""
    goal = user_text(messages[first].text)[:500]
    return goal if first == places[-1] else f"{goal}\nThe user added: {user_text(messages[places[-1]].text)[:250]}"


def _calls_before(messages: Sequence[Message], index: int) -> bool:
    """Return True if the model's last answer before a message makes calls."""
    before = next((m for m in reversed(messages[:index]) if isinstance(m, AssistantMessage)), None)
    return before is not None and bool(before.calls)


_CODE = r"(?s)```.*?(?:```|\Z)|`[^`\n]*`|\w+://\S+"
_QUESTION = r"\w[*_)\"'\u201d\u00bb]*\s?[?\uff1f](?=[*_)\"'\u201d\u00bb]*(?:\s|\Z))"


# A last paragraph after a question.
_CLOSING = r"(?i)\s*(?:many |best |kind )?(?:thank|let me know|please|looking forward|regards|cheers|danke|bitte|merci)"


def is_question(text: str) -> bool:
    """Return True if the answer asks the user something at its end, or right before a list or a thank-you."""
    paragraphs = [p for p in re.split(r"\n\s*\n", re.sub(_CODE, " ", text).strip()) if p.strip()]
    follows = rf"{_CLOSING}|\s*(?:[-*\u2022]|\d+[.)]|[A-Za-z][.)])\s"
    if len(paragraphs) > 1 and re.match(follows, paragraphs[-1]):
        paragraphs[-2:] = ["\n".join(paragraphs[-2:])]
    return bool(paragraphs) and re.search(_QUESTION, paragraphs[-1]) is not None


def reminder(plan: Sequence[TodoItem], goal: str, template: str) -> str:
    """Return the reminder to append to the last result of a round; "" without a request."""
    return "\n\n" + template.format(goal=goal, plan=format_plan(plan)) if goal else ""


# How an answer names what blocks the work, or why it stops: conservative, as a false alarm leaves steps open.
_STOPS = (
    r"(?i)\b(?:I(?: a|['\u2019])m|is|are|remains?|work) (?:\w+ )?(?:blocked|stuck)\b"
    r"|\bblock(?:s|ed)? (?:by|on|me|this|the)\b"
    r"|\b(?:can(?:not|['\u2019]t)|could(?: not|n['\u2019]t)|unable to|not able to|impossible to|not possible to)\b"
    r"[^.!?\n]{0,60}\b(?:continue|proceed|go on|finish|complete|carry out|be (?:done|run|made|finished|completed))\b"
    r"|\bI(?:['\u2019]ve| have| am|['\u2019]m|['\u2019]ll| will)? (?:now )?stop(?:ped|ping)?\b"
    r"|\bstop(?:ped|ping)? here\b"
    r"|\b(?:wait(?:ing)? for|need(?:s|ed)?|requires?|depends? on) (?:\w+ )?"
    r"(?:you|your|the user|approval|permission|access|credentials|a decision)\b|\buntil (?:you|the user)\b"
    r"|\b(?:left|leave|leaving) (?:\w+ ){0,4}(?:open|undone|for (?:you|later|now))\b"
    r"|\bas you (?:asked|said|wanted|requested)\b"
    r"|\bblockiert\b|\bwarte auf\b|\bbloqu|\u65e0\u6cd5\u7ee7\u7eed|\u7b49\u5f85\u60a8"
)


def names_obstacle(text: str) -> bool:
    """Return True if an answer names what blocks the work, or why it stops with open steps."""
    return re.search(_STOPS, re.sub(_CODE, " ", text)) is not None


def _replaces(check: Check, other: Check, *, changed: bool) -> bool:
    """Return True if nothing more needs to be said of an earlier check. changed: files were changed in between.

    As long as nothing was changed, a part that passes says nothing of a whole that failed.
    """
    if other.command == check.command:
        return True
    same = bool({*other.programs} & {*check.programs})
    return same and (changed or other.passed or not check.decided or (check.passed and check.covers(other)))


_MAX_NAMED_CHECKS = 4


class CheckTracker:
    """The checks of a turn, and whether files changed after the latest.

    ran: the latest check of each program, in order. A check that passed before files changed is dropped with the next
        one: it proves nothing of the files as they are.
    """

    def __init__(self, more: Sequence[str], before: Spent) -> None:
        self._more = tuple(more)
        self.ran = [*before.checks, *([before.check] if before.check else [])]
        self.changed_since = before.changed_since
        self.wrote = before.wrote

    @property
    def failed(self) -> list[Check]:
        """The checks that failed and were not run again with another outcome."""
        return [check for check in self.ran if check.failed and check.started]

    @property
    def description(self) -> str:
        """Which commands checked the work, and how each ended; "" for none."""
        passed = [check for check in self.ran if check.passed]
        lines = [f"{', '.join(f'`{check.command}`' for check in passed[-_MAX_NAMED_CHECKS:])} passed"] if passed else []
        lines += map(str, [check for check in self.ran if not check.passed][-_MAX_NAMED_CHECKS:])
        after = f", but files were changed after {'them' if self.ran[1:] else 'it'}" if self.changed_since else ""
        return f"{'; '.join(lines)}{after}" if lines else ""

    def record_result(
        self, item: PreparedCall, result: ToolResult, changed: Sequence[Diff] = ()
    ) -> tuple[ToolResult, Check | None]:
        """Record a call that ran; return its result, with a note if a pipe hides that a check failed, and the check.

        changed: the files that a command has changed.
        """
        check = None
        for effect in item.effects:
            if effect.kind == "write" and not result.is_error:
                self.wrote = True
                self.changed_since = self.changed_since or is_checked(effect.target)
            if effect.kind == "run":
                result, check = self._ran(effect.target, result)
        # What a check writes, such as a report, is its own; but not a change of files that were there.
        if any(is_checked(diff.path) and not (check and diff.created) for diff in changed):
            self.changed_since = True
        if isinstance(result.display, Note) and result.display.ended is not None:
            check = ended = checks.evaluate_check(*result.display.ended, more=self._more)
            # Files changed while it ran count as changed after it.
            if ended:
                started = (not ran.decided and ran.command == ended.command for ran in self.ran)
                self.ran = [ended if same else ran for ran, same in zip(self.ran, started, strict=True)]
        return result, check

    def _ran(self, command: str, result: ToolResult) -> tuple[ToolResult, Check | None]:
        shown = result.display
        if isinstance(shown, Note):
            started = checks.evaluate_check(command, 0, more=self._more)
            started = started and started.replace(decided=False)
            self.record(started)
            return result, started
        if not isinstance(shown, CommandOutput):
            return result, None
        check = checks.evaluate_check(command, shown.exit_code, shown.pipe, self._more)
        self.record(check)
        if check is None or not check.failed or shown.exit_code != 0:
            return result, check
        note = f"{', '.join(check.programs)} in the pipe: exit code {check.exit_code}"
        noted = f"{shown.note}; {note}" if shown.note else note
        display = shown.replace(note=noted, check_failed=True)
        return result.replace(text=f"{result.text}\n[{note}]", display=display), check

    def record(self, check: Check | None) -> None:
        """Record a check that ran. One whose program is missing takes the place of none that failed."""
        if check is None or (self.failed and not check.started):
            return
        kept = self.failed if self.changed_since else [other for other in self.ran if other.started]
        others = [other for other in kept if not _replaces(check, other, changed=self.changed_since)]
        self.ran = [*others, check]
        self.changed_since = False

    def is_check(self, command: str) -> bool:
        """Return True if a command line contains a known runner, or one that the setting `verify` names."""
        return checks.contains_check(command, self._more)

    def decides(self, command: str) -> bool:
        """Return True if the exit code of a command line is that of the checks in it."""
        return checks.decides(command, self._more)


class Budget:
    """What a turn may still spend: rounds, calls, cost, time, failures and refusals.

    siblings: the budgets of turns that run at the same time; this one is added. Each counts what the others spend.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        before: Spent | None = None,
        siblings: list[Budget] | None = None,
    ) -> None:
        spent = before or Spent()
        self._before = spent
        self.siblings = [] if siblings is None else siblings
        self.siblings.append(self)
        self.limits = limits
        self.rounds = spent.rounds
        self.tool_calls = spent.tool_calls
        self.cost = spent.cost
        self.failures = spent.failures
        self._round: set[bool] = set()
        self._denials = dict(spent.denials)
        self._stopped: Cap | None = None
        self._clock = clock
        self._started = clock() - spent.seconds
        self._waited = 0.0
        self._waiting_since: float | None = None

    def reached(self) -> Cap | None:
        """Return the first limit that is reached, or None."""
        limits = self.limits
        if self._stopped:
            return self._stopped
        if limits.rounds and self.all_rounds >= limits.rounds:
            return "rounds"
        if self.out_of_time:
            return "duration"
        if self.calls_left == 0:
            return "tool_calls"
        if limits.cost and self.cost + self._used_by_siblings("cost") >= limits.cost:
            return "cost"
        if limits.failures and self.failures >= limits.failures:
            return "failures"
        if limits.denials and max(self._denials.values(), default=0) >= limits.denials:
            return "denials"
        return None

    def stop(self, cap: Cap) -> None:
        """End the turn at the next round."""
        self._stopped = cap

    def renew(self, cap: Cap) -> None:
        """Restart the count of this limit, because the user wants to continue."""
        if cap == "failures":
            self.failures = 0
        elif cap == "denials":
            self._denials.clear()
        self._stopped = None

    def called(self, *, failed: bool) -> None:
        """Count a call that was answered."""
        self.tool_calls += 1
        self._round.add(failed)

    def end_round(self) -> None:
        """End a round, in which every call has its result; it failed if none of the calls that ran succeeded."""
        if self._round:
            self.failures = 0 if False in self._round else self.failures + 1
        self._round.clear()

    def denied(self, call: ToolCall) -> None:
        """Count a refused call. It is no failure of the model, but repeated refusals of the same call end the turn."""
        self.tool_calls += 1
        key = f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
        self._denials[key] = self._denials.get(key, 0) + 1

    @property
    def calls_left(self) -> int | None:
        used = self.tool_calls + round(self._used_by_siblings("tool_calls"))
        return max(0, self.limits.tool_calls - used) if self.limits.tool_calls else None

    @property
    def seconds(self) -> float:
        """Working time so far, without the time spent waiting for the user."""
        now = self._clock() if self._waiting_since is None else self._waiting_since
        return now - self._started - self._waited

    @property
    def out_of_time(self) -> bool:
        return bool(self.limits.seconds) and self.seconds >= self.limits.seconds

    @property
    def rounds_left(self) -> int | None:
        return max(0, self.limits.rounds - self.all_rounds) if self.limits.rounds else None

    @property
    def all_rounds(self) -> int:
        """Rounds so far, including those of turns that run at the same time."""
        return self.rounds + round(self._used_by_siblings("rounds"))

    def _used_by_siblings(self, what: Literal["rounds", "tool_calls", "cost"]) -> float:
        """Return the amount that the siblings have used since they began."""
        others = [other for other in self.siblings if other is not self]
        return float(sum(getattr(other, what) - getattr(other._before, what) for other in others))

    @property
    def spent(self) -> Spent:
        """The sums that the limits apply to."""
        calls, cost = (
            self.tool_calls + round(self._used_by_siblings("tool_calls")),
            self.cost + self._used_by_siblings("cost"),
        )
        return Spent(self.all_rounds, self.seconds, calls, cost, self.failures, dict(self._denials))

    def adopt(self, spent: Spent, before: Spent) -> None:
        """Add what a nested turn used that this one waited for. before: the sums that it started from, our own."""
        self.add(spent, before)
        self._waited = self._clock() - self._started - spent.seconds

    def add(self, spent: Spent, before: Spent) -> None:
        """Add what a nested turn used that ran at the same time as others. before: the sums that it started from."""
        self.rounds += spent.rounds - before.rounds
        self.tool_calls += spent.tool_calls - before.tool_calls
        self.cost += spent.cost - before.cost

    def exclude(self, seconds: float) -> None:
        """Stop the clock for the next seconds."""
        self._waited += seconds

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock while the user is asked."""
        self._waiting_since = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None


WARN_AFTER, STOP_AFTER = 3, 5
MAX_CYCLE_CALLS = 6


class _AnsweredCall:
    """A call with its result. Results are hashed only if the calls are equal: a long one takes milliseconds."""

    def __init__(self, key: str, result: ToolResult | None = None, essence: str = "") -> None:
        self.key = key
        self._result = result
        self._essence = essence

    @property
    def essence(self) -> str:
        if self._result is not None:
            self._essence, self._result = _hash(_essence(self._result)), None
        return self._essence

    def equals(self, other: _AnsweredCall) -> bool:
        return self.key == other.key and self.essence == other.essence


class Repeats:
    """Calls of one turn, to detect repeats. recent: the latest calls of its earlier parts."""

    def __init__(self, budget: Budget, context: ToolContext, recent: Iterable[str] = ()) -> None:
        self._budget = budget
        self._context = context
        self._read: dict[str, object] = {}
        self._latest: deque[_AnsweredCall] = deque(maxlen=MAX_CYCLE_CALLS * STOP_AFTER)
        self._runs = [0] * (MAX_CYCLE_CALLS + 1)
        self._warned_in: int | None = None
        self._round = 0
        for entry in recent:
            key, _, essence = entry.partition(":")
            self._add(_AnsweredCall(key, essence=essence))

    @property
    def recent(self) -> tuple[str, ...]:
        """The latest calls with their results, stored when the turn is suspended."""
        return tuple(f"{entry.key}:{entry.essence}" for entry in self._latest)

    def unchanged(self, item: PreparedCall) -> bool:
        """Return True if the result of an identical call before cannot have changed."""
        before = self._read.get(_key(item.call, item.tool.name))
        return before is not None and self.signature(item) == before

    def forget(self) -> None:
        """Forget earlier results, which are no longer shown to the model."""
        self._read.clear()

    def signature(self, item: PreparedCall) -> object:
        """Return what the call's result depends on; None if unknown (folders, commands, the network)."""
        if not item.harmless:
            return None
        parts: list[object] = []
        for effect in item.effects:
            if effect.kind == "state":
                parts.append(self._context.plan)
                continue
            try:
                found = Path(effect.target).stat()
            except OSError:
                return None
            if not stat.S_ISREG(found.st_mode):
                return None
            parts.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return parts or None

    def record_result(self, item: PreparedCall, result: ToolResult, before: object) -> str:
        """Record a call that ran, with its signature `before`; return a warning for the model, or ""."""
        key = _key(item.call, item.tool.name)
        after = self.signature(item)
        if before is not None and not result.is_error and after is not None and item.effects[0].kind == "read":
            self._read[key] = after
        return self.answered(key, result)

    def record_unrun(self, call: ToolCall, text: str) -> str:
        """Record a call that was answered with `text` without running; return a warning for the model, or ""."""
        return self.answered(_key(call, call.name), ToolResult(text))

    def answered(self, key: str, result: ToolResult) -> str:
        """Record the result of the call `key`; return a warning for the model if that closes a loop, else ""."""
        entry = _AnsweredCall(_hash(key), result)
        # The same call several times in one answer counts as one attempt.
        if not (self._round == self._budget.rounds and self._latest and entry.equals(self._latest[-1])):
            self._add(entry)
        self._round = self._budget.rounds
        cycle = next((n for n in range(1, MAX_CYCLE_CALLS + 1) if self._times(n) >= WARN_AFTER), 0)
        if not cycle:
            self._warned_in = None
            return ""
        if self._warned_in is None:
            self._warned_in = self._budget.rounds
            what = "This call" if cycle == 1 else f"This cycle of {cycle} calls"
            return (
                f"\n\n[{what} gave the same result {self._times(cycle)} times in a row. Repeating it will not help: "
                "change something, try another way, or say what blocks you.]"
            )
        # Several calls of one answer were made before the model could read the warning.
        if self._times(cycle) >= STOP_AFTER and self._budget.rounds > self._warned_in:
            self._budget.stop("repetition")
        return ""

    def renew(self) -> None:
        """Restart the count, because the user wants to continue."""
        self._latest.clear()
        self._runs = [0] * (MAX_CYCLE_CALLS + 1)
        self._warned_in = None

    def _add(self, entry: _AnsweredCall) -> None:
        """Add a call; for each cycle length, count how many of the latest calls equal the one a cycle earlier."""
        for cycle in range(1, MAX_CYCLE_CALLS + 1):
            same = len(self._latest) >= cycle and entry.equals(self._latest[-cycle])
            self._runs[cycle] = self._runs[cycle] + 1 if same else 0
        self._latest.append(entry)

    def _times(self, cycle: int) -> int:
        """Return how many times in a row the latest calls went through a cycle of this length."""
        return self._runs[cycle] // cycle + 1


def _key(call: ToolCall, tool: str) -> str:
    return f"{tool} {json.dumps(call.arguments, sort_keys=True)}{call.broken}"


def _hash(value: Any) -> str:
    """Return a short digest; only the few latest calls are ever compared by it."""
    data = repr(value).encode("utf-8", "surrogatepass")
    return f"{crc32(data):08x}{len(data):x}"


def _essence(result: ToolResult) -> Any:
    """Return the result without parts that differ from run to run: durations, addresses, names of output files."""
    if isinstance(result.display, CommandOutput):
        text = f"{result.display.exit_code} {result.display.output}"
    else:
        text = result.text
    return re.sub(r"0x[0-9a-f]{6,}|/output-\d+\.txt|\d+(?:\.\d+)? ?m?s\b", "", text), result.media
