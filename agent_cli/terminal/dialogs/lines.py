"""The question before a dangerous call, in lines: what will happen, why it is asked, and what can be said to it.

What a user is shown at a review gate, and what their words mean; the same for lines and for the application.
Questions of the model, plans to approve and work to review, in lines.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from agent_cli.core.approvals import Answer, Approve, Defer, QuestionReply, Reject, assents
from agent_cli.core.events import ApprovalRequested, QuestionAsked
from agent_cli.core.modes import MODES
from agent_cli.core.place import UsageError
from agent_cli.runtime.environment import check_mode
from agent_cli.session.pending_plans import lifetime
from agent_cli.terminal.dialogs.edit_call import Changeable, Hunk
from agent_cli.terminal.editor import NO_EDITOR, edited_as, edited_text, wait_until_quiet
from agent_cli.terminal.render.console import hanging, prose, styled
from agent_cli.terminal.render.diff import display_lines
from agent_tools.cancel import CancelledError
from agent_tools.display import Diff, Diffs
from agent_tools.lookalikes import named_lookalikes, visible
from agent_tools.plan import plan_for_editor, plan_from, plan_text
from agent_tools.record import from_plain
from agent_tools.text import counted, number_in, one_line

T = TypeVar("T")
ReadLine = Callable[[str], str]
# Runs a slash command that may be given at a question; False where the words are none.
Aside = Callable[[str], bool]
# The rows of a screen below the question: its keys, the input line, the toolbar.
_BELOW = 6
# Of a long command, where it is shown once more: its first rows and its last.
_FIRST, _LAST = 4, 2
# Grants of rules that say it themselves.
_SAYS_NOTHING_MORE = ("just this command", "every change to", "every reading of")
NO_ALWAYS = "This call cannot be allowed for good; it was refused. Answer y to allow it once."


class AskInLines:
    """An approver that blocks on one line of input.

    Exactly `y` or `yes` approves, `a` or `always` also remembers the rule that was shown (`A` or `Always`: for good,
    where that is offered), `e` or `h` first changes what can be changed, `n`, `no` or nothing refuses, and any other
    sentence refuses and goes to the model as the reason. The end of the input, of a
    terminal or a pipe, leaves the question open. Ctrl-C interrupts.
    `aside` runs slash commands that may be given here (so the plan can be changed while a turn waits); the question
    then stands again. `changeable` tells what of a call can be changed.
    """

    def __init__(
        self,
        console: Console,
        read_line: ReadLine,
        aside: Aside | None = None,
        changeable: Callable[[ApprovalRequested], Changeable] = lambda request: Changeable("", {}),
    ) -> None:
        self._console = console
        self._read_line = read_line
        self._aside = aside
        self._changeable = changeable

    def __call__(self, request: ApprovalRequested) -> Answer:
        change = self._changeable(request)
        words = ["y yes", "n no"]
        words += ["a this session"] if request.always else []
        words += ["A always"] if request.keeps else []
        words += ["e edit"] if change.name else []
        words += [f"h its {len(change.hunks)} parts one by one"] if change.hunks else []
        try:
            with_interrupts(lambda: self._put(request))
            return self._answer(request, change, f"[{' · '.join(words)} · or say why not] Allow? ")
        except EOFError:
            # The user has left; the question stays open, to be decided later.
            return Defer()
        except KeyboardInterrupt:
            raise CancelledError from None

    def _put(self, request: ApprovalRequested) -> None:
        self._show(question_lines(request, self._console))
        wait_until_quiet()

    def _answer(self, request: ApprovalRequested, change: Changeable, label: str) -> Answer:
        while True:
            words = self._words(label)
            answer: Answer | None
            if self._aside is not None and words.startswith("/") and self._aside(words):
                continue
            if words.lower() in ("e", "edit") and change.name:
                answer = self._edited(change)
            elif words.lower() == "h" and change.hunks:
                answer = self._in_parts(change)
            elif (answer := answer_to(request, words)) is None:
                self._console.print(styled(NO_ALWAYS))
                return Reject()
            if answer is not None:
                return answer

    def _edited(self, change: Changeable) -> Answer | None:
        """The call as the user has changed it; None where they have not."""
        if change.in_line:
            return change.edited(self._words(f"new {change.name} (nothing: leave it)> "))
        text = edited_text(change.text)
        if text is None:
            self._console.print(styled(NO_EDITOR, "bad"))
        return change.edited(text) if text is not None else None

    def _in_parts(self, change: Changeable) -> Answer:
        """Ask about each part of a change; what comes of that for the call."""
        kept: list[Hunk] = []
        rest = ""
        for number, hunk in enumerate(change.hunks, 1):
            words = rest
            if not words:
                self._show(
                    [styled(f"? Part {number} of {len(change.hunks)}", "ask"), *display_lines(hunk.diff, whole=True)]
                )
                self._hint("y: yes · n: no · a: all the rest · d: none of the rest")
                with_interrupts(wait_until_quiet)
            while words not in ("y", "yes", "n", "no", "a", "d"):
                words = self._words("Take this part? ").lower()
            rest = words if words in ("a", "d") else ""
            if words in ("y", "yes", "a"):
                kept.append(hunk)
        return change.taken(kept)

    def _words(self, label: str) -> str:
        return with_interrupts(lambda: self._read_line(label)).strip()

    def _show(self, lines: Iterable[Text]) -> None:
        for line in lines:
            self._console.print(line)

    def _hint(self, text: str) -> None:
        self._show(_fact(text, self._console))


def answer_to(request: ApprovalRequested, words: str) -> Answer | None:
    """What a user's words, or a key, say to a question; None for "always" where there is no such rule."""
    if words.lower() in ("y", "yes"):
        return Approve()
    if words in ("A", "Always", "ALWAYS") and request.keeps:
        return Approve(rule=request.always, scope="project")
    if words.lower() in ("a", "always"):
        return Approve(rule=request.always) if request.always else None
    return Reject("" if words.lower() in ("", "n", "no") else words)


