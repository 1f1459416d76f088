"""Decisions on calls: the verdicts of the permission policy, and the answers of a user or a program in place of one.

ALLOW < ASK < DENY, so decisions combine with `max`; each carries its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Literal

from agent_cli.kernel.events import (
    EDITED,
    ApprovalRequested,
    ApprovalResolved,
    Decider,
    QuestionAnswered,
    QuestionAsked,
    RuleScope,
)
from agent_cli.kernel.modes import MODES, Mode
from agent_tools.record import Value

_NO_APPROVER = "nobody can approve it here"
_UNATTENDED_ANSWER = "Nobody can answer. Decide for yourself, and state the assumption you made."


class Level(IntEnum):
    ALLOW = 0
    ASK = 1
    DENY = 2


class Verdict(Value):
    """The verdict about one part of a command line, or one file that it touches.

    final: no permission mode may relax it.
    """

    text: str
    level: Level
    reason: str
    rule: str = ""
    by: Decider = "default"
    final: bool = False


class Decision(Value):
    """The decision about a call.

    reason: a sentence for the user and the model.
    rule: text of the rule that decided; "" if none did.
    parts: verdicts about the parts of a command line.
    final: neither a mode nor a hook may relax it.
    deferred: a hook suspends the turn until it is resumed; nobody is asked.
    """

    level: Level
    reason: str
    by: Decider = "default"
    rule: str = ""
    parts: tuple[Verdict, ...] = ()
    final: bool = False
    deferred: bool = False


def strictest(decisions: Iterable[Decision]) -> Decision:
    """Return the highest decision, the first among equals. It is final if any of them is."""
    every = list(decisions)
    found = max(every, key=lambda d: d.level)
    return found if found.final or not any(d.final for d in every) else found.replace(final=True)


class Approve(Value):
    """Run the call.

    by: who approved it.
    rule, scope: a rule to save ("always"), and for how long.
    note: the user's words, which go to the model with the result.
    mode: the permission mode to continue in, from this call on.
    user: name of the user who decided, where several can.
    """

    by: Decider = "person"
    rule: str = ""
    scope: RuleScope = "session"
    note: str = ""
    mode: Mode | None = None
    user: str = ""


class Reject(Value):
    """Do not run the call; `reason` goes to the model in the user's own words."""

    reason: str = ""
    by: Decider = "person"
    user: str = ""


class EditedCall(Value, tag="Edit"):
    """Run the call with these arguments instead, after checking and deciding them again.

    note: what the model reads about the change, instead of the arguments.
    settled: the user has already seen these arguments and is not asked again, as long as the effects are the same.
    comment: the user's words, which go to the model with the result.
    rule, scope, mode: as in `Approve`.
    """

    arguments: dict[str, Any]
    note: str = ""
    settled: bool = False
    by: Decider = "person"
    user: str = ""
    comment: str = ""
    rule: str = ""
    scope: RuleScope = "session"
    mode: Mode | None = None


class Defer(Value):
    """Suspend the turn: nobody is available to decide. It is resumed after a decision."""


# Exact approvals only: "yes, but smaller" is a comment.
_ASSENT = frozenset(
    "y yes yep yeah ok okay k sure approve approved accept accepted agreed lgtm go proceed continue".split()
) | {"go ahead", "go on", "looks good", "looks good to me", "sounds good", "do it", "yes please", "all right"}


class QuestionReply(Value, tag="Reply"):
    """The user's answer to a question of the model, to a plan, or in a review.

    verdict: "answer" a question; "approve" a plan or work, "revise" it with these comments, "undo" the changes since
        the last review, or "cancel".
    text: the answer or the comments.
    mode: the permission mode to continue in after approving a plan.
    plan: the plan as the user edited it, in the form of its question's data; empty if they did not.
    """

    verdict: Literal["answer", "approve", "revise", "undo", "cancel"] = "answer"
    text: str = ""
    mode: Mode | None = None
    by: Decider = "person"
    plan: dict[str, Any] = {}  # noqa: RUF012 - never changed
    user: str = ""

    @staticmethod
    def is_assent(words: str) -> bool:
        """Return True if the words approve a plan or a review, and say nothing else."""
        return " ".join(words.lower().strip(" .!\t\n").replace(",", " ").split()) in _ASSENT


Answer = Approve | Reject | EditedCall | Defer
Approver = Callable[[ApprovalRequested], Answer]
Asker = Callable[[QuestionAsked], QuestionReply | Defer]


def defer(asked: QuestionAsked) -> Defer:
    """Answer no question now (an Asker)."""
    return Defer()


def approval_record(request: ApprovalRequested, answer: Answer) -> ApprovalResolved:
    """Return the record of an answer to an approval request; `recorded_answer` reads it back."""
    call_id, binding = request.call_id, request.binding
    match answer:
        case Approve(by=by, rule=rule, scope=scope, note=note, mode=mode, user=user):
            return ApprovalResolved(call_id, "approve", by, note, rule, binding, mode or "", user, scope)
        case Reject(by=by, reason=reason, user=user):
            return ApprovalResolved(call_id, "reject", by, reason, "", binding, "", user)
        case EditedCall(by=by, rule=rule, scope=scope, mode=mode, user=user):
            # Arguments that the user has not seen with their effects are not approved yet.
            decision: Literal["approve", "reject"] = "approve" if answer.settled else "reject"
            reason = answer.comment if answer.settled else EDITED
            return ApprovalResolved(
                call_id, decision, by, reason, rule, binding, mode or "", user, scope, answer.arguments, answer.note
            )
        case _:
            return ApprovalResolved(call_id, "defer", "default", "", "", binding)


def recorded_answer(record: ApprovalResolved) -> Approve | Reject | EditedCall:
    """Return the answer of a user that a record holds."""
    mode, rule, scope, user = find_mode(record.mode), record.rule, record.scope, record.user
    if record.arguments is not None:
        settled = record.decision == "approve"
        comment = record.reason if settled else ""
        return EditedCall(record.arguments, record.change, settled, record.by, user, comment, rule, scope, mode)
    if record.decision != "approve":
        return Reject(record.reason, user=user)
    return Approve(rule=rule, scope=scope, note=record.reason, mode=mode, user=user)


def reply_record(asked: QuestionAsked, reply: QuestionReply) -> QuestionAnswered:
    """Return the record of a reply to a question; `recorded_reply` reads it back."""
    return QuestionAnswered(
        asked.call_id, reply.verdict, reply.text, reply.by, reply.mode or "", reply.user, reply.plan
    )


def recorded_reply(record: QuestionAnswered) -> QuestionReply | Defer:
    """Return the reply of a user that a record holds."""
    if record.verdict == "defer":
        return Defer()
    return QuestionReply(
        record.verdict, record.text, find_mode(record.mode), record.by, user=record.user, plan=record.plan
    )


def find_mode(name: str) -> Mode | None:
    """Return the permission mode of this name; None if there is none."""
    return next((mode for mode in MODES if mode == name), None)


def deny(request: ApprovalRequested) -> Answer:
    """Deny the call (the approver if there is no user)."""
    return Reject(f"{request.reason}, and {_NO_APPROVER}", by="default")


def answer_unattended(asked: QuestionAsked) -> QuestionReply | Defer:
    """Let the model answer its own questions; defer plans and reviews (the asker if there is no user)."""
    return QuestionReply("answer", _UNATTENDED_ANSWER, by="default") if asked.kind == "questions" else Defer()
