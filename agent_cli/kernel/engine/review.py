"""Review gates: the user reviews the work after a step of the plan, after changes, or where a workflow demands it.

A gate comes before a call, so that the call stays pending in the history like any other if nobody is there: before
the call that marks a step as done, or before the first call of the round after files were changed. The gates collect
the changes since the last review; the user's comments go to the model.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from agent_cli.kernel.decisions import Decision, Defer, QuestionReply
from agent_cli.kernel.engine.approvals import get_answer, put_question
from agent_cli.kernel.engine.turn import Turn, checkpoint
from agent_cli.kernel.engine.types import GateResult, PreparedCall
from agent_cli.kernel.events import Event, QuestionAsked, Warned
from agent_cli.kernel.messages import ToolCall, pending_calls
from agent_tools.base import Effect, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.record import from_json, to_json
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted, one_line, shorten

_MAX_COMMANDS = 20


# Limits in characters for the diff of one file and of all files; the question is stored with the session.
_MAX_PATCH_CHARS, _MAX_TOTAL_PATCH_CHARS = 12_000, 48_000


class ReviewGates:
    """The gates of one turn, including its sub-agents."""

    def __init__(self, turn: Turn, flow: str, stored: dict[str, Any]) -> None:
        self._review = turn.options.review
        changed: list[Diff] = [from_json(Diff, {"patch": "", **plain}) for plain in stored.get("changed", ())]
        self._changed = {diff.path: diff for diff in changed}
        self._ran: list[str] = list(stored.get("ran", ()))
        self._calls: list[str] = list(stored.get("calls", ()))
        self._asking = str(stored.get("asking", ""))
        self._resumed = bool(pending_calls(turn.history))
        self._name = flow
        make = turn.deps.workflows.get(flow) if flow else None
        self._flow = make(turn, stored.get(flow)) if make else None

    def state(self) -> dict[str, Any]:
        """Return the state to persist while the turn is suspended."""
        flow = {self._name: self._flow.snapshot()} if self._flow else {}
        changed = [to_json(change) for change in self._changed.values()]
        return {"changed": changed, "ran": list(self._ran), "calls": list(self._calls), "asking": self._asking, **flow}

    def decided(self, turn: Turn, tool: str, effects: Sequence[Effect], decision: Decision) -> Decision:
        """Return the decision about a call, stricter if the workflow demands it.

        Raises ToolError if the call must not run yet.
        """
        return self._flow.decided(turn, tool, effects, decision) if self._flow else decision

    def record_result(self, item: PreparedCall, result: ToolResult) -> str:
        """Record what a call did; return a note to append to its result."""
        self._calls.append(item.call.id)
        for file in _diffs(result):
            before = self._changed.get(file.path)
            self._changed[file.path] = file if before is None else _combine(before, file)
        runs = [shorten(e.target, 200) for e in item.effects if e.kind == "run" and not item.tool.nested]
        self._ran = [*self._ran, *runs][-_MAX_COMMANDS:]
        return self._flow.record_result(item, result) if self._flow else ""

    def before_round(self, turn: Turn, calls: Sequence[ToolCall]) -> Generator[Event, None, GateResult]:
        """Ask for a review before the calls of a round, if the workflow demands one or files were changed."""
        resumed, self._resumed = self._resumed, False
        if resumed and calls[0].id != self._asking:
            return GateResult()
        title = self._flow.review() if self._flow else ""
        if not title and not self._files_changed(turn):
            return GateResult()
        reply = yield from self._ask_review(turn, calls[0].id, title, ())
        if isinstance(reply, GateResult):
            return reply
        if title and self._flow:
            self._flow.record_review(approved=reply.verdict == "approve")
        if reply.verdict == "approve":
            return GateResult(note=_approval_note("The user reviewed the changes and approved them.", reply))
        text = f"Not run: the user reviewed the work so far and {reply.text}\nDo that first."
        for number, call in enumerate(calls, 1):
            yield from turn.answer(call, text, is_error=True, last=number == len(calls))
        return GateResult("answered")

    def before_step(self, turn: Turn, item: PreparedCall, *, last: bool) -> Generator[Event, None, GateResult]:
        """Ask for a review before a call that marks steps of the plan as done."""
        steps = finished_by(turn, item) if self._review == "step" else ()
        if not steps:
            return GateResult()
        title = f"{counted(len(steps), 'step')} of the plan {'is' if len(steps) == 1 else 'are'} done."
        reply = yield from self._ask_review(turn, item.call.id, title, steps)
        if isinstance(reply, GateResult):
            return reply
        if reply.verdict == "approve":
            return GateResult(note=_approval_note("The user reviewed this step and approved it.", reply))
        text = (
            f"Not marked as done: the user reviewed this step ({'; '.join(steps)}) and {reply.text}\n"
            "Do that, then mark the step again."
        )
        yield from turn.answer(item.call, text, is_error=True, last=last)
        return GateResult("answered")

    def unfinished(self, turn: Turn, text: str) -> str:
        """Return what the workflow still requires when the model answers with text only; "" for nothing."""
        return self._flow.unfinished(turn, text) if self._flow else ""

    def before_end(self, turn: Turn) -> Generator[Event, None, str | None]:
        """Ask for a final review; return the user's message that continues the turn, or None.

        Raises CancelledError if the user has left.
        """
        if self._flow and (missing := self._flow.missing()):
            yield Warned(f"/{self._name} ends early: {missing}.")
        if not turn.deps.attended or not self._files_changed(turn):
            return None
        # No call can stay pending here, so the question is not recorded; the answer becomes a message.
        asked = QuestionAsked("end", "review", self._data(turn, "", (), end=", and the turn would end here"))
        message = "Work waits for you to look at it"
        yield from checkpoint(turn)
        reply = yield from get_answer(turn, asked, turn.deps.asker, "elicitation_dialog", message)
        if isinstance(reply, Defer):
            # The user left without an answer: interrupt the turn; it can be resumed.
            raise CancelledError
        if reply.verdict == "undo":
            return f"I {(yield from self._revert(turn, reply)).text}"
        self._reset()
        return reply.text if reply.verdict == "revise" else None

    def _files_changed(self, turn: Turn) -> bool:
        """Return True if the setting asks for a review of changes, and there are some, by file tools or by commands."""
        if self._review != "files":
            return False
        return bool(self._changed) or bool(self._ran and turn.deps.watch.diffs(self._calls))

    def _ask_review(
        self, turn: Turn, call_id: str, title: str, steps: Sequence[str]
    ) -> Generator[Event, None, QuestionReply | GateResult]:
        """Show the changes to the user; return their reply, or the gate's result if that ends the turn."""
        self._asking = call_id
        reply = yield from put_question(turn, QuestionAsked(call_id, "review", self._data(turn, title, steps)))
        if isinstance(reply, Defer):
            return GateResult("suspended")
        self._asking = ""
        if reply.verdict == "cancel":
            return GateResult("cancelled")
        if reply.verdict == "undo":
            return (yield from self._revert(turn, reply))
        self._reset()
        return reply if reply.verdict == "approve" else reply.replace(text=f"said: {reply.text}")

    def _revert(self, turn: Turn, reply: QuestionReply) -> Generator[Event, None, QuestionReply]:
        """Undo the changes since the last review; return the reply with a description for the model."""
        outcome = turn.deps.watch.revert(self._calls)
        yield Warned(outcome)
        self._reset()
        text = f" They said: {reply.text}\n" if reply.text else " "
        return reply.replace(text=f"undid the changes. {outcome}{text}Read files again before you change them.")

    def _data(self, turn: Turn, title: str, steps: Sequence[str], end: str = "") -> dict[str, Any]:
        """Return the question's data.

        title: "" for one that names the changed files.
        end: continues that title.
        """
        # Without checkpoints only the changes that file tools reported are known.
        diffs = turn.deps.watch.diffs(self._calls) or tuple(self._changed.values())
        return {
            "title": title or f"{_summarize_changes(diffs)} changed{end}.",
            "steps": list(steps),
            "files": [{"path": d.path, "added": d.added, "removed": d.removed} for d in diffs],
            "diffs": [to_json(d) for d in _limit_diffs(diffs)],
            "commands": list(self._ran),
        }

    def _reset(self) -> None:
        self._changed, self._ran, self._calls = {}, [], []


