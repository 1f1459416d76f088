"""The completion record: the steps of the plans of a session, each with its evidence, as the log has it.

The model says which step it works on and which are done. Everything else is what the program saw: the files that calls
changed while a step was in progress, the commands that ran after the last of these changes, with their exit codes, and
what was changed after them. A command is evidence if it is a check of the work (`Check`: a test run, a build, a linter,
or what the setting `verify` names) and its exit code decides. Other commands are listed and prove nothing.

What is done while no step is in progress belongs to the step that is marked as done next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from agent_cli.kernel.results import Check, is_checked
from agent_cli.kernel.session.view_entries import PlanNow, SessionEntries, WorkDone
from agent_tools.record import Value
from agent_tools.results import TodoItem
from agent_tools.text import counted, one_line, short_duration, shorten

StepStatus = Literal["pending", "in_progress", "completed", "cancelled", "dropped"]
# passed: a check passed after the last change. stale: one passed, and files were changed after it. unproven: exit codes
# do not show the outcome. unchecked: files were changed, and no check ran after it. none: no file was changed.
Verdict = Literal["passed", "stale", "failed", "unproven", "unchecked", "none"]
_MAX_OTHER_COMMANDS = 3
_MAX_NAMED_FILES = 3
STEP_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]", "dropped": "[-]"}
VERDICTS: dict[Verdict, str] = {
    "passed": "passed after the last change", "stale": "passed, but files were changed after it",
    "failed": "a check failed", "unproven": "a check ran, and its exit code does not show the outcome",
    "unchecked": "changed and not checked", "none": "",
}  # fmt: skip

Tone = Literal["", "dim", "good", "warn", "bad"]
_TONES: dict[Verdict, Tone] = {
    "passed": "good", "stale": "warn", "failed": "bad", "unproven": "warn", "unchecked": "warn", "none": "",
}  # fmt: skip


class ChangedFile(Value):
    """A file that was changed. added, removed: lines, summed over its changes."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False


class Evidence(Value):
    """A command that ran.

    check: it checks the work; else it proves nothing.
    outcome: of a check.
    code: the exit code; None if it was killed.
    after, by: the file that was changed last before it, and the call that did that.
    stale: a file that was changed after it; "" for none.
    """

    command: str
    check: bool
    outcome: Literal["passed", "failed", "unproven", ""]
    code: int | None
    seconds: float
    turn: int
    time: str
    after: str = ""
    by: str = ""
    stale: str = ""


