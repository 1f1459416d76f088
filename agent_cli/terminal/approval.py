"""The question before a dangerous call, in lines: what will happen, why it is asked, and y/n/a or words."""

from __future__ import annotations

import contextlib
import signal
import termios
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from agent_cli.core.answers import Answer, Approve, Reject
from agent_cli.core.events import ApprovalRequested
from agent_cli.terminal.console import hanging, styled
from agent_cli.terminal.views import lines_of
from agent_tools.cancel import Cancelled

ReadLine = Callable[[str], str]
# Runs a slash command that may be given at a question; False where the words are none.
Aside = Callable[[str], bool]
NO_ALWAYS = "This call cannot be allowed for good; it was refused. Answer y to allow it once."


class AskInLines:
    """An approver that blocks on one line of input.

    Exactly `y` or `yes` approves, `a` or `always` also remembers the rule that was shown (`A` or `Always`: for good,
    where that is offered), `n`, `no` or nothing refuses, and any other sentence refuses and goes to the model as the
    reason. The end of input refuses; Ctrl-C interrupts.
    `aside` runs slash commands that may be given here (so the plan can be changed while a turn waits); the question
    then stands again.
    """

    def __init__(self, console: Console, read_line: ReadLine, aside: Aside | None = None) -> None:
        self._console = console
        self._read_line = read_line
        self._aside = aside

    def __call__(self, request: ApprovalRequested) -> Answer:
        for line in question_lines(request, self._console):
            self._console.print(line)
        always = " · a: always, in this session" if request.always else ""
        keeps = " · A: always, kept for this project" if request.keeps else ""
        for line in _fact(f"y: yes · n: no{always}{keeps} · or say what to do instead", self._console):
            self._console.print(line)
        forget_typed_ahead()
        try:
            words = with_interrupts(lambda: self._read_line("Allow? ")).strip()
            while self._aside is not None and words.startswith("/") and self._aside(words):
                words = with_interrupts(lambda: self._read_line("Allow? ")).strip()
        except EOFError:
            return Reject("needs a person, and nobody is there to answer", by="default")
        except KeyboardInterrupt:
            raise Cancelled from None
        answer = answer_to(request, words)
        if answer is None:
            self._console.print(styled(NO_ALWAYS))
            return Reject()
        return answer


def answer_to(request: ApprovalRequested, words: str) -> Answer | None:
    """What a person's words, or a key, say to a question; None for "always" where there is no such rule."""
    if words.lower() in ("y", "yes"):
        return Approve()
    if words in ("A", "Always", "ALWAYS") and request.keeps:
        return Approve(rule=request.always, scope="project")
    if words.lower() in ("a", "always"):
        return Approve(rule=request.always) if request.always else None
    return Reject("" if words.lower() in ("", "n", "no") else words)


def question_lines(request: ApprovalRequested, console: Console) -> Iterator[Text]:
    """What will happen and why it is asked. Nothing is shortened: what cannot be seen should not be approved."""
    yield styled(f"? {request.summary}", "ask")
    written = {e.target for e in request.effects if e.kind == "write"}
    for effect in request.effects:
        if effect.kind == "run":
            if request.summary != f"Run: {effect.target}":
                for words in effect.target.splitlines() or [""]:
                    yield styled(f"  $ {words}")
            yield styled(f"  in {request.cwd}", "dim")
        elif effect.kind not in ("state", "prompt") and not (effect.kind == "read" and effect.target in written):
            verb = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}[effect.kind]
            yield styled(f"  {verb} {effect.target}", "dim")
    yield from lines_of(request.preview, whole=True)
    facts = [*request.facts, f"asked because it {request.reason}"]
    if request.always:
        facts += [f"a adds the rule {request.always}", f"which allows {request.grants}"]
    if request.keeps:
        facts.append("A also writes it into .agentrc.local, and trusts the project as it is now")
    for fact in facts:
        yield from _fact(fact, console)


def _fact(text: str, console: Console) -> Iterator[Text]:
    """One fact, wrapped with an indent, so that what goes on in the next line cannot pass for one of its own."""
    return hanging(styled(text, "dim"), console, "  ", "    ")


def forget_typed_ahead() -> None:
    """Drop what was typed before the question could be seen: it was not an answer to it."""
    with contextlib.suppress(OSError, termios.error):
        termios.tcflush(0, termios.TCIFLUSH)


def with_interrupts(read: Callable[[], str]) -> str:
    """Read with Ctrl-C as KeyboardInterrupt, whatever the handler is while a turn runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return read()
    finally:
        signal.signal(signal.SIGINT, before)
