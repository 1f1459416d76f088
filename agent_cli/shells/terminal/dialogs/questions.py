"""Build the questions of the program as dialogs and read the answers as decisions, independent of the screen.

Questions of the model, plans, reviews of finished work, and questions of slash commands. Approvals of calls are in
`approval`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli import MODES, Defer, QuestionAsked, QuestionReply, UsageError, UserDecision
from agent_cli.kernel.runtime.user_decision import chosen_option
from agent_cli.shells.terminal.dialogs.approval import NO, YES, ask_until_valid, decided, words_for
from agent_cli.shells.terminal.dialogs.model import (
    Block,
    Choice,
    Dialog,
    DiffBlock,
    GiveAnswer,
    InEditor,
    Option,
    Pick,
    PlanBody,
    Prose,
    Put,
    TextInput,
)
from agent_cli.shells.terminal.dialogs.view import PRINTED_COLUMNS, Chosen, View, prose_lines
from agent_cli.shells.terminal.editor import NO_EDITOR, edit_text
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import parse_plan, plan_for_editor, plan_text
from agent_tools.record import Value, from_json
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted, in_minutes, one_line

NO_ANSWER = "(no answer)"
# Number of files of a review that are listed.
_MAX_FILES = 30
# A first line that names the plan, as a heading or in bold; longer ones remain part of the text.
_PLAN_TITLE = re.compile(r"\s*(?:#{1,6}[ \t]+([^\n]{1,80}?)[ \t]*#*|\*\*([^\n*]{1,80})\*\*:?)[ \t]*(?:\n|\Z)")


class RewrittenPlan(Value):
    """The plan as edited by the user, to be presented again."""

    plan: dict[str, Any]


CheckMode = Callable[[str], None]


def allow_any(mode: str) -> None:
    """Refuse no mode: whatever carries the answer out checks it."""


def ask_question(
    asked: QuestionAsked, put: Put, workspace: Workspace, plan_ttl: int = 0, check_mode: CheckMode = allow_any
) -> QuestionReply | Defer:
    """Ask a question of the model, a plan or a review.

    plan_ttl: minutes until a plan expires; 0 for never. check_mode: as for `plan_dialog`.
    """

    def ask(refused: str) -> UserDecision | Defer:
        def put_again(dialog: Dialog) -> Any:
            return put(dialog.replace(warnings=(refused,)) if refused else dialog)

        if asked.kind == "questions":
            return _ask_each(asked, put_again)
        if asked.kind == "review":
            answer = put_again(review_dialog(asked))
        else:
            answer = put_again(plan_dialog(asked, ttl=plan_ttl, check_mode=check_mode))
        while isinstance(answer, RewrittenPlan):
            answer = put(plan_dialog(asked, answer.plan, plan_ttl, check_mode))
        assert isinstance(answer, UserDecision | Defer)
        return answer

    return ask_until_valid(ask, lambda decision: decision.answer_to(asked, workspace))


def _ask_each(asked: QuestionAsked, put: Put) -> UserDecision | Defer:
    answers = []
    for each in asked.data["questions"]:
        answer = put(question_dialog(each))
        if isinstance(answer, Defer):
            return answer
        answers.append(answer)
    return decided(asked, "answer").replace(answers=tuple(answers))


def question_dialog(asked: dict[str, Any]) -> Dialog:
    """Return the dialog for one question of the model: a list with an entry for free text, or free text alone.

    The answer is a text.
    """
    options = asked.get("options", [])
    labels = [str(option["label"]).strip() or NO_ANSWER for option in options]
    typed = TextInput("answer> ", lambda words: _option(asked, words) if words.strip() else None)
    listed = [
        Choice(str(number), option["label"], GiveAnswer(label), detail=option.get("description", ""))
        for number, (option, label) in enumerate(zip(options, labels, strict=True), 1)
    ]
    several = bool(asked.get("multiSelect")) and bool(options)
    numbers = f"1-{len(options)}, " if options else ""
    hint = f"{numbers}{'several as 1,3, ' if several else ''}{'or ' if options else ''}type an answer"
    return Dialog(
        Prose(asked["question"], "ask"),
        question="Choose" if options else "Answer",
        choices=(
            *listed,
            Choice("r", "Type an answer", typed, listed=bool(options)),
            Choice("n", "Skip", GiveAnswer(NO_ANSWER), listed=False),
        ),
        words=typed.replace(read=lambda words: _option(asked, words), hint=hint),
        typing=not options,
        several=(lambda marked: ", ".join(labels[n] for n in marked) or NO_ANSWER) if several else None,
    )


def _option(question: dict[str, Any], words: str) -> str:
    """Return the answer that typed words give. Raises ValueError."""
    try:
        return chosen_option(question, words) if words.strip() else NO_ANSWER
    except UsageError as refused:
        raise ValueError(str(refused)) from None


def _titled_plan(text: str) -> tuple[str, str]:
    """Split a plan into its title and the rest, so that the word is not shown twice above it."""
    found = _PLAN_TITLE.match(text)
    title = (found[1] or found[2]).rstrip(": ") if found else ""
    rest = text[found.end() :].lstrip("\n") if found else ""
    return (title, rest) if rest and re.search(r"\bplan\b", title, re.IGNORECASE) else ("Plan", text)


def plan_dialog(
    asked: QuestionAsked, edited: dict[str, Any] | None = None, ttl: int = 0, check_mode: CheckMode = allow_any
) -> Dialog:
    """Return the dialog for a plan, original or edited.

    The answer is a decision, or `RewrittenPlan` with an edited plan.

    ttl: minutes until it expires; 0 for never.
    check_mode: raises UsageError for a mode that an answer may not choose.
    """

    def verdict(words: str) -> UserDecision:
        decision = read_plan_verdict(asked, words)
        try:
            check_mode(decision.mode)
        except UsageError as mistake:
            raise ValueError(str(mistake)) from None
        return decision.replace(plan=edited or {}) if decision.verdict == "approve" else decision

    def parse_edited(text: str) -> RewrittenPlan | None:
        return RewrittenPlan(parse_plan(text)) if text.strip() else None

    plan = edited or asked.data
    left_open = f"expires in {in_minutes(ttl)} if left open" if ttl else ""
    note = TextInput("yes, and> ", lambda words: verdict(f"y {words}".strip()))
    edits = TextInput("yes, and> ", lambda words: verdict(f"y acceptEdits {words}".strip()))
    title, text = _titled_plan(plan_text(plan))
    return Dialog(
        Prose(title, "ask"),
        (PlanBody(text),),
        question="Approve this plan?",
        about=left_open,
        choices=(
            Choice("y", "Yes, carry it out", GiveAnswer(verdict("y")), YES, "yes", comment=note),
            Choice("a", "Yes, and make its edits without asking", GiveAnswer(verdict("y acceptEdits")), ("a",),
                   "yes, accept edits", comment=edits),
            Choice("r", "Change it: say what", words_for("change> ", decided(asked, "answer")),
                   short="request changes"),
            Choice("n", "No, cancel", GiveAnswer(verdict("n")), NO, "cancel"),
            Choice("e", "edit the plan", InEditor(plan_for_editor(plan), parse_edited), ("e", "edit"), "edit",
                   listed=False),
            Choice("w", "approve with a comment", note, listed=False),
        ),
        asks="Carry out this plan?",
        whole=True,
        words=TextInput("change> ", verdict, hint="y MODE, y COMMENT, or say what to change"),
    )  # fmt: skip


def read_plan_verdict(asked: QuestionAsked, words: str) -> UserDecision:
    """Parse `y`, `y MODE` or `y` with words; `n` or nothing ends the work; any other sentence revises the plan."""
    decision = _parse_verdict(asked, words)
    first, _, more = decision.text.partition(" ")
    if decision.verdict == "approve" and first in MODES:
        return decision.replace(text=more.strip(), mode=first)
    return decision


def _parse_verdict(asked: QuestionAsked, words: str) -> UserDecision:
    """Parse `y` with optional words, or another assent; `n` or nothing ends the work; any other text is a revision."""
    if QuestionReply.is_assent(words):
        return decided(asked, "approve")
    head, _, rest = words.strip().partition(" ")
    if head.lower() in YES:
        return decided(asked, "approve", rest)
    if words.strip().lower() in NO:
        return decided(asked, "reject")
    return decided(asked, "answer", words)


def review_dialog(asked: QuestionAsked) -> Dialog:
    """Return the review dialog before the work continues. The answer is a decision."""

    def read(words: str) -> UserDecision:
        return _read_review(asked, words)

    title, *lines = review_lines(asked.data)
    note = TextInput("continue, and> ", lambda words: read(f"y {words}"))
    undo = TextInput("undone; now> ", lambda words: read(f"u {words}"))
    change = words_for("change> ", decided(asked, "answer"))
    diffs = review_diffs(asked.data)
    titled = len(diffs.files) == 1 and diffs.files[0].path in title
    return Dialog(
        Prose(title, "ask"),
        (*map(Prose, lines), DiffBlock(diffs, titled=titled)),
        question="Continue?",
        choices=(
            Choice("y", "Yes, continue", GiveAnswer(read("y")), YES, "yes", comment=note),
            Choice("r", "Request changes first", change, short="request changes first"),
            Choice("u", "Undo this", undo, short="undo this", grave=True),
            Choice("n", "No, end here", GiveAnswer(read("n")), NO, "no, end here"),
            Choice("w", "continue with a comment", note, listed=False),
        ),
        words=TextInput(
            "change> ", read, hint="y COMMENT, u: undo this and continue (u COMMENT), or say what to change"
        ),
        asks=f"{title.rstrip('.')}. Continue?",
    )


def review_lines(data: dict[str, Any]) -> list[str]:
    """Return the work since the last review as lines, the title first."""
    lines = [one_line(str(data.get("title", "")))]
    lines += [f"  done: {one_line(str(step))}" for step in data.get("steps", ())]
    files = data.get("files", ())
    for file in files[:_MAX_FILES] if not data.get("diffs") else ():
        lines.append(f"  {one_line(str(file['path']))} (+{file['added']} -{file['removed']})")
    if data.get("diffs"):
        added, removed = (sum(file[name] for file in files) for name in ("added", "removed"))
        lines.append(f"  {counted(len(files), 'file')} changed, +{added} -{removed}")
    elif len(files) > _MAX_FILES:
        lines.append(f"  and {counted(len(files) - _MAX_FILES, 'file')} more")
    if not files:
        lines.append("  no file was changed by the tools for files")
    lines += [f"  ran: {one_line(str(command))}" for command in data.get("commands", ())]
    return lines


def review_diffs(data: dict[str, Any]) -> Diffs:
    """Return the file changes since the last review."""
    return Diffs(tuple(from_json(Diff, plain) for plain in data.get("diffs", ())))


def _read_review(asked: QuestionAsked, words: str) -> UserDecision:
    """Parse `y` or `u` with optional words; `n` or nothing ends the work; any other sentence is a change to make."""
    head, _, rest = words.strip().partition(" ")
    # "undo the rename" is a sentence for the model; only the letter or the single word undoes everything.
    if head.lower() == "u" or words.strip().lower() == "undo":
        return decided(asked, "undo", rest)
    return _parse_verdict(asked, words)


def confirm_dialog(text: str, body: Sequence[Block] = (), question: str = "", *, grave: bool) -> Dialog:
    """Return a yes-or-no dialog for a command of the user's, or before the session starts.

    grave: as in `Dialog`; every caller has to set it.
    """
    choices = (
        Choice("y", "Yes", GiveAnswer(True), YES, "yes"),
        Choice("n", "No", GiveAnswer(False), NO, "no"),
    )
    title = Prose(text, more="    ") if question else Prose(text, "ask")
    return Dialog(title, tuple(body), question=question, choices=choices, from_command=True, grave=grave)


def pick_dialog(text: str, options: Sequence[Option], empty: str = "cancel") -> Dialog:
    """Return a menu for a command of the user's; the answer is the index of an option, or None."""
    return Dialog(Prose(text, "ask"), words=Pick("> ", tuple(options), empty), from_command=True, guard=0.0)