class RecordedStep(Value):
    """A step of a plan, with what was done for it. dropped: it was taken out of the plan before it was done."""

    text: str
    status: StepStatus
    verdict: Verdict
    files: tuple[ChangedFile, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    turns: tuple[int, ...] = ()


class PlanRecord(Value):
    """A plan. turn: in which it was made. approved: who approved it; "" for a todo list."""

    turn: int
    approved: str
    steps: tuple[RecordedStep, ...]


class CompletionRecord(Value):
    """What was planned and done in a session.

    plans: in order; the last one is current.
    outside: what was done for no step, if anything.
    files: all changed files.
    unchecked: those that were changed after the last check that passed, or without one.
    """

    plans: tuple[PlanRecord, ...] = ()
    outside: RecordedStep | None = None
    files: tuple[ChangedFile, ...] = ()
    unchecked: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: SessionEntries, root: str = "") -> CompletionRecord:
        """Return the record of a session. root: the project's folder, if its header is not in the view."""
        made = _Builder(view.work, root or (view.header.root if view.header is not None else ""))
        plans = tuple(
            PlanRecord(
                plan.turn, plan.approved, tuple(made.step(s.item.content, s.status, s.places) for s in plan.steps)
            )
            for plan in made.plans
        )  # fmt: skip
        outside = made.step("", "completed", made.outside) if made.outside else None
        return cls(
            plans, outside if outside and (outside.files or outside.evidence) else None,
            made.files(range(len(made.done))), made.unchecked,
        )  # fmt: skip

    @property
    def has_evidence(self) -> bool:
        """True if a step of the current plan is done, and there is something to say of how it was checked."""
        done = [step for plan in self.plans[-1:] for step in plan.steps if step.status == "completed"]
        return bool(done) and (bool(self.unchecked) or any(step.verdict != "none" for step in done))

    @property
    def summary(self) -> str:
        """The record in a line; "" for a session without a plan and without changes."""
        parts = []
        if self.plans:
            steps = self.plans[-1].steps
            done = [step for step in steps if step.status == "completed"]
            parts.append(f"{len(done)} of {counted(len(steps), 'step')}")
            kinds = {"passed": "with a passing check after the last change", "failed": "with a failing check",
                     "stale": "with an outdated check"}  # fmt: skip
            found = [step.verdict for step in done]
            parts += [f"{found.count(kind)} {words}" for kind, words in kinds.items() if kind in found]
        elif self.files:
            parts.append(f"{counted(len(self.files), 'file')} changed")
        if self.unchecked:
            parts.append(f"not checked after the last change: {_named(self.unchecked)}")
        return ", ".join(parts)

    def lines(self) -> Iterator[tuple[str, Tone]]:
        """Yield it as lines of plain text, which may have characters to escape, each with its tone."""
        yield self.summary or "Nothing was planned or changed.", ""
        for plan in self.plans:
            yield "", ""
            yield f"Plan of turn {plan.turn}{f', approved by {plan.approved}' if plan.approved else ''}", ""
            for number, step in enumerate(plan.steps, 1):
                dropped = " (taken out of the plan)" if step.status == "dropped" else ""
                yield f"{STEP_MARKS[step.status]} {number}. {one_line(step.text)}{dropped}", _TONES[step.verdict]
                yield from step_lines(step)
        if self.outside is not None:
            yield "", ""
            yield "For no step" if self.plans else "Without a plan", _TONES[self.outside.verdict]
            yield from step_lines(self.outside)

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "summary": self.summary,
            "plans": [{**_plain(plan), "steps": [_step_json(step) for step in plan.steps]} for plan in self.plans],
            "outside": _step_json(self.outside) if self.outside is not None else None,
            "files": [_plain(file) for file in self.files],
            "unchecked": list(self.unchecked),
        }


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _MAX_NAMED_FILES
    return ", ".join([*map(one_line, paths[:_MAX_NAMED_FILES]), *([f"{more} more"] if more > 0 else [])])


class _Step:
    """A step while the record is made. places: of its work. status: the latest; done: it was completed once."""

    def __init__(self, item: TodoItem) -> None:
        self.item = item
        self.status: StepStatus = item.status
        self.began = False
        self.places: list[int] = []


class _Plan:
    def __init__(self, now: PlanNow) -> None:
        self.turn, self.approved = now.turn, now.approved
        self.steps: list[_Step] = []
        self.current: dict[str, _Step] = {}


