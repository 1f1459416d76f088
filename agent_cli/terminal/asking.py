"""Questions of the model and plans that want approval, in lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.answers import Defer, Reply, assents
from agent_cli.core.events import QuestionAsked
from agent_cli.core.modes import MODES
from agent_cli.terminal.approval import ReadLine, forget_typed_ahead, with_interrupts
from agent_cli.terminal.console import prose
from agent_cli.terminal.editor import NO_EDITOR, in_editor
from agent_cli.terminal.reviewing import HINT, read_review, review_lines
from agent_tools.cancel import Cancelled
from agent_tools.clipping import number_in
from agent_tools.plan import plan_text

_LISTS = ("files_to_create", "files_to_modify", "commands", "dependencies", "tests")


class QuestionsInLines:
    """An asker that blocks on lines of input. The end of input leaves the question open; Ctrl-C interrupts."""

    def __init__(self, console: Console, read_line: ReadLine) -> None:
        self._console = console
        self._read_line = read_line

    def __call__(self, asked: QuestionAsked) -> Reply | Defer:
        try:
            if asked.kind == "review":
                return self._review(asked.data)
            return self._plan(asked.data) if asked.kind == "plan" else self._questions(asked.data["questions"])
        except EOFError:
            return Defer()
        except KeyboardInterrupt:
            raise Cancelled from None

    def _plan(self, data: dict[str, Any], edited: str = "") -> Reply:
        """Show the plan, as it is or as the person has rewritten it, and take the verdict."""
        for line in plan_lines({"plan": edited} if edited else data):
            self._say(line)
        self._say("  y: yes (y MODE, y WORDS) · e: edit it first · n: no, end here · or say what to change", "dim")
        forget_typed_ahead()
        words = with_interrupts(lambda: self._read_line("Approve this plan? ")).strip()
        if words.lower() != "e":
            reply = read_verdict(words)
            return reply.but(plan=edited) if edited and reply.verdict == "approve" else reply
        changed = in_editor(edited or plan_text(data))
        if changed is None:
            self._say(NO_EDITOR, "bad")
        return self._plan(data, changed or edited)

    def _review(self, data: dict[str, Any]) -> Reply:
        """Show what was done, and take the verdict."""
        for line in review_lines(data):
            self._say(line)
        self._say(HINT, "dim")
        forget_typed_ahead()
        return read_review(with_interrupts(lambda: self._read_line("Go on? ")))

    def _questions(self, questions: list[dict[str, Any]]) -> Reply:
        answers = []
        for question in questions:
            for row in asked_lines(question, self._console):
                self._console.print(row)
            options = question.get("options", [])
            hint = "number, or your own words" if options else "your answer"
            words = with_interrupts(lambda hint=hint: self._read_line(f"[{hint}] ")).strip()  # type: ignore[misc]
            answers.append(f"{question['question']} -> {chosen(words, options)}")
        return Reply("answer", "\n".join(answers))

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
    """The labels that numbers stand for; anything else is the person's own words."""
    numbers = [number_in(word) for word in words.replace(",", " ").split()]
    if numbers and all(1 <= n <= len(options) for n in numbers):
        return ", ".join(str(options[n - 1]["label"]) for n in numbers)
    return words or "(no answer)"


def read_verdict(words: str) -> Reply:
    """`y`, `y MODE`, `y` and words; `n` or nothing ends the work; any other sentence sends the plan back."""
    if assents(words):
        return Reply("approve")
    head, _, rest = words.partition(" ")
    if head.lower() in ("y", "yes"):
        first, _, more = rest.strip().partition(" ")
        if first in MODES:
            return Reply("approve", more.strip(), mode=next(m for m in MODES if m == first))
        return Reply("approve", rest.strip())
    if words.lower() in ("", "n", "no"):
        return Reply("cancel")
    return Reply("revise", words)


def plan_lines(data: dict[str, Any]) -> list[str]:
    """A plan as lines: the prose, then what it comes down to."""
    lines = ["? Plan", *(f"  {line}" for line in str(data.get("plan", "")).splitlines())]
    if not data.get("plan"):
        lines += [f"  {line}" for line in plan_text(data).splitlines()]
    for name in _LISTS:
        if data.get(name):
            lines.append(f"  {name.replace('_', ' ')}: {', '.join(data[name])}")
    return lines
