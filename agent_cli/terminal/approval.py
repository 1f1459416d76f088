"""The question before a dangerous call, in lines: what will happen, why it is asked, and what can be said to it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from agent_cli.core.answers import Answer, Approve, Defer, Reject
from agent_cli.core.events import ApprovalRequested
from agent_cli.terminal.changeable import Changeable
from agent_cli.terminal.console import hanging, styled
from agent_cli.terminal.editor import NO_EDITOR, edited_text
from agent_cli.terminal.hunks import Hunk
from agent_cli.terminal.input import wait_until_quiet
from agent_cli.terminal.views import display_lines
from agent_tools.cancel import CancelledError
from agent_tools.lookalikes import named_lookalikes, visible

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
