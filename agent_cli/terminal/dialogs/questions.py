"""Build every question of the program as a dialog and interpret the answers, independent of the screen.

Approval of a call, whole or by hunk; questions of the model; plans; reviews of finished work; and questions of the
user's own commands.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agent_cli.core.decisions import Answer, Approve, Defer, QuestionReply, Reject, assents
from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.modes import MODES
from agent_cli.core.place import UsageError
from agent_cli.runtime.environment import check_mode
from agent_cli.session.pending_plans import lifetime
from agent_cli.terminal.dialogs.edit_call import Changeable, Hunk
from agent_cli.terminal.dialogs.model import (
    Block,
    Choice,
    Dialog,
    DiffBlock,
    Fact,
    GiveAnswer,
    InEditor,
    Option,
    Pick,
    PlanBody,
    Prose,
    Put,
    ShellCommand,
    TextInput,
    Verbatim,
)
from agent_cli.terminal.editor import NO_EDITOR, edited_text
from agent_tools.display import Diff, Diffs
from agent_tools.lookalikes import named_lookalikes, visible
from agent_tools.plan import plan_for_editor, plan_from, plan_text
from agent_tools.record import Value, from_json
from agent_tools.registry import tool_class
from agent_tools.text import counted, number_in, one_line

_YES, _NO = ("y", "yes"), ("n", "no", "")
_VERBS = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}
# Descriptions of grants that only repeat their rule.
_SAYS_NOTHING_MORE = ("just this command", "every change to", "every reading of")
_NO_ALWAYS = "This call cannot be allowed for good. Answer y to allow it once."
# Number of files of a review that are listed.
_NAMED = 30


class ByHunk(Value):
    """The answer that asks to go through a change hunk by hunk."""


class Rest(Value):
    """The answer for a hunk and all after it."""

    take: bool


class Rewritten(Value):
    """The plan as edited by the user, to be presented again."""

    plan: dict[str, Any]


def ask_approval(request: ApprovalRequested, put: Put, change: Changeable | None = None) -> Answer:
    """Ask about a call. change: its editable parts."""
    change = change or Changeable("", {})
    answer: Answer | ByHunk = put(approval_dialog(request, change))
    return _ask_parts(change, put) if isinstance(answer, ByHunk) else answer


def _ask_parts(change: Changeable, put: Put) -> Answer:
    """Ask about each hunk of a change and return the answer for the call."""
    kept: list[Hunk] = []
    rest: Rest | None = None
    for number, hunk in enumerate(change.hunks, 1):
        answer = rest.take if rest else put(hunk_dialog(hunk, number, len(change.hunks)))
        if isinstance(answer, Defer):
            return answer
        if isinstance(answer, Rest):
            rest, answer = answer, answer.take
        if answer:
            kept.append(hunk)
    return change.taken(kept)


def ask_question(asked: QuestionAsked, put: Put, plan_ttl: int = 0) -> QuestionReply | Defer:
    """Ask a question of the model, a plan or a review. plan_ttl: minutes until a plan expires; 0 for never."""
    if asked.kind == "questions":
        return _ask_each(asked.data["questions"], put)
    answer = put(review_dialog(asked.data) if asked.kind == "review" else plan_dialog(asked.data, ttl=plan_ttl))
    while isinstance(answer, Rewritten):
        answer = put(plan_dialog(asked.data, answer.plan, plan_ttl))
    assert isinstance(answer, QuestionReply | Defer)
    return answer


def _ask_each(questions: Sequence[dict[str, Any]], put: Put) -> QuestionReply | Defer:
    answers = []
    for each in questions:
        said = put(question_dialog(each))
        if isinstance(said, Defer):
            return said
        answers.append(f"{each['question']} -> {said}")
    return QuestionReply("answer", "\n".join(answers))


def approval_dialog(request: ApprovalRequested, change: Changeable) -> Dialog:
    """Return the approval dialog of a call. Nothing is shortened: what is not visible cannot be approved."""
    choices = [Choice("y", "yes", GiveAnswer(Approve()), _YES)]
    if request.always:
        session = Approve(rule=request.always)
        choices.append(Choice("a", "this session", GiveAnswer(session), ("a", "always")))
    if request.keeps:
        project = Approve(rule=request.always, scope="project")
        choices.append(Choice("A", "always", GiveAnswer(project), ("A", "Always", "ALWAYS")))
    if change.name:
        in_line = TextInput(f"{change.name}> ", change.edited, change.text)
        edit = in_line if change.in_line else InEditor(change.text, change.edited, change.suffix)
        choices.append(Choice("e", "edit", edit, ("e", "edit")))
    if change.hunks:
        choices.append(Choice("h", f"its {len(change.hunks)} parts one by one", GiveAnswer(ByHunk()), ("h",)))
    choices.append(Choice("n", "no", GiveAnswer(Reject()), _NO))
    choices.append(Choice("r", "no, because", TextInput("no, because> ", _rejection)))
    runs = [e.target for e in request.effects if e.kind == "run"]
    return Dialog(
        Verbatim(visible(request.summary), "ask"),
        tuple(_what_happens(request)),
        tuple(map(Fact, _facts(request))),
        "Allow it?",
        tuple(choices),
        TextInput("no, because> ", _spelled_rejection, hint="or say why not"),
        prompt="Allow?",
        repeated=f"Run: {runs[0]}" if len(runs) == 1 else request.summary,
    )


def _rejection(words: str) -> Reject | None:
    return Reject(words.strip()) if words.strip() else None


def _spelled_rejection(words: str) -> Reject | None:
    """Like `_rejection`, for a line that names no choice. Raises ValueError for one not offered for this call."""
    if words.lower() in ("a", "always"):
        raise ValueError(_NO_ALWAYS)
    return _rejection(words)


def _what_happens(request: ApprovalRequested) -> Iterator[Block]:
    written = {e.target for e in request.effects if e.kind == "write"}
    for effect in request.effects:
        if effect.kind == "run" and request.summary != f"Run: {effect.target}":
            yield ShellCommand(effect.target)
    for effect in request.effects:
        if effect.kind in _VERBS and not (effect.kind == "read" and effect.target in written):
            verb = "types into" if tool_class(request.tool).types_input else _VERBS[effect.kind]
            yield Verbatim(f"  {verb} {visible(effect.target)}", "dim")
    yield DiffBlock(request.preview)


def _facts(request: ApprovalRequested) -> Iterator[str]:
    if odd := named_lookalikes(request.summary, *(e.target for e in request.effects)):
        yield odd
    yield from request.facts
    yield f"because it {request.reason}"
    if request.always:
        several = " and ".join(request.always.rsplit(", ", 1)) if "), " in request.always else request.always
        kept = " · A saves it, and trusts the project as it is" if request.keeps else ""
        yield f"a adds the rule{'s' if several != request.always else ''} {several}{kept}"
        if not request.grants.startswith(_SAYS_NOTHING_MORE):
            yield f"which allows {request.grants}"


def hunk_dialog(hunk: Hunk, number: int, of: int) -> Dialog:
    """Return the question about one hunk of a change. The answer is True, False, or a `Rest`."""
    return Dialog(
        Verbatim(f"Part {number} of {of}", "ask"),
        (DiffBlock(hunk.diff),),
        question="Take this part?",
        choices=(
            Choice("y", "yes", GiveAnswer(True), _YES),
            Choice("n", "no", GiveAnswer(False), ("n", "no")),
            Choice("a", "all the rest", GiveAnswer(Rest(True)), ("a",)),
            Choice("d", "none of the rest", GiveAnswer(Rest(False)), ("d",)),
        ),
    )


def question_dialog(asked: dict[str, Any]) -> Dialog:
    """Return the dialog for one question of the model: a menu with free text, or free text alone.

    The answer is a text.
    """
    options = asked.get("options", [])
    several = bool(asked.get("multiSelect")) or len(options) > 9
    numbered = [Choice(str(n), "", GiveAnswer(chosen(str(n), options))) for n in range(1, min(len(options), 9) + 1)]
    own = TextInput("answer> ", lambda words: chosen(words.strip(), options) if words.strip() else None)
    label = "several, by number, or your own words" if several else "your own words"
    none = GiveAnswer(chosen("", options))
    body = []
    for number, option in enumerate(options, 1):
        more = f" - {option['description']}" if option.get("description") else ""
        # Indented, so that a continuation row cannot pass for an option.
        body.append(Prose(f"  {number}. {option['label']}{more}", more="   "))
    return Dialog(
        Prose(asked["question"], "ask"),
        tuple(body),
        question="Your answer?",
        choices=(*numbered, Choice("r", label, own), Choice("n", "none", none)),
        words=own.replace(
            read=lambda words: chosen(words, options), hint="number, or your own words" if options else "your answer"
        ),
        typing=not options,
    )


def chosen(words: str, options: list[dict[str, Any]]) -> str:
    """Return the labels that numbers select; any other text is returned as typed."""
    numbers = [number_in(word) for word in words.replace(",", " ").split()]
    if numbers and all(1 <= n <= len(options) for n in numbers):
        return ", ".join(str(options[n - 1]["label"]) for n in numbers)
    return words or "(no answer)"


def plan_dialog(data: dict[str, Any], edited: dict[str, Any] | None = None, ttl: int = 0) -> Dialog:
    """Return the dialog for a plan, original or edited. The answer is a reply, or `Rewritten` with an edited plan.

    ttl: minutes until it expires; 0 for never.
    """

    def verdict(words: str) -> QuestionReply:
        reply = read_plan_verdict(words)
        try:
            check_mode(reply.mode or "", os.environ)
        except UsageError as mistake:
            raise ValueError(str(mistake)) from None
        return reply.replace(plan=edited or {}) if reply.verdict == "approve" else reply

    def rewritten(text: str) -> Rewritten | None:
        return Rewritten(plan_from(text)) if text.strip() else None

    left_open = (Prose(f"  (left open, it expires in {lifetime(ttl)})"),) if ttl else ()
    return Dialog(
        Prose("Plan"),
        (PlanBody(plan_text(edited or data)), *left_open),
        question="Approve this plan?",
        choices=(
            Choice("y", "yes", GiveAnswer(verdict("y")), _YES),
            Choice("a", "yes, and accept edits", GiveAnswer(verdict("y acceptEdits")), ("a",)),
            Choice("w", "yes, with words", TextInput("yes, and> ", lambda words: verdict(f"y {words}".strip()))),
            Choice("e", "edit it", InEditor(plan_for_editor(edited or data), rewritten), ("e", "edit")),
            Choice("r", "change it", TextInput("change> ", _revision)),
            Choice("n", "no, end here", GiveAnswer(verdict("n")), _NO),
        ),
        words=TextInput("change> ", verdict, hint="y MODE, y WORDS · or say what to change"),
    )


def _revision(words: str) -> QuestionReply | None:
    return QuestionReply("revise", words.strip()) if words.strip() else None


def read_plan_verdict(words: str) -> QuestionReply:
    """Parse `y`, `y MODE` or `y` with words; `n` or nothing ends the work; any other sentence revises the plan."""
    reply = _verdict(words)
    first, _, more = reply.text.partition(" ")
    if reply.verdict == "approve" and first in MODES:
        return QuestionReply("approve", more.strip(), mode=next(m for m in MODES if m == first))
    return reply


def _verdict(words: str) -> QuestionReply:
    """Parse `y` with optional words, or another yes; `n` or nothing ends the work; any other sentence is a revision."""
    if assents(words):
        return QuestionReply("approve")
    head, _, rest = words.strip().partition(" ")
    if head.lower() in _YES:
        return QuestionReply("approve", rest.strip())
    if words.strip().lower() in _NO:
        return QuestionReply("cancel")
    return QuestionReply("revise", words.strip())


def review_dialog(data: dict[str, Any]) -> Dialog:
    """Return the review dialog before the work continues. The answer is a reply."""
    title, *lines = review_lines(data)
    return Dialog(
        Prose(title),
        (*map(Prose, lines), DiffBlock(review_diffs(data))),
        question="Go on?",
        choices=(
            Choice("y", "yes", GiveAnswer(read_review("y")), _YES),
            Choice("w", "yes, with words", TextInput("go on, and> ", lambda words: read_review(f"y {words}"))),
            Choice("r", "change something first", TextInput("change> ", _revision)),
            Choice("u", "undo this", TextInput("undone; now> ", lambda words: read_review(f"u {words}"))),
            Choice("n", "no, end here", GiveAnswer(read_review("n")), _NO),
        ),
        words=TextInput(
            "change> ", read_review, hint="y WORDS · u: undo this, then go on (u WORDS) · or say what to change first"
        ),
    )


def review_lines(data: dict[str, Any]) -> list[str]:
    """Return the work since the last review as lines, the title first."""
    lines = [one_line(str(data.get("title", "")))]
    lines += [f"  done: {one_line(str(step))}" for step in data.get("steps", ())]
    files = data.get("files", ())
    for file in files[:_NAMED] if not data.get("diffs") else ():
        lines.append(f"  {one_line(str(file['path']))} (+{file['added']} -{file['removed']})")
    if data.get("diffs"):
        added, removed = (sum(file[name] for file in files) for name in ("added", "removed"))
        lines.append(f"  {counted(len(files), 'file')} changed, +{added} -{removed}")
    elif len(files) > _NAMED:
        lines.append(f"  and {counted(len(files) - _NAMED, 'file')} more")
    if not files:
        lines.append("  no file was changed by the tools for files")
    lines += [f"  ran: {one_line(str(command))}" for command in data.get("commands", ())]
    return lines


def review_diffs(data: dict[str, Any]) -> Diffs:
    """Return the file changes since the last review."""
    return Diffs(tuple(from_json(Diff, plain) for plain in data.get("diffs", ())))


def read_review(words: str) -> QuestionReply:
    """Parse `y` or `u` with optional words; `n` or nothing ends the work; any other sentence is a change to make."""
    head, _, rest = words.strip().partition(" ")
    # "undo the rename" is a sentence for the model; only the letter or the single word undoes everything.
    if head.lower() == "u" or words.strip().lower() == "undo":
        return QuestionReply("undo", rest.strip())
    return _verdict(words)


def confirm_dialog(text: str, body: Sequence[Block] = (), question: str = "") -> Dialog:
    """Return a yes-or-no dialog for a command of the user's, or before the session starts."""
    choices = (Choice("y", "yes", GiveAnswer(True), _YES), Choice("n", "no", GiveAnswer(False), _NO))
    title = Prose(text, more="    ") if question else Prose(text, "ask")
    return Dialog(title, tuple(body), question=question, choices=choices, own=True)


