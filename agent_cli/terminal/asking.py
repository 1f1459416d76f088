"""Questions of the model, plans to approve and work to review, in lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.answers import Defer, QuestionReply, assents
from agent_cli.core.events import QuestionAsked
from agent_cli.core.modes import MODES
from agent_cli.place import UsageError, check_mode
from agent_cli.session.plans import lifetime
from agent_cli.terminal.approval import Aside, ReadLine, with_interrupts
from agent_cli.terminal.console import prose
from agent_cli.terminal.editor import edited_as
from agent_cli.terminal.input import wait_until_quiet
from agent_cli.terminal.reviewing import HINT, read_review, review_diffs, review_lines
from agent_cli.terminal.views import display_lines
from agent_tools.cancel import CancelledError
from agent_tools.clipping import number_in
from agent_tools.plan import plan_for_editor, plan_from, plan_text


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
