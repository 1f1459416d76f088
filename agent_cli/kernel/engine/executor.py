"""From calls to results: check, permit, run, finish; exactly one result per call, whatever happens.

The calls of a round have their results in order. Those before the first that needs approval run at once. A user who
watches decides about one call after the other, and each begins when it is allowed. The next question comes when the
calls that it may depend on have ended (`independent_calls`); calls that only read run beside it. Other front ends show
all questions together, and the calls run, in order, when the last is decided. What changed since it was shown needs
approval again. If nobody can decide now, the turn is suspended and the open calls stay pending in the history. An
unknown or malformed call becomes an error result that explains how to call the tool; a rejected one carries the reason
given.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from agent_cli.kernel.decisions import Answer, Approve, Decision, Defer, EditedCall, Level, Reject, approval_record
from agent_cli.kernel.engine.approvals import CANCELLED, ApprovalRound, ShownCalls, ask_user
from agent_cli.kernel.engine.execute import (
    execute_call,
    fail_call,
    independent_calls,
    is_parallel_safe,
    only_reads,
    refuse,
    skip,
    start_parallel,
)
from agent_cli.kernel.engine.tool_call import approval_request, askable_calls, prepare_call
from agent_cli.kernel.engine.turn import Turn, checkpoint, close_call, report_failure
from agent_cli.kernel.engine.types import CallError, CheckedCall, PreparedCall
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    FilesSeen,
    Noted,
    PlanChanged,
    ToolProgress,
    ToolRequested,
    Warned,
)
from agent_cli.kernel.messages import ToolCall
from agent_cli.kernel.modes import Mode
from agent_cli.kernel.results import Action
from agent_tools.base import Finish, ToolError
from agent_tools.cancel import CancelledError
from agent_tools.fs import read_state
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Note

if TYPE_CHECKING:
    from agent_cli.kernel.engine.execute import PrefetchedCall
    from agent_cli.kernel.engine.subagents import ParallelSubagent

with lazy_imports():
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel.engine import hook_points, subagents

OUT_OF_CALLS = "Not run: the limit of tool calls for this turn is reached."
AFTER_REFUSAL = "Not run: the user refused a call before this one in the same answer and said what to do instead."
OVER = "Not run: a call before this one in the same answer was the last of the turn."


class BatchOutcome(Value):
    """Outcome of the calls of a round.

    suspended: the user is needed ("approval" or "input"); "" otherwise.
    finish: set if a call completed the turn.
    cancelled: the user ended the turn.
    """

    suspended: str = ""
    finish: Finish | None = None
    cancelled: bool = False


Steps = Generator[Event, None, BatchOutcome]


class CallBatch:
    """The calls of one round, on their way to results."""

    def __init__(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        self.turn = turn
        turn.skip_rest = ""
        self._told = read_state.begin_answer(turn.deps.context)
        self.waiting = list(calls)
        self.finish: Finish | None = None
        self._announced: set[str] = set()
        self._edited: dict[str, EditedCall] = {}
        self._approvals = ApprovalRound(turn, together=len(calls) > 1)
        self._answered: dict[str, tuple[ApprovalRequested, Answer]] = {}
        self._shown = ShownCalls(turn)
        # The questions that were announced, by call id.
        self._requested: dict[str, ApprovalRequested] = {}
        self._prefetched: dict[str, PrefetchedCall | ParallelSubagent] = {}
        self._gate_note = ""

    def run(self) -> Steps:
        """Give every call its result. Raises CancelledError after answering the interrupted call."""
        if self._told:
            yield FilesSeen(self._told)
        try:
            return (yield from self._run_all())
        finally:
            for prefetched in self._prefetched.values():
                prefetched.abandon()

    def _run_all(self) -> Steps:
        if self.waiting and (ended := (yield from self._resume_suspended())) is not None:
            return ended
        gates = self.turn.gates if self.turn.deps.depth == 0 else None
        if gates is not None and self.waiting:
            gate = yield from gates.before_round(self.turn, self.waiting)
            self._gate_note = gate.note
            if gate.how != "go":
                return _ended_by(gate.how)
        while self.waiting:
            try:
                ended = yield from self._run_until_asked()
                if ended is None and self.waiting:
                    ended = yield from self._decide_and_run()
            except CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - it must cost a call, not the turn
                yield from self._fail_first(error)
                continue
            if ended is not None:
                return ended
        return BatchOutcome(finish=self.finish)

    def _fail_first(self, error: Exception) -> Generator[Event, None, None]:
        """Answer the first waiting call after an unexpected exception."""
        call = self.waiting[0]
        failure = yield from report_failure(self.turn.deps, f"the call of {call.name}", error)
        yield from close_call(self.turn, call, failure, last=len(self.waiting) == 1)
        self.waiting.pop(0)

    def _run_until_asked(self) -> Generator[Event, None, BatchOutcome | None]:
        """Run the calls before the first one that needs the user."""
        while self.waiting:
            call = self.waiting[0]
            prefetched = self._prefetched.get(call.id)
            item = prefetched.item if prefetched else (yield from self._approvals.check(call))
            yield from self._announce(call, item)
            if not isinstance(item, CallError) and item.needs_approval:
                return None
            if prefetched is None and len(self.waiting) > 1:
                yield from self._prefetch(item)
            if (yield from self._may_ask_ahead()):
                return None
            ended = yield from self._settle_call(item)
            if ended is not None:
                return (yield from self._finish_group(ended)) if ended.suspended else ended
        return None

    def _finish_group(self, ended: BatchOutcome) -> Generator[Event, None, BatchOutcome]:
        """Settle the sub-agents that ran beside a suspended one, as far as they are not suspended too."""
        suspended = [self.waiting.pop(0)]
        while self.waiting and (prefetched := self._prefetched.get(self.waiting[0].id)):
            again = yield from self._settle_call(prefetched.item)
            if again is not None:
                suspended.append(self.waiting.pop(0))
        self.waiting[:0] = suspended
        return ended

    def _prefetch(self, first: CheckedCall) -> Generator[Event, None, None]:
        """Start the next read-only calls in parallel; each still gets its result in order."""
        nested = not isinstance(first, CallError) and first.tool.nested
        if nested and self.turn.options.max_parallel_subagents < 2:
            return
        fits = subagents.may_join if nested else is_parallel_safe
        group: list[PreparedCall] = []
        known: list[ToolCall] = []
        item = first
        left = self.turn.budget.calls_left
        for call in self.waiting[:left]:
            if call is not self.waiting[0]:
                item = yield from self._approvals.check(call)
            # A call that repeats another of the group is answered from that one's result.
            same = any(k.name == call.name and k.arguments == call.arguments for k in known)
            if same or isinstance(item, CallError) or not fits(self.turn, item):
                break
            group.append(item)
            known.append(call)
        asked = self.turn.deps.attended and not isinstance(item, CallError) and item.needs_approval
        if len(group) < (1 if asked and not nested else 2):
            return
        if not nested:
            self._prefetched |= start_parallel(self.turn, group)
            return
        for started in group:
            yield from self._announce(started.call, started)
        self._prefetched = {**subagents.start_subagents(self.turn, group)}

    def _may_ask_ahead(self) -> Generator[Event, None, bool]:
        """Return True if the first call still runs, and the user can decide on one that does not depend on it."""
        first = self._prefetched.get(self.waiting[0].id)
        if not self.turn.deps.attended or first is None or first.item.tool.nested or first.done:
            return False
        if all(call.id in self._prefetched for call in self.waiting):
            return False
        if any(isinstance(self._answered.get(call.id, ("", None))[1], Reject) for call in self.waiting):
            return False
        batch = yield from self._check_all()
        free = independent_calls(self.turn, batch[: self.turn.budget.calls_left])
        return any(
            not isinstance(item, CallError)
            and item.needs_approval
            and item.call.id in free - self._answered.keys() - self._prefetched.keys()
            for item in batch
        )

    def _tell_running(self) -> Generator[Event, None, None]:
        """Let front ends show which calls run beside a question. Nothing is logged: they run again if it is resumed."""
        for call in self.waiting if self.turn.deps.attended else ():
            started = self._prefetched.get(call.id)
            if started is not None and not started.done and not started.item.tool.nested:
                yield ToolProgress(call.id, "")

    def _check_all(self) -> Generator[Event, None, list[CheckedCall]]:
        batch: list[CheckedCall] = []
        for call in self.waiting:
            started = self._prefetched.get(call.id)
            batch.append(started.item if started else (yield from self._approvals.check(call)))
        return batch

    def _start_beside(self, batch: Sequence[CheckedCall]) -> set[str]:
        """Start the allowed calls that only read and depend on none before them; return the ids of all that do not."""
        free = independent_calls(self.turn, batch[: self.turn.budget.calls_left])
        known = [call for call in self.waiting if call.id in self._prefetched]
        for call, item in zip(self.waiting, batch, strict=True):
            same = any(k.name == call.name and k.arguments == call.arguments for k in known)
            if call.id in free and not same and is_parallel_safe(self.turn, item):
                assert not isinstance(item, CallError)
                known.append(call)
                self._prefetched |= start_parallel(self.turn, [item])
        return free

    def _decide_and_run(self) -> Generator[Event, None, BatchOutcome | None]:
        """Ask the user about the calls that need it, then run in order what is decided.

        A user who watches decides on the first one that depends on none before it; the others are announced.
        """
        one_by_one = self.turn.deps.attended
        batch = yield from self._check_all()
        for call, item in zip(self.waiting, batch, strict=True):
            yield from self._announce(call, item)
        requests: dict[str, ApprovalRequested] = {}
        # Calls that nobody is asked about again: already decided, or edited and approved as edited.
        decided: set[str] = set()
        edited: set[str] = set()
        # Calls beyond the limit are not run, whatever the user would say.
        within = {call.id for call in self.waiting[: self.turn.budget.calls_left]}
        for proposal in (item for item in askable_calls(batch) if item.call.id in within):
            try:
                request = approval_request(self.turn, proposal)
                if self._already_decided(proposal, request):
                    decided.add(request.call_id)
                else:
                    if not (one_by_one and requests.keys() - decided):
                        request = self._shown.record_question(proposal, request)
                    if self._approvals.is_preapproved(request.call_id, request.effects) and not request.deferred:
                        edited.add(request.call_id)
                requests[request.call_id] = request
            except Exception as error:  # noqa: BLE001 - a call without a question is not run; the turn continues
                # The calls before it may make it possible: it is checked again once they have run.
                if requests or proposal.call.id != self.waiting[0].id:
                    continue
                # The first one fails before the user decides on those after it.
                failed = str(error)
                if not isinstance(error, ToolError):
                    failure = yield from report_failure(self.turn.deps, f"asking about {proposal.call.name}", error)
                    failed = f"{failure} The call was not run."
                return (yield from self._settle_call(CallError(failed)))
            else:
                if request.call_id not in decided | edited and self._requested.get(request.call_id) != request:
                    self._requested[request.call_id] = request
                    yield request
        if requests.keys() - decided - edited:
            yield from checkpoint(self.turn)
        answers: dict[str, Answer] = {}
        items = {item.call.id: item for item in batch if not isinstance(item, CallError)}
        policy, repeats = self.turn.deps.policy, self.turn.repeats
        mode, asked = policy.mode, False
        free = self._start_beside(batch) if one_by_one else within
        for request in requests.values():
            if request.call_id in decided:
                answers[request.call_id] = self._answered[request.call_id][1]
                continue
            if request.call_id not in free:
                continue
            item = items[request.call_id]
            # Allowed by the mode that the user has chosen at a call before it; a decision made earlier still applies.
            allowed = policy.mode != mode and policy.decide(request.tool, request.effects).level is Level.ALLOW
            if allowed and not self.turn.deps.recorded(request):
                continue
            yield from self._tell_running()
            answer = yield from self._approvals.answer(request, item)
            asked, answers[request.call_id] = True, answer
            self._answered[request.call_id] = (request, answer)
            if isinstance(answer, Approve | EditedCall) and answer.mode is not None:
                policy.mode = answer.mode
            if request.call_id not in edited:
                yield approval_record(request, answer)
            elif not isinstance(answer, Approve):
                # A hook has decided otherwise about the edited call.
                yield request
                yield approval_record(request, answer)
            if isinstance(answer, Approve | EditedCall) and answer.rule:
                yield from self._save_rule(answer)
            if one_by_one and not isinstance(answer, Defer):
                if isinstance(answer, Approve) and only_reads(self.turn, item) and not repeats.unchanged(item):
                    self._prefetched |= start_parallel(self.turn, [item])
                break
        if any(isinstance(a, Defer) for a in answers.values()):
            return BatchOutcome(suspended="approval")
        return (yield from self._run_decided(requests, answers, asked=asked and one_by_one))

    def _save_rule(self, answer: Approve | EditedCall) -> Generator[Event, None, None]:
        """Save the rule of an "always" answer for the session and, if chosen, for the project or the schedule."""
        deps = self.turn.deps
        deps.policy.grant(answer.rule)
        if answer.scope != "session":
            for_project = answer.scope == "project"
            save = deps.save_rule if for_project else deps.save_for_schedule
            missing = "the project is not trusted" if for_project else "its schedule was removed"
            if why := save(answer.rule) if save is not None else missing:
                yield Warned(f"The rule applies to this session only; it was not saved: {why}.")
            elif for_project and deps.hooks.wants("ConfigChange", "local_settings"):
                yield from hook_points.fire(self.turn, hook_events.config_change("local_settings"))

    def _already_decided(self, item: PreparedCall, request: ApprovalRequested) -> bool:
        """Return True if the same call was already decided in this round and had to wait for an earlier one."""
        before = self._answered.get(request.call_id)
        if before is None:
            return False
        if before[0].binding == request.binding or request.call_id in self._prefetched:
            return True
        return isinstance(before[1], Approve) and self._shown.is_still_approved(item, before[0])

    def _run_decided(
        self, requests: dict[str, ApprovalRequested], answers: dict[str, Answer], *, asked: bool
    ) -> Generator[Event, None, BatchOutcome | None]:
        """Run the calls in order. asked: the user was asked, so the next question may come before a call has ended."""
        while self.waiting:
            if asked and (yield from self._may_ask_ahead()):
                return None
            call = self.waiting[0]
            started = self._prefetched.get(call.id)
            item = started.item if started else (yield from self._approvals.check(call))
            answer = answers.get(call.id)
            if isinstance(answer, EditedCall):
                self.waiting[0] = call.replace(arguments=answer.arguments, broken="")
                self._edited[call.id] = answer
                if answer.settled and not isinstance(item, CallError):
                    self._approvals.preapproved[call.id] = item.effects, answer.user
                return None
            if isinstance(answer, Reject) and not isinstance(item, CallError):
                turn, by_person = self.turn, answer.by == "person"
                nested, last = turn.deps.depth > 0, len(self.waiting) == 1
                if own := item.tool.refused(item.args, answer.reason, turn.deps.context) if by_person else None:
                    self.finish = own.finish or self.finish
                    if isinstance(own.display, Note):
                        yield Noted(own.display.text)
                text = own.text if own else rejection_text(answer, requests[call.id].always, nested=nested)
                note = (f" {CONTINUE}" if answer.by == "default" else "") + self._approvals.note(call)
                yield from refuse(turn, item, text, note, by=answer.by, last=last)
                self.waiting.pop(0)
                if by_person and answer.reason and turn.deps.attended:
                    # What the user wants instead may make these calls wrong.
                    turn.skip_rest = AFTER_REFUSAL
                    yield from self._skip_rest()
                continue
            elif isinstance(answer, Approve) and not isinstance(item, CallError):
                if not started and item.needs_approval and not self._shown.is_still_approved(item, requests[call.id]):
                    return None
                ended = yield from self._settle_call(item, approved=True)
            elif not isinstance(item, CallError) and item.needs_approval and self.turn.budget.calls_left != 0:
                return None
            else:
                ended = yield from self._settle_call(item)
            if ended is not None:
                return ended
        return None

    def _announce(self, call: ToolCall, item: CheckedCall) -> Generator[Event, None, None]:
        if call.id not in self._announced:
            self._announced.add(call.id)
            summary = (call.name or "(no name)") if isinstance(item, CallError) else item.summary
            arguments = call.arguments if isinstance(item, CallError) else item.call.arguments
            yield ToolRequested(call.id, call.name, arguments, summary)

    def _settle_call(self, item: CheckedCall, *, approved: bool = False) -> Generator[Event, None, BatchOutcome | None]:
        """Take the first waiting call to its result; return an outcome if that ends the round."""
        turn, call = self.turn, self.waiting[0]
        if turn.deps.context.cancel.cancelled:
            raise CancelledError
        last = len(self.waiting) == 1
        tools = turn.deps.tools
        turn.deps.context.edits_follow = any(c.name in tools and tools[c.name].changes_files for c in self.waiting[1:])
        if turn.budget.calls_left == 0:
            yield from turn.answer(call, OUT_OF_CALLS, is_error=True, last=last)
            self.waiting.pop(0)
            return None
        if isinstance(item, CallError):
            yield from fail_call(turn, call, item.text + self._comments(call.id), last=last)
        elif not approved and item.decision.level is Level.DENY and not self._denied_by_own_mode(item):
            decision = item.decision
            yield ApprovalResolved(call.id, "reject", decision.by, decision.reason, decision.rule)
            text = _denied(decision.reason)
            if why := turn.deps.rejected(call.id):
                text += f" The user refused it as well and said: {why}"
            note = _next_step(decision, turn.deps.policy.mode) + self._comments(call.id) + self._approvals.note(call)
            yield from refuse(turn, item, text, note, by=decision.by, last=last)
        else:
            edited = self._edited.get(call.id)
            # The user's own decision is recorded already.
            if not approved and not (edited is not None and edited.settled):
                yield ApprovalResolved(call.id, "approve", item.decision.by, item.decision.reason, item.decision.rule)
            if turn.repeats.unchanged(item):
                yield from skip(turn, item, last=last)
            else:
                ended = yield from self._run_tool(item, last)
                if ended is not None:
                    return ended
        self.waiting.pop(0)
        yield from self._skip_rest()
        return BatchOutcome() if turn.stopped is not None else None

    def _denied_by_own_mode(self, item: PreparedCall) -> bool:
        """Return True if only the mode chosen by the user for what follows this call, which they edited, denies it."""
        edited = self._edited.get(item.call.id)
        chosen = edited is not None and edited.settled and edited.mode is not None
        return chosen and item.decision.by == "mode" and self._approvals.is_preapproved(item.call.id, item.effects)

    def _skip_rest(self) -> Generator[Event, None, None]:
        """Answer the remaining calls without running them after a call completed the turn or a plan was rejected."""
        why = OVER if self.finish is not None else self.turn.skip_rest
        while why and self.waiting:
            yield from self._announce(self.waiting[0], CallError(why))
            call = self.waiting.pop(0)
            yield from self.turn.answer(call, why, is_error=True, last=not self.waiting)

    def _run_tool(self, item: PreparedCall, last: bool) -> Generator[Event, None, BatchOutcome | None]:
        turn = self.turn
        edited = self._edited.get(item.call.id)
        by = "hook" if edited and edited.by == "hook" else "user"
        changed = f"[The {by} changed the arguments to {item.call.arguments}.]"
        note = f"\n\n{edited.note or changed}" if edited else ""
        note += self._comments(item.call.id) + self._approvals.note(item.call)
        if item.tool.asks_user or turn.review_due(item):
            plan = turn.deps.context.plan
            reply, item = yield from ask_user(turn, item)
            if turn.deps.context.plan != plan:
                turn.plan_changed(plan)
                yield PlanChanged(turn.deps.context.plan)
            if reply is None:
                return BatchOutcome(suspended="input")
            if item.tool.asks_user or reply.is_error:
                turn.budget.called(failed=False)
                turn.actions.append(Action(item.summary, "done"))
                yield from turn.answer(item.call, reply.text, is_error=reply.is_error, last=last)
                return BatchOutcome(cancelled=True) if reply is CANCELLED else None
            note += f"\n\n{reply.text}"
        if turn.gates is not None and turn.deps.depth == 0:
            gate = yield from turn.gates.before_step(turn, item, last=last)
            if gate.how != "go":
                return None if gate.how == "answered" else _ended_by(gate.how)
            note += gate.note + self._gate_note
            self._gate_note = ""
        self._shown.record_run(item)
        return (yield from self._run(item, note, last))

    def _comments(self, call_id: str) -> str:
        """Return what the user said when approving a call, to append to its result."""
        edited, (_, answer) = self._edited.get(call_id), self._answered.get(call_id, (None, None))
        said = [edited.comment] if edited is not None else []
        said += [answer.note] if isinstance(answer, Approve) else []
        return "".join(f"\n\n[The user approved this call and said: {text}]" for text in said if text)

    def _run(self, item: PreparedCall, note: str, last: bool) -> Generator[Event, None, BatchOutcome | None]:
        result = yield from execute_call(
            self.turn, item, note, last=last, prefetched=self._prefetched.pop(item.call.id, None)
        )
        if isinstance(result, str):
            return BatchOutcome(cancelled=True) if result == "cancelled" else BatchOutcome(suspended=result)
        # What the user said about the call is for the model to act on.
        self.finish = (None if self._comments(item.call.id) else result.finish) or self.finish
        return None

    def _resume_suspended(self) -> Generator[Event, None, BatchOutcome | None]:
        """Ask again about a first call whose tool ran but whose question is unanswered; the tool does not run again."""
        call = self.waiting[0]
        if call.id not in self.turn.deps.state.held:
            return None
        item = prepare_call(self.turn, call, together=False)
        if isinstance(item, CallError):
            del self.turn.deps.state.held[call.id]
            return None
        yield from self._announce(call, item)
        ended = yield from self._run(item, "", len(self.waiting) == 1)
        if ended is None:
            self.waiting.pop(0)
            yield from self._skip_rest()
        return ended


def _ended_by(how: str) -> BatchOutcome:
    """Return the outcome of a round that ends at a gate."""
    return BatchOutcome(suspended="input" if how == "suspended" else "", cancelled=how == "cancelled")


def run_calls(turn: Turn, calls: Sequence[ToolCall]) -> Steps:
    """Give every call of a round its result, in order."""
    return (yield from CallBatch(turn, calls).run())


# What the model does without the call; not for the user.
CONTINUE = "Do not ask: continue without it, and say at the end that it was not done."
_IN_PLAN_MODE = "Put it into the plan instead, and continue with calls that only read."


def _next_step(decision: Decision, mode: Mode) -> str:
    """Return what the model does without a call that was denied, to follow the denial. A hook says that itself."""
    if decision.by == "hook":
        return ""
    return f" {_IN_PLAN_MODE if decision.by == 'mode' and mode == 'plan' else CONTINUE}"


def _denied(reason: str) -> str:
    return f"Permission was denied: the call {reason}{'' if reason.endswith(('.', '!', '?')) else '.'}"


def rejection_text(answer: Reject, rule: str = "", *, nested: bool = False) -> str:
    """Return the text that tells the model about a rejection by the user, a rule or a hook, or as nobody can answer.

    rule: the rule that would allow the call; "" for none.
    nested: a sub-agent made it, which cannot ask the user.
    """
    if answer.by == "default":
        how = f" The user can allow it by the rule {rule}." if rule else ""
        return f"{_denied(answer.reason)}{how}"
    if answer.by != "person":
        return _denied(answer.reason)
    if answer.reason:
        return f"Denied by the user, who said: {answer.reason}"
    instead = "take another way, or report that it was denied" if nested else "ask what they want, or take another way"
    return f"Denied by the user. Do not try the same call again; {instead}."