def question_lines(request: ApprovalRequested, console: Console) -> Iterator[Text]:
    """What will happen and why it is asked. Nothing is shortened: what cannot be seen should not be approved.

    Where that is more than a screen has, what is asked about stands once more at its end, folded in the middle.
    """
    lines = list(_whole(request, console))
    yield from lines
    rows = sum(max(1, -(-line.cell_len // max(console.width, 1))) for line in lines)
    if rows > shutil.get_terminal_size().lines - _BELOW:
        yield from _folded(request, console)


def _whole(request: ApprovalRequested, console: Console) -> Iterator[Text]:
    yield styled(f"? {visible(request.summary)}", "ask")
    written = {e.target for e in request.effects if e.kind == "write"}
    runs = [e.target for e in request.effects if e.kind == "run"]
    for command in runs:
        if request.summary != f"Run: {command}":
            for words in command.splitlines() or [""]:
                yield styled(f"  $ {visible(words)}")
    for effect in request.effects:
        other = effect.kind not in ("run", "state", "prompt")
        if other and not (effect.kind == "read" and effect.target in written):
            verb = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}[effect.kind]
            yield styled(f"  {verb} {visible(effect.target)}", "dim")
    yield from display_lines(request.preview, whole=True)
    odd = named_lookalikes(request.summary, *(e.target for e in request.effects))
    facts = [*([odd] if odd else []), *request.facts, f"because it {request.reason}"]
    if request.always:
        several = " and ".join(request.always.rsplit(", ", 1)) if "), " in request.always else request.always
        kept = " · A saves it, and trusts the project as it is" if request.keeps else ""
        facts.append(f"a adds the rule{'s' if several != request.always else ''} {several}{kept}")
        if not request.grants.startswith(_SAYS_NOTHING_MORE):
            facts.append(f"which allows {request.grants}")
    for fact in facts:
        yield from _fact(visible(fact), console)


def _folded(request: ApprovalRequested, console: Console) -> Iterator[Text]:
    """What is asked about, in a few rows."""
    runs = [e.target for e in request.effects if e.kind == "run"]
    text = f"? Run: {runs[0]}" if len(runs) == 1 else f"? {request.summary}"
    rows = [row for line in text.splitlines() for row in hanging(styled(visible(line), "ask"), console, "", "  ")]
    left = len(rows) - _FIRST - _LAST
    if left > 1:
        rows[_FIRST:-_LAST] = [styled(f"  [{left} more rows, which stand above]", "dim")]
    yield from rows


def _fact(text: str, console: Console) -> Iterator[Text]:
    """One fact, wrapped with an indent, so that what goes on in the next line cannot pass for one of its own."""
    return hanging(styled(text, "dim"), console, "  ", "    ")


def with_interrupts(read: Callable[[], T]) -> T:
    """Read with Ctrl-C as KeyboardInterrupt, whatever the handler is while a turn runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return read()
    finally:
        signal.signal(signal.SIGINT, before)


HINT = "  y: go on (y WORDS) · u: undo this, then go on (u WORDS) · n: end here · or say what to change first"
_SHOWN = 30


def review_lines(data: dict[str, Any]) -> list[str]:
    """What was done since the last look."""
    lines = [f"? {one_line(str(data.get('title', '')))}"]
    lines += [f"  done: {one_line(str(step))}" for step in data.get("steps", ())]
    files = data.get("files", ())
    for file in files[:_SHOWN] if not data.get("diffs") else ():
        lines.append(f"  {one_line(str(file['path']))} (+{file['added']} -{file['removed']})")
    if data.get("diffs"):
        added, removed = (sum(file[name] for file in files) for name in ("added", "removed"))
        lines.append(f"  {counted(len(files), 'file')} changed, +{added} -{removed}")
    elif len(files) > _SHOWN:
        lines.append(f"  and {counted(len(files) - _SHOWN, 'file')} more")
    if not files:
        lines.append("  no file was changed by the tools for files")
    lines += [f"  ran: {one_line(str(command))}" for command in data.get("commands", ())]
    return lines


def review_diffs(data: dict[str, Any]) -> Diffs:
    """What was changed since the last look."""
    return Diffs(tuple(from_plain(Diff, plain) for plain in data.get("diffs", ())))


def review_text(data: dict[str, Any]) -> list[str]:
    """All of it in lines without style, diffs included."""
    diffs = (
        (f"  {one_line(d.path)} (+{d.added} -{d.removed})", *d.patch.splitlines()) for d in review_diffs(data).files
    )
    return [*review_lines(data), *(line for diff in diffs for line in diff)]


def read_review(words: str) -> QuestionReply:
    """`y` or `u` and perhaps words; `n` or nothing ends the work; any other sentence is what to change first."""
    if assents(words):
        return QuestionReply("approve")
    head, _, rest = words.strip().partition(" ")
    if head.lower() in ("y", "yes"):
        return QuestionReply("approve", rest.strip())
    # "undo the rename" is a sentence for the model; only the letter takes everything back.
    if head.lower() == "u" or words.strip().lower() == "undo":
        return QuestionReply("undo", rest.strip())
    if words.strip().lower() in ("", "n", "no"):
        return QuestionReply("cancel")
    return QuestionReply("revise", words.strip())


class QuestionsInLines:
    """An asker that blocks on lines of input. The end of input leaves the question open; Ctrl-C interrupts.

    aside: runs the slash commands that may be given here; the question then stands again. plan_ttl: minutes that a plan
    may wait; 0 for ever.
    """

    def __init__(
        self,
        console: Console,
        read_line: ReadLine,
        aside: Aside = lambda words: False,
        plan_ttl: int = 0,
    ) -> None:
        self._console = console
        self._read_line = read_line
        self._aside = aside
        self._plan_ttl = plan_ttl

    def __call__(self, asked: QuestionAsked) -> QuestionReply | Defer:
        try:
            if asked.kind == "review":
                return self._review(asked.data)
            return self._plan(asked.data) if asked.kind == "plan" else self._questions(asked.data["questions"])
        except EOFError:
            return Defer()
        except KeyboardInterrupt:
            raise CancelledError from None

    def _plan(self, data: dict[str, Any]) -> QuestionReply:
        """Show the plan, as it is or as the user has edited it, and take the verdict."""
        edited: dict[str, Any] = {}
        draft = ""
        while True:
            for line in plan_lines(edited or data, self._plan_ttl):
                self._say(line)
            self._say("  y: yes (y MODE, y WORDS) · e: edit it first · n: no, end here · or say what to change", "dim")
            with_interrupts(wait_until_quiet)
            words = self._words("Approve this plan? ")
            if words.lower() not in ("e", "edit"):
                reply = read_plan_verdict(words)
                if why := refused_mode(reply):
                    self._say(why, "bad")
                    continue
                return reply.but(plan=edited) if reply.verdict == "approve" else reply
            came = edited_as(draft or plan_for_editor(edited or data), read_plan)
            edited, draft = came.answer or edited, came.text if came.problem else ""
            if came.problem:
                self._say(came.problem, "bad")

    def _review(self, data: dict[str, Any]) -> QuestionReply:
        """Show what was done, and take the verdict."""
        for line in review_lines(data):
            self._say(line)
        for row in display_lines(review_diffs(data), whole=True):
            self._console.print(row)
        self._say(HINT, "dim")
        with_interrupts(wait_until_quiet)
        return read_review(self._words("Go on? "))

    def _questions(self, questions: list[dict[str, Any]]) -> QuestionReply:
        answers = []
        for question in questions:
            for row in asked_lines(question, self._console):
                self._console.print(row)
            options = question.get("options", [])
            with_interrupts(wait_until_quiet)
            words = self._words("[number, or your own words] " if options else "[your answer] ")
            answers.append(f"{question['question']} -> {chosen(words, options)}")
        return QuestionReply("answer", "\n".join(answers))

    def _words(self, label: str) -> str:
        """A line that is no command."""
        while True:
            words = with_interrupts(lambda: self._read_line(label)).strip()
            if not (words.startswith("/") and self._aside(words)):
                return words

    def _say(self, text: str, style: str = "") -> None:
        for row in prose(text, self._console, style):
            self._console.print(row)


def asked_lines(question: dict[str, Any], console: Console) -> Iterator[Text]:
    """A question of the model's with its options, by number."""
    yield from prose(f"? {question['question']}", console, "ask")
    for number, option in enumerate(question.get("options", []), 1):
        more = f" - {option['description']}" if option.get("description") else ""
        # Indented, so that what goes on in the next row cannot pass for an option.
        yield from prose(f"  {number}. {option['label']}{more}", console, more="   ")


def chosen(words: str, options: list[dict[str, Any]]) -> str:
    """The labels that numbers stand for; anything else is the user's own words."""
    numbers = [number_in(word) for word in words.replace(",", " ").split()]
    if numbers and all(1 <= n <= len(options) for n in numbers):
        return ", ".join(str(options[n - 1]["label"]) for n in numbers)
    return words or "(no answer)"


def read_plan_verdict(words: str) -> QuestionReply:
    """`y`, `y MODE`, `y` and words; `n` or nothing ends the work; any other sentence sends the plan back."""
    if assents(words):
        return QuestionReply("approve")
    head, _, rest = words.partition(" ")
    if head.lower() in ("y", "yes"):
        first, _, more = rest.strip().partition(" ")
        if first in MODES:
            return QuestionReply("approve", more.strip(), mode=next(m for m in MODES if m == first))
        return QuestionReply("approve", rest.strip())
    if words.lower() in ("", "n", "no"):
        return QuestionReply("cancel")
    return QuestionReply("revise", words)


def refused_mode(reply: QuestionReply) -> str:
    """Why the mode that a plan was approved for is refused here; empty where it is not."""
    try:
        check_mode(reply.mode or "", os.environ)
    except UsageError as mistake:
        return str(mistake)
    return ""


def plan_lines(data: dict[str, Any], ttl: int = 0) -> list[str]:
    """A plan as lines: its prose, then the steps, files, commands and tests that it comes down to.

    ttl: minutes that it may wait; 0 for ever.
    """
    lines = ["? Plan", *(f"  {line}".rstrip() for line in plan_text(data).splitlines())]
    return [*lines, f"  (left open, it expires in {lifetime(ttl)})"] if ttl else lines


def read_plan(text: str) -> dict[str, Any] | None:
    """An edited plan; None where nothing is left of the text, so that the plan stays as it was. Raises ValueError."""
    return plan_from(text) if text.strip() else None
