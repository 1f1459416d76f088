"""Decisions on calls: the verdicts of the permission policy, and the answers of a user or a program in place of one.

ALLOW < ASK < DENY, so decisions combine with `max`; each carries its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Literal

from agent_cli.core.events import ApprovalRequested, Decider, QuestionAsked
from agent_cli.core.modes import Mode
from agent_tools.record import Value


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
    rule: a rule to save ("always"), for this session or for the project.
    note: the user's words, which go to the model with the result.
    mode: the permission mode to continue in, from this call on.
    user: name of the user who decided, where several can.
    """

    by: Decider = "person"
    rule: str = ""
    scope: Literal["session", "project"] = "session"
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
    """

    arguments: dict[str, Any]
    note: str = ""
    settled: bool = False
    by: Decider = "person"
    user: str = ""


class Defer(Value):
    """Suspend the turn: nobody is available to decide. It is resumed after a decision."""


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


Answer = Approve | Reject | EditedCall | Defer
Approver = Callable[[ApprovalRequested], Answer]
Asker = Callable[[QuestionAsked], QuestionReply | Defer]


# Exact approvals only: "yes, but smaller" is a comment.
_ASSENT = frozenset(
    "y yes yep yeah ok okay k sure approve approved accept accepted agreed lgtm go proceed continue".split()
) | {"go ahead", "go on", "looks good", "looks good to me", "sounds good", "do it", "yes please", "all right"}


def is_approval(words: str) -> bool:
    """Return True if the text is an approval of a plan or a review, and nothing else."""
    return " ".join(words.lower().strip(" .!\t\n").replace(",", " ").split()) in _ASSENT


def defer(asked: QuestionAsked) -> Defer:
    """Answer no question now (an Asker)."""
    return Defer()