class _Builder:
    """Reads what was done and planned, in order."""

    def __init__(self, work: Sequence[WorkDone | PlanNow], root: str) -> None:
        self._root = Path(root) if root else None
        self.plans: list[_Plan] = []
        self.done: list[WorkDone] = []
        self.outside: list[int] = []
        # Places of work while no step was in progress.
        self._held: list[int] = []
        for each in work:
            if isinstance(each, PlanNow):
                self._plan(each)
            else:
                self._work(each)
        self.outside += self._held
        # The place at which each piece of work counts: a command in the background, when it was started.
        self._at = list(range(len(self.done)))
        for place, piece in enumerate(self.done):
            if piece.ended and piece.check is not None:
                began = (p for p in range(place) if _is_same(self.done[p], piece))
                self._at[place] = next(iter(sorted(began, reverse=True)), place)
        self._checks = [place for place, piece in enumerate(self.done) if piece.check is not None]
        self._known: dict[tuple[str, str], bool] = {}
        self._changes: list[tuple[int, str]] = [
            (place, diff.path)
            for place, piece in enumerate(self.done)
            for diff in piece.files
            # What a check writes, such as a report, is its own; but not a change of files that were there.
            if is_checked(diff.path) and not (piece.check and diff.created)
        ]

    def _plan(self, now: PlanNow) -> None:
        plan = self.plans[-1] if self.plans else None
        known = plan.current if plan is not None else {}
        by_id = {step.item.id: step for step in known.values() if step.item.id}
        names = {item.content for item in now.items}
        found: dict[str, _Step] = {}
        for item in now.items:
            step = known.get(item.content)
            if step is None and (other := by_id.get(item.id)) is not None and other.item.content not in names:
                step = other  # it was worded anew
            found[item.content] = step or _Step(item)
        if now.items and (plan is None or now.approved or not {*found.values()} & {*known.values()}):
            plan = _Plan(now)
            self.plans.append(plan)
            found = {item.content: _Step(item) for item in now.items}
        if plan is None:
            return
        for step in known.values() if plan.current else ():
            if step not in found.values() and step.status not in ("completed", "cancelled"):
                step.status = "dropped"
        newly = []
        for item in now.items:
            step = found[item.content]
            if item.status == "completed" and step.status != "completed" and not step.began:
                newly.append(step)
            step.began = step.began or item.status == "in_progress"
            step.item, step.status = item, item.status
            if step not in plan.steps:
                plan.steps.append(step)
                newly += [step] if item.status == "completed" else []
        for step in newly:
            step.places += self._held
        if newly:
            self._held = []
        plan.current = found

    def _work(self, piece: WorkDone) -> None:
        place = len(self.done)
        self.done.append(piece)
        plan = self.plans[-1] if self.plans else None
        now = [step for step in (plan.current.values() if plan else ()) if step.status == "in_progress"]
        (now[0].places if now else self._held if plan else self.outside).append(place)

    def path(self, name: str) -> str:
        """Return the path of a file from the project's folder, as far as it is inside."""
        if self._root is not None and Path(name).is_relative_to(self._root):
            return str(Path(name).relative_to(self._root))
        return name

    def files(self, places: Iterable[int]) -> tuple[ChangedFile, ...]:
        found: dict[str, ChangedFile] = {}
        for diff in (diff for place in places for diff in self.done[place].files):
            path = self.path(diff.path)
            before = found.get(path, ChangedFile(path, created=diff.created))
            lines = (before.added + diff.added, before.removed + diff.removed)
            found[path] = ChangedFile(path, *lines, created=before.created, deleted=diff.deleted)
        return tuple(found.values())

    def step(self, text: str, status: StepStatus, places: Sequence[int]) -> RecordedStep:
        """Return a step with its evidence: the checks after its last change, or else those of later steps."""
        mine = {*places}
        changed = [place for place, _ in self._changes if place in mine]
        last = changed[-1] if changed else -1
        checks = [place for place in self._checks if self._at[place] >= last]
        if own := [place for place in checks if place in mine]:
            # Of later checks those that run the same again, or more.
            names = dict.fromkeys(self._check(place) for place in own)
            checks = [p for p in checks if p in mine or (p > own[0] and any(self._covers(p, name) for name in names))]
        elif not changed:
            checks = []
        latest = {self._check(place).command: place for place in checks}.values()
        shown = [p for p in latest if not any(o > p and self._covers(o, self._check(p), passed=True) for o in latest)]
        found = [self._evidence(place) for place in sorted(shown)]
        other = [p for p in places if p > last and self.done[p].command and self.done[p].check is None]
        evidence = (*found, *(self._evidence(place) for place in other[-_MAX_OTHER_COMMANDS:]))
        turns = tuple(dict.fromkeys(self.done[place].turn for place in places))
        return RecordedStep(text, status, _verdict(found, bool(changed)), self.files(places), evidence, turns)

    def _check(self, place: int) -> Check:
        check = self.done[place].check
        assert check is not None
        return check

    def _covers(self, place: int, other: Check, *, passed: bool = False) -> bool:
        """Return True if a check runs another one again, or more than that. passed: and it passed."""
        check = self._check(place)
        if passed and not check.passed:
            return False
        pair = check.command, other.command
        if pair not in self._known:
            self._known[pair] = check.covers(other)
        return self._known[pair]

    def _evidence(self, place: int) -> Evidence:
        piece, at = self.done[place], self._at[place]
        check = piece.check
        outcome: Literal["passed", "failed", "unproven", ""] = ""
        if check is not None:
            outcome = "passed" if check.passed else "failed" if check.failed and check.started else "unproven"
        index = bisect_left(self._changes, (at,))
        before = self._changes[index - 1] if index else None
        after, by = (self.path(before[1]), self.done[before[0]].summary) if before else ("", "")
        stale = self.path(self._changes[index][1]) if check is not None and index < len(self._changes) else ""
        code = check.exit_code if check is not None else piece.code
        return Evidence(
            check.command if check is not None else shorten(one_line(piece.command), 120),
            check is not None, outcome, code, piece.seconds, piece.turn, piece.time, after, by, stale,
        )  # fmt: skip

    @property
    def unchecked(self) -> tuple[str, ...]:
        last = max((self._at[place] for place in self._checks if self._check(place).passed), default=-1)
        return tuple(dict.fromkeys(self.path(path) for place, path in self._changes if place >= last))


