"""Decisions of users: as they are stored in the inbox, checked, and translated into answers for the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Literal, cast

from agent_cli.core.decisions import Answer, Approve, Defer, EditedCall, QuestionReply, Reject
from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.modes import MODES, Mode
from agent_cli.core.run_environment import UsageError
from agent_cli.runtime.edit_call import editable_call
from agent_cli.runtime.pending import read_answers
from agent_cli.server.tasks import InboxEntry
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value, from_json

DecisionWord = Literal["approve", "reject", "answer", "undo"]
# The verdict of a QuestionReply, by kind of question and word.
_VERDICTS = {
    ("plan", "approve"): "approve", ("plan", "answer"): "revise", ("plan", "reject"): "cancel",
    ("review", "approve"): "approve", ("review", "answer"): "revise", ("review", "reject"): "cancel",
    ("review", "undo"): "undo", ("questions", "answer"): "answer", ("questions", "reject"): "answer",
}  # fmt: skip
_PAST = {"approve": "approved", "reject": "rejected", "answer": "answered", "undo": "undone"}


class UserVerdict(Value, tag="UserVerdict"):
    """A decision about one call.

    binding: of the question that was shown; the decision holds for no other.
    text: words for the model.
    rule, scope: to allow such calls from now on.
    mode: the permission mode to continue in.
    hunks: indexes of the parts of the change to make; None for all.
    arguments: to run the call with instead; None for its own.
    answers: one for each question. plan: as the user edited it.
    """

    call_id: str
    binding: str
    verdict: DecisionWord
    text: str = ""
    rule: str = ""
    scope: Literal["session", "project"] = "session"
    mode: str = ""
    hunks: tuple[int, ...] | None = None
    arguments: dict[str, Any] | None = None
    answers: tuple[str, ...] = ()
    plan: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @property
    def past(self) -> str:
        """Return the decision as a past participle: "approved"."""
        return _PAST[self.verdict]


def question_binding(asked: ApprovalRequested | QuestionAsked) -> str:
    """Return a hash of a question as it is shown."""
    if isinstance(asked, ApprovalRequested):
        return asked.binding
    text = json.dumps([asked.call_id, asked.kind, _drop_empty(asked.data)], sort_keys=True)
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _drop_empty(data: Any) -> Any:
    """Return JSON data without empty fields: a log may have a default that the question did not, or the reverse."""
    if isinstance(data, dict):
        return {
            name: filled for name, value in data.items() if (filled := _drop_empty(value)) not in (None, False, "", [])
        }
    return [_drop_empty(value) for value in data] if isinstance(data, (list, tuple)) else data


def changes_plan(asked: QuestionAsked, verdict: UserVerdict) -> bool:
    """Return True if the decision has another plan than the question."""
    return bool(verdict.plan) and _drop_empty(verdict.plan) != _drop_empty(asked.data)


def find_decision(
    asked: ApprovalRequested | QuestionAsked, entries: Iterable[InboxEntry]
) -> tuple[InboxEntry, UserVerdict] | None:
    """Return the decision in an inbox that holds for a question; None if there is none."""
    binding = question_binding(asked)
    for entry in entries:
        if entry.kind == "decision":
            verdict: UserVerdict = from_json(UserVerdict, entry.data)
            if (verdict.call_id, verdict.binding) == (asked.call_id, binding):
                return entry, verdict
    return None


def check_verdict(asked: ApprovalRequested | QuestionAsked, verdict: UserVerdict) -> None:
    """Raise UsageError for a decision that does not fit the question."""
    kind = asked.kind if isinstance(asked, QuestionAsked) else "approval"
    if verdict.mode and verdict.mode not in MODES:
        raise UsageError(f"{verdict.mode} is not a permission mode; the modes are: {', '.join(MODES)}.")
    if isinstance(asked, ApprovalRequested):
        if verdict.verdict not in ("approve", "reject"):
            raise UsageError("This call waits for approval: approve or reject it.")
        if verdict.rule and verdict.rule not in (asked.always, asked.exact):
            raise UsageError("Only the rules that the question offers can be added with an approval.")
        if verdict.scope == "project" and not asked.keeps:
            raise UsageError("This rule can be added for the session only.")
        return
    if (kind, verdict.verdict) not in _VERDICTS:
        known = ", ".join(word for at, word in _VERDICTS if at == kind)
        raise UsageError(f"A decision about {kind} is one of: {known}.")
    if kind == "questions" and verdict.verdict == "answer":
        read_answers(asked.data["questions"], verdict.answers or (verdict.text,))
    if kind != "questions" and verdict.verdict == "answer" and not verdict.text.strip():
        raise UsageError("Say what to change: the text is empty.")
    if verdict.plan and not isinstance(verdict.plan.get("steps"), list):
        raise UsageError("An edited plan has the form of the plan that was shown, with its steps.")


def answer_approval(asked: ApprovalRequested, verdict: UserVerdict, user: str, workspace: Workspace) -> Answer:
    """Return the answer to an approval question."""
    if verdict.verdict != "approve":
        return Reject(verdict.text, user=user)
    if verdict.hunks is not None:
        parts = editable_call(asked, workspace)
        if not parts.hunks:
            # The file has changed since it was shown: ask again.
            return Defer()
        answer = parts.with_hunks([hunk for at, hunk in enumerate(parts.hunks) if at in verdict.hunks])
        return answer if isinstance(answer, Defer) else answer.replace(user=user)
    if verdict.arguments is not None and verdict.arguments != asked.arguments:
        note = f"[The user changed the arguments of this call.{f' They said: {verdict.text}' if verdict.text else ''}]"
        return EditedCall(verdict.arguments, note, settled=True, user=user)
    return Approve(rule=verdict.rule, scope=verdict.scope, note=verdict.text, mode=_parse_mode(verdict.mode), user=user)


def answer_question(asked: QuestionAsked, verdict: UserVerdict, user: str) -> QuestionReply:
    """Return the answer to a question, a plan or a review."""
    word, text = _VERDICTS[asked.kind, verdict.verdict], verdict.text
    if asked.kind == "questions":
        refused = text or "The user does not want to answer."
        answers = verdict.answers or (verdict.text,)
        text = read_answers(asked.data["questions"], answers) if verdict.verdict == "answer" else refused
    elif word == "cancel" and text:
        word = "revise"  # a reason is for the model, which is to do something else
    return QuestionReply(cast(Any, word), text, _parse_mode(verdict.mode), user=user, plan=verdict.plan)


def _parse_mode(name: str) -> Mode | None:
    return next((mode for mode in MODES if mode == name), None)
