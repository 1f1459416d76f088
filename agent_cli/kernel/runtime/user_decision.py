"""The user's decision about what waits: one value, which is checked and applied in one place.

Every front end only translates what it receives into a `UserDecision` and shows the refusal. A field that a decision
cannot honour is refused by name, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast, overload

from agent_cli.kernel.decisions import Answer, Approve, EditedCall, QuestionReply, Reject, find_mode
from agent_cli.kernel.events import ApprovalRequested, QuestionAsked, RuleScope
from agent_cli.kernel.modes import MODES
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.edit_call import ARGUMENTS_CHANGED, describe_rewrite, editable_call, take_hunks
from agent_tools.fs.workspace import Workspace
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import Value
from agent_tools.registry import TraitsOf, tool_traits
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted, escape_controls, one_line, parse_number, shorten

DecisionWord = Literal["approve", "reject", "edit", "answer", "undo"]
DECLINED = "The user does not want to answer."
_PLAN_FIELDS = ("plan", "steps", "files_to_create", "files_to_modify", "commands", "dependencies", "tests")

# What may be decided about each kind of question, and the fields that such a decision takes.
DECISION_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("approval", "approve"): ("text", "comments", "rule", "scope", "mode", "hunks", "arguments"),
    ("approval", "reject"): ("text", "comments"),
    ("approval", "edit"): ("arguments",),
    ("plan", "approve"): ("text", "mode", "plan"),
    ("plan", "answer"): ("text",),
    ("plan", "reject"): ("text",),
    ("review", "approve"): ("text", "comments"),
    ("review", "answer"): ("text", "comments"),
    ("review", "reject"): ("text", "comments"),
    ("review", "undo"): ("text", "comments"),
    ("questions", "answer"): ("text", "answers"),
    ("questions", "reject"): ("text",),
}
_KINDS = {"approval": "a call", "plan": "a plan", "review": "a review", "questions": "a question"}
_REPLIES = {"approve": "approve", "answer": "revise", "reject": "cancel", "undo": "undo"}
_PAST = {"approve": "approved", "reject": "rejected", "edit": "edited", "answer": "answered", "undo": "undone"}


def decisions_table() -> str:
    """Return the table of docs/http-api.md."""
    lines = ["| what waits | verdict | fields |", "|---|---|---|"]
    for (kind, verdict), fields in DECISION_FIELDS.items():
        named = ", ".join(f"`{name}`" for name in fields)
        lines.append(f"| {_KINDS[kind]} | `{verdict}` | {named} |")
    return "\n".join(lines) + "\n"


class LineComment(Value):
    """A comment on a line of a change; on the file if `line` is 0. side: the old lines are those that are removed."""

    path: str
    text: str
    line: int = 0
    side: Literal["new", "old"] = "new"

    def __str__(self) -> str:
        """Return it as the model reads it."""
        at = f":{self.line}" if self.line else ""
        return f"On {self.path}{at}{' (removed)' if self.side == 'old' else ''}: {self.text.strip()}"


class UserDecision(Value, tag="UserVerdict"):
    """A decision about one call.

    binding: of the question that was shown; the decision holds for no other.
    text: the user's words, which go to the model. comments: more of them, on lines of the change.
    rule, scope: to allow such calls from now on.
    mode: the permission mode to continue in.
    hunks: indexes of the hunks of the change to make; None for all.
    arguments: to run the call with instead; None for its own. With "edit" the user is asked again, about the new ones.
    answers: one for each question. plan: as the user edited it.
    """

    call_id: str
    binding: str
    verdict: DecisionWord
    text: str = ""
    comments: tuple[LineComment, ...] = ()
    rule: str = ""
    scope: RuleScope = "session"
    mode: str = ""
    hunks: tuple[int, ...] | None = None
    arguments: dict[str, Any] | None = None
    answers: tuple[str, ...] = ()
    plan: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @property
    def past(self) -> str:
        """Return the decision as a past participle: "approved"."""
        return _PAST[self.verdict]

    @property
    def given(self) -> list[str]:
        """Names of the fields that say something."""
        default = UserDecision(self.call_id, self.binding, self.verdict)
        names = [name for name in self._fields if name not in ("call_id", "binding", "verdict")]
        return [name for name in names if getattr(self, name) != getattr(default, name)]

    @overload
    def answer_to(
        self,
        asked: ApprovalRequested,
        files: Workspace | None = ...,
        user: str = ...,
        traits_of: TraitsOf = ...,
    ) -> Approve | Reject | EditedCall: ...
    @overload
    def answer_to(
        self,
        asked: QuestionAsked,
        files: Workspace | None = ...,
        user: str = ...,
        traits_of: TraitsOf = ...,
    ) -> QuestionReply: ...
    def answer_to(
        self,
        asked: ApprovalRequested | QuestionAsked,
        files: Workspace | None = None,
        user: str = "",
        traits_of: TraitsOf = tool_traits,
    ) -> Answer | QuestionReply:
        """Return the answer that it gives to a question. Raises UsageError.

        files: where the changes of a call are split into hunks; without them none can be chosen.
        user: name of the user who decided. traits_of: as in `editable_call`.
        """
        decision = self
        _check_fields(asked.kind if isinstance(asked, QuestionAsked) else "approval", decision)
        if decision.comments:
            _check_comments(asked, decision)
            decision = decision.replace(text=with_comments(decision.text, decision.comments), comments=())
        if isinstance(asked, QuestionAsked):
            return _answer_question(asked, decision, user)
        if decision.verdict == "reject":
            return Reject(decision.text, user=user)
        if decision.verdict == "edit":
            if not decision.arguments or decision.arguments == asked.arguments:
                raise UsageError("arguments: an edit needs the arguments to run the call with instead.")
            return EditedCall(decision.arguments, user=user)
        return _approve_call(asked, decision, _changed_call(asked, decision, files, traits_of), user)


def _check_fields(kind: str, decision: UserDecision) -> None:
    """Raise UsageError for a verdict or a field that this kind of question does not take."""
    fields = DECISION_FIELDS.get((kind, decision.verdict))
    if fields is None:
        known = ", ".join(word for at, word in DECISION_FIELDS if at == kind)
        raise UsageError(f"A decision about {_KINDS[kind]} is one of: {known}.")
    if wrong := [name for name in decision.given if name not in fields]:
        takes = f"it takes: {', '.join(fields)}"
        raise UsageError(f"{', '.join(wrong)}: {decision.verdict} for {_KINDS[kind]} does not take that; {takes}.")
    if decision.mode and decision.mode not in MODES:
        name = shorten(one_line(decision.mode), 60)
        raise UsageError(f"{name} is not a permission mode; the modes are: {', '.join(MODES)}.")


def with_comments(text: str, comments: Iterable[LineComment]) -> str:
    """Return a text with comments on lines below it."""
    return "\n".join(filter(None, (text.strip(), *map(str, comments))))


def _check_comments(asked: ApprovalRequested | QuestionAsked, decision: UserDecision) -> None:
    """Raise UsageError for a comment on a file that the question does not show, or one without text."""
    if isinstance(asked, ApprovalRequested):
        preview = asked.preview
        diffs = preview.files if isinstance(preview, Diffs) else (preview,) if isinstance(preview, Diff) else ()
        paths = {diff.path for diff in diffs}
    else:
        paths = {str(diff["path"]) for diff in asked.data.get("diffs", ())}
    shown = {escape_lookalikes(one_line(path)) for path in paths}
    for comment in decision.comments:
        if comment.path not in shown:
            raise UsageError(f"comments: {shorten(one_line(comment.path), 60)} is not in this change.")
        if not comment.text.strip():
            raise UsageError("comments: a comment has no text.")


def _approve_call(
    asked: ApprovalRequested, decision: UserDecision, change: EditedCall | None, user: str
) -> Approve | EditedCall:
    """Return the approval of a call. change: with what the user changed; None to run it as it was asked about."""
    offered = [rule for rule in (asked.always, asked.exact) if rule]
    if decision.rule and decision.rule not in offered:
        known = f": {'; '.join(map(one_line, offered))}" if offered else ", and it offers none"
        raise UsageError(f"rule: only the rules that the question offers can be added with an approval{known}.")
    if decision.scope != "session" and not decision.rule:
        raise UsageError(f"scope: there is no rule to save for the {decision.scope}.")
    if decision.scope == "project" and not asked.keeps:
        raise UsageError("scope: this rule can be added for the session only.")
    if decision.scope == "schedule" and not (asked.scheduled and decision.rule == asked.always):
        raise UsageError("scope: no schedule started this session, so there is none to save the rule for.")
    mode, rule, scope = find_mode(decision.mode), decision.rule, decision.scope
    if change is not None:
        return change.replace(comment=decision.text, rule=rule, scope=scope, mode=mode, user=user)
    return Approve(rule=rule, scope=scope, note=decision.text, mode=mode, user=user)


def _changed_call(
    asked: ApprovalRequested, decision: UserDecision, files: Workspace | None, traits_of: TraitsOf
) -> EditedCall | None:
    """Return the call with the hunks or arguments that the user chose; None to run it as it was asked about."""
    if decision.hunks is not None and decision.arguments is not None:
        raise UsageError("hunks, arguments: a decision has one of them, as both change the call.")
    if decision.hunks is not None:
        hunks = editable_call(asked, files, traits_of).hunks if files is not None else ()
        if files is None or not hunks:
            raise UsageError("hunks: this call has none, or its file has changed since it was shown.")
        if not decision.hunks or not set(decision.hunks) <= set(range(len(hunks))):
            raise UsageError(
                f"hunks: this change has {len(hunks)}; name at least one of them, or reject the call to make none."
            )
        chosen = [hunk for at, hunk in enumerate(hunks) if at in decision.hunks]
        if len(chosen) == len(hunks):
            return None
        arguments, note = take_hunks(chosen, hunks, asked.arguments, files)
        return EditedCall(arguments, note, settled=True)
    if decision.arguments is not None and decision.arguments != asked.arguments:
        note = describe_rewrite(asked, decision.arguments, files) if files is not None else ARGUMENTS_CHANGED
        return EditedCall(decision.arguments, note, settled=True)
    return None


def _answer_question(asked: QuestionAsked, decision: UserDecision, user: str) -> QuestionReply:
    if asked.kind == "questions":
        return QuestionReply("answer", _answer_text(asked, decision), user=user)
    word, text = _REPLIES[decision.verdict], decision.text
    if decision.verdict == "answer" and not text.strip():
        raise UsageError("Say what to change: the text is empty.")
    if word == "cancel" and text:
        word = "revise"  # a reason is for the model, which is to do something else
    if decision.plan:
        _check_plan(decision.plan)
    return QuestionReply(cast(Any, word), text, find_mode(decision.mode), user=user, plan=decision.plan)


def _answer_text(asked: QuestionAsked, decision: UserDecision) -> str:
    """Return what the model reads as the answer to its questions."""
    if decision.verdict == "reject":
        return decision.text or DECLINED
    questions = asked.data["questions"]
    if not decision.answers and len(questions) > 1 and decision.text.strip():
        return decision.text  # in one text
    text = read_answers(questions, decision.answers or (decision.text,))
    return f"{text}\nThey added: {decision.text}" if decision.answers and decision.text else text


def _check_plan(plan: Mapping[str, Any]) -> None:
    if unknown := [name for name in plan if name not in _PLAN_FIELDS]:
        raise UsageError(
            f"plan: unknown field {shorten(one_line(unknown[0]), 60)}; a plan has: {', '.join(_PLAN_FIELDS)}."
        )
    lists = [plan.get(name, []) for name in _PLAN_FIELDS if name != "plan"]
    texts = all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in lists)
    if "steps" not in plan or not texts or not isinstance(plan.get("plan", ""), str):
        raise UsageError("An edited plan has the form of the plan that was shown, with its steps.")


def read_answers(questions: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """Return the answers as text for the model, one line per question. Raises UsageError.

    words: one answer per question; for a single question, all words together are the answer.
    """
    if len(questions) == 1:
        words = [" ".join(words)]
    if len(words) != len(questions):
        raise UsageError(
            f"There are {counted(len(questions), 'question')}, and {counted(len(words), 'answer')} was given: give one "
            "for each, in quotes if it has several words."
        )
    return "\n".join(f"{q['question']} -> {chosen_option(q, text)}" for q, text in zip(questions, words, strict=True))


def chosen_option(question: Mapping[str, Any], text: str) -> str:
    """Return the option that a label or a number names (several if allowed), else the text itself.

    What it returns names the same again. Raises UsageError.
    """
    text = text.strip()
    if not text:
        raise UsageError(f'An answer is empty: "{escape_controls(str(question["question"]))}".')
    labels = [str(option["label"]) for option in question.get("options", ())]
    if (same := next((label for label in labels if label.strip().lower() == text.lower()), "")) or not labels:
        return same or text
    several = bool(question.get("multiSelect"))
    if several and set(text.split(", ")) <= set(labels):
        return text
    parts = text.replace(",", " ").split()
    if not all(part.isdigit() for part in parts):
        return text
    numbers = [parse_number(part) for part in parts]
    if len(numbers) > 1 and not several:
        raise UsageError("Choose only one option.")
    if all(1 <= number <= len(labels) for number in numbers):
        return ", ".join(labels[number - 1] for number in numbers)
    if any(c.isdigit() for label in labels for c in label) or (not several and len(text) > len(str(len(labels)))):
        # Where the options contain numbers, or with more digits than an option's, a number may be a free answer.
        return text
    raise UsageError(f"There is no option {text}: choose 1 to {len(labels)}, or write an answer.")