def _is_same(started: WorkDone, ended: WorkDone) -> bool:
    """Return True if a command in the background is the one that has ended."""
    a, b = started.check, ended.check
    return a is not None and b is not None and not a.decided and a.command == b.command


def _verdict(evidence: Sequence[Evidence], changed: bool) -> Verdict:
    if any(each.outcome == "failed" for each in evidence):
        return "failed"
    if passed := [each for each in evidence if each.outcome == "passed"]:
        return "passed" if any(not each.stale for each in passed) else "stale"
    return "unproven" if evidence else "unchecked" if changed else "none"


def step_lines(step: RecordedStep) -> Iterator[tuple[str, Tone]]:
    """Yield what was done for a step, and its evidence, as lines."""
    if step.files:
        files = (f"{one_line(file.path)} (+{file.added} -{file.removed})" for file in step.files)
        yield f"    changed {', '.join(files)}", "dim"
    for found in step.evidence:
        yield f"    {evidence_line(found)}", "dim"
    if step.verdict == "unchecked":
        yield "    not checked: no test, build or linter ran after the last change", "warn"


def evidence_line(found: Evidence) -> str:
    """Describe a command: how it ended, and what was changed before and after it."""
    code = "killed" if found.code is None else f"exit {found.code}"
    how = {"passed": code, "failed": f"{code}, failed", "unproven": f"{code}, which does not show the outcome"}
    took = f", {short_duration(found.seconds)}" if found.seconds >= 1 else ""
    by = f" ({shorten(found.by, 60)})" if found.by else ""
    after = f", after {one_line(found.after)}{by}" if found.check and found.after else ""
    stale = f"; {one_line(found.stale)} was changed after it" if found.stale else ""
    kind = "check" if found.check else "ran"
    return f"{kind}: {one_line(found.command)}: {how.get(found.outcome, code)}{took}{after}{stale}"


def _step_json(step: RecordedStep) -> dict[str, Any]:
    listed = {"files": [*map(_plain, step.files)], "evidence": [*map(_plain, step.evidence)]}
    return {**_plain(step), **listed, "turns": list(step.turns), "verdict_text": VERDICTS[step.verdict]}


def _plain(value: Value) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value._fields}