def decide_dialog(text: str, options: Sequence[tuple[str, str, str]], *, grave: bool) -> Dialog:
    """Return a dialog with few fixed answers, each (key, label, detail); the answer is its key. grave: as above."""
    choices = []
    for number, (key, label, detail) in enumerate(options, 1):
        names = (key, label.lower(), str(number), *(("",) if key == "n" else ()))
        short = f"{label.lower()}: {detail}" if detail else label.lower()
        choices.append(Choice(key, label, GiveAnswer(key), names, short, detail=detail))
    return Dialog(Prose(text, "ask"), question=text, choices=tuple(choices), from_command=True, grave=grave)


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

    def confirm(self, question: str, *, grave: bool) -> bool:
        """Ask a yes-or-no question; anything but `y` and `yes` means no. grave: as in `Dialog`."""
        return bool(self.put(confirm_dialog(question, grave=grave)))

    def decide(self, question: str, options: Sequence[tuple[str, str, str]], *, grave: bool) -> str | None:
        """Return the key of the user's answer; None for `n` or no answer. grave: as in `Dialog`."""
        key: str | None = self.put(decide_dialog(question, options, grave=grave))
        return None if key == "n" else key

    def choose(self, question: str, options: Sequence[Option], *, quiet: bool = False) -> int | None:
        """Return the index of the option that the user picks, or None. quiet: nothing of it stays on the screen."""
        picked: int | None = self.put(pick_dialog(question, options).replace(quiet=quiet)) if options else None
        return picked

    def ask(self, question: str, read: Callable[[str], Any], text: str = "") -> Any:
        """Ask for a line and return it as parsed by `read`, which may raise ValueError; None for no answer."""
        words = TextInput("> ", read, text)
        return self.put(
            Dialog(Prose(question, "ask"), words=words, typing=True, from_command=True, guard=0.0, quiet=True)
        )

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        """Return the text edited in the user's editor; None if the editor fails."""
        changed = edit_text(text, suffix)
        if changed is None:
            self.say(NO_EDITOR)
        return changed

    def propose_message(self, text: str) -> None:  # noqa: B027 - the plain front end has no input line to fill
        """Put a text into the input line if it is empty."""

    def page(self, text: str, title: str = "") -> None:
        """Show a long text."""
        self.show_view(View(title, lambda width: prose_lines(text, width)))

    def show_view(self, view: View) -> Chosen | None:
        """Show a view until the user closes it; return how it was left. Without a live screen, its text is printed."""
        for line in view.printed(PRINTED_COLUMNS):
            self.say(line.plain.rstrip())
        return None

    def pick_from(self, view: View) -> Chosen | None:
        """Let the user pick an item of a view; return how it was left, None if nothing was picked."""
        picked = self.choose(view.title, [(item.label, item.about) for item in view.items])
        return None if picked is None else Chosen("enter", picked)