def _summarize_changes(diffs: Sequence[Diff]) -> str:
    """Return the subject and verb of the title: it must say what changed, as a small window folds the rest."""
    if not diffs:
        return "Files were"
    others = f" and {counted(len(diffs) - 1, 'other file')} were" if len(diffs) > 1 else " was"
    return f"{os.path.basename(one_line(diffs[0].path))}{others}"


def finished_by(turn: Turn, item: PreparedCall) -> tuple[str, ...]:
    """Return the steps that a call would mark as done, found by running it on a copy of the plan."""
    if not item.tool.changes_plan:
        return ()
    context = turn.deps.context
    trial = context.nested()
    trial.plan = context.plan
    try:
        item.tool.run(item.args, trial)
    except ToolError:
        return ()
    before = {step.content for step in context.plan if step.status == "completed"}
    return tuple(step.content for step in trial.plan if step.status == "completed" and step.content not in before)


def _diffs(result: ToolResult) -> tuple[Diff, ...]:
    if result.is_error:
        return ()
    shown = result.display
    return (shown,) if isinstance(shown, Diff) else shown.files if isinstance(shown, Diffs) else ()


def _combine(first: Diff, then: Diff) -> Diff:
    """Combine two consecutive changes to a file."""
    patch = _truncate_patch(f"{first.patch.rstrip(chr(10))}\n{then.patch}", _MAX_PATCH_CHARS)
    return first.replace(patch=patch, added=first.added + then.added, removed=first.removed + then.removed)


def _limit_diffs(diffs: Iterable[Diff]) -> Iterator[Diff]:
    """Yield the diffs, truncated to the limits for one file and for all."""
    left = _MAX_TOTAL_PATCH_CHARS
    for diff in diffs:
        patch = _truncate_patch(diff.patch, min(_MAX_PATCH_CHARS, left))
        left = max(0, left - len(patch))
        yield diff.replace(patch=patch)


def _truncate_patch(patch: str, max_chars: int) -> str:
    """Return the first lines of a diff, with a note if there are more."""
    return patch if len(patch) <= max_chars else patch[:max_chars].rpartition("\n")[0] + "\n\\ (cut here; see /diff)"


def _approval_note(text: str, reply: QuestionReply) -> str:
    return f"\n\n[{text}{f' They said: {reply.text}' if reply.text else ''}]"