def pick_dialog(text: str, options: Sequence[Option]) -> Dialog:
    """Return a menu for a command of the user's; the answer is the index of an option, or None."""
    return Dialog(Prose(text, "ask"), words=Pick("> ", tuple(options)), own=True, guard=0.0)


class Dialogs(ABC):
    """The dialogs that a slash command may use. Each front end draws them in `put`."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Show a line."""

    @abstractmethod
    def put(self, dialog: Dialog) -> Any:
        """Show a dialog and return the answer.

        Defer if the user leaves a question of a turn open, None if they leave one of their own.
        Raises CancelledError if the turn is interrupted.
        """

    def confirm(self, question: str) -> bool:
        """Ask for yes or no; anything but `y` and `yes` is a no."""
        return bool(self.put(confirm_dialog(question)))

    def choose(self, question: str, options: Sequence[Option], *, quiet: bool = False) -> int | None:
        """Return the index of the option that the user picks; None for none. quiet: nothing of it stays."""
        place: int | None = self.put(pick_dialog(question, options).replace(quiet=quiet)) if options else None
        return place

    def ask(self, question: str, read: Callable[[str], Any], text: str = "") -> Any:
        """Ask for a line and return what `read` makes of it, which may raise ValueError; None for no answer."""
        words = TextInput("> ", read, text)
        return self.put(Dialog(Prose(question, "ask"), words=words, typing=True, own=True, guard=0.0, quiet=True))

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        """Return the text edited in the user's editor; None if the editor fails."""
        changed = edited_text(text, suffix)
        if changed is None:
            self.say(NO_EDITOR)
        return changed

    def propose(self, text: str) -> None:  # noqa: B027 - the plain front end has no input line to fill
        """Put a text into the input line if it is empty."""

    def page(self, text: str) -> None:
        """Show a long text."""
        self.say(text)
