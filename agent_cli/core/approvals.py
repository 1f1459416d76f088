"""What a user, or a program in place of one, says to a call that needs approval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from agent_cli.core.events import ApprovalRequested, Decider, QuestionAsked
from agent_cli.core.modes import Mode
from agent_tools.record import Value


class Approve(Value):
    """Run it. `rule` is a rule to remember ("always"): for this session, or saved for the project."""

    by: Decider = "person"
    rule: str = ""
    scope: Literal["session", "project"] = "session"


class Reject(Value):
    """Do not run it; `reason` goes to the model in the user's own words."""

    reason: str = ""
    by: Decider = "person"


class EditedCall(Value, tag="Edit"):
    """Run it with these arguments instead; they are checked and decided afresh.

    note: what the model reads about the change, instead of the arguments. settled: the user has seen just these, so
    that they are not asked again, as long as the call has the same effects.
    """

    arguments: dict[str, Any]
    note: str = ""
    settled: bool = False
    by: Decider = "person"


class Defer(Value):
    """Nobody is here now: the turn is suspended and can be resumed when someone decided."""


class QuestionReply(Value, tag="Reply"):
    """What a user says to a question of the model, or to a plan.

    verdict: "answer" to a question; "approve" a plan (`mode`: to go on in), "revise" it with these words, or "cancel".
    "undo", at a review: take back what was changed since the last look.
    plan: the plan as the user edited it, as the data of its question; empty where they did not.
    """

    verdict: Literal["answer", "approve", "revise", "undo", "cancel"] = "answer"
    text: str = ""
    mode: Mode | None = None
    by: Decider = "person"
    plan: dict[str, Any] = {}  # noqa: RUF012 - never changed


Answer = Approve | Reject | EditedCall | Defer
Approver = Callable[[ApprovalRequested], Answer]
Asker = Callable[[QuestionAsked], QuestionReply | Defer]


# Approval in so many words, and nothing else: "yes, but smaller" is a comment.
_ASSENT = frozenset(
    "y yes yep yeah ok okay k sure approve approved accept accepted agreed lgtm go proceed continue".split()
) | {"go ahead", "go on", "looks good", "looks good to me", "sounds good", "do it", "yes please", "all right"}


def assents(words: str) -> bool:
    """Whether words say yes to a plan or a review, and nothing else."""
    return " ".join(words.lower().strip(" .!\t\n").replace(",", " ").split()) in _ASSENT


def defer(asked: QuestionAsked) -> Defer:
    """The asker that leaves every question for later."""
    return Defer()
