"""The open question on the screen: its keys, the guard against keys that were no answer, and replies in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from prompt_toolkit.application.run_in_terminal import run_in_terminal

from agent_cli.core.approvals import Defer
from agent_cli.terminal.app.input_line import InputLine
from agent_cli.terminal.app.output import InlineApp
from agent_cli.terminal.dialogs.model import Dialog, GiveAnswer, InEditor, Pick, TextInput, answer_line
from agent_cli.terminal.editor import GUARD, edited_as
from agent_cli.terminal.render.transcript import Transcript
from agent_tools.text import one_line


class QuestionHost(Protocol):
    """What questions need of the screen."""

    app: InlineApp
    transcript: Transcript
    line: InputLine
    stopping: bool
    leaving: bool

    def say(self, text: str) -> None:
        """Show a line."""

    def ring(self) -> None:
        """Call the user, who may be looking elsewhere."""

    def aside_of(self, text: str) -> bool:
        """Run a line as a command beside the turn, where it is one that may be."""


class QuestionPanel:
    """One is open at a time; others wait for their turn. All of it is on the thread that draws."""

    def __init__(self, live: QuestionHost, clock: Callable[[], float]) -> None:
        self._live, self._clock = live, clock
        self._asked_at = self._key_at = 0.0
        self._answered = False
        self._read: Callable[[str], Any] = str
        self._words: TextInput | None = None
        # The line when the question came, and by its label what was typed of an answer that was not sent.
        self._before = ""
        self._unsent: dict[str, str] = {}
        self.ask: Dialog | None = None
        self._later: deque[Dialog] = deque()

    def put(self, ask: Dialog) -> None:
        """Show a question. Where a free answer is asked for and nobody is typing, the line is for that."""
        live = self._live
        if live.leaving and not ask.own:
            ask.waiting.answer(Defer())
            return
        if live.stopping:
            ask.waiting.cancel()
            return
        if self.ask is not None:
            self._later.append(ask)
            return
        writer = live.transcript.writer
        writer.settle()
        if not ask.own:
            writer.gap()
        for row in ask.body(writer.console):
            writer.put(row)
        now = self._clock()
        self.ask, self._asked_at = ask, now
        self._before, self._unsent = live.line.buffer.text, {}
        if not ask.own:
            live.ring()
        if isinstance(ask.free, Pick):
            live.line.borrow(ask.free.label, "", ask.free.options)
        elif ask.free is not None and (ask.own or (not live.line.buffer.text and now - self._key_at > GUARD)):
            self._take_words(ask.free)

    def key_pressed(self) -> None:
        """A key was handled. One that was an answer is no beginning of a sentence."""
        if not self._answered:
            self._key_at = self._clock()
        self._answered = False

    def may_answer(self, key: str) -> bool:
        """Whether a key is an answer: not while a sentence or a command is being typed."""
        if self.ask is None or self._live.line.replying or key not in self.ask.keys:
            return False
        text = self._live.line.buffer.text
        if text.startswith("/") and text != self._before:
            return False
        now = self._clock()
        return now - self._asked_at >= GUARD and now - self._key_at >= GUARD

    def answer(self, key: str) -> None:
        """What the key means."""
        assert self.ask is not None
        self._answered = True
        match self.ask.keys[key]:
            case GiveAnswer(answer=answer):
                self._give(answer)
            case TextInput() as words:
                self._take_words(words)
            case InEditor() as act:
                self._edit(self.ask, key, act)

    def reply(self, text: str) -> None:
        """The line was sent as a reply; where it says nothing, or was a command, the question stands."""
        if self._words is not None and self.ask is not None and not self.ask.own and self._live.aside_of(text):
            self._live.line.borrow(self._words.label, self._words.text)
            return
        answer = self._live.line.picked if self._live.line.picking else self._read(text)
        if answer is not None or (self.ask is not None and self.ask.own and not self._live.line.picking):
            self._give(answer)

    def back(self) -> None:
        """Escape in a reply: to the question, or out of one that the user's own command has asked."""
        if self.ask is not None and self.ask.own:
            self._give(None)
        else:
            if self._words is not None:
                self._unsent[self._words.label] = self._live.line.text
            self._live.line.give_back()

    def cancel(self) -> None:
        """The turn is interrupted: nobody answers any more."""
        while self.ask is not None:
            ask, self.ask = self.ask, self._later.popleft() if self._later else None
            self._live.line.give_back()
            ask.waiting.cancel()

    def defer(self) -> bool:
        """The user leaves: what a turn asks stays open for later. False where it asks nothing."""
        if self.ask is None or self.ask.own:
            return False
        ask, self.ask = self.ask, None
        self._live.line.give_back()
        ask.waiting.answer(Defer())
        while self._later:
            self.put(self._later.popleft())
        return True

    def _take_words(self, words: TextInput) -> None:
        self._words, self._read = words, words.read
        self._live.line.borrow(words.label, self._unsent.pop(words.label, words.text))

    def _give(self, answer: Any) -> None:
        ask, self.ask = self.ask, None
        self._live.line.give_back()
        if ask is not None:
            if isinstance(ask.free, Pick) and answer is not None:
                self._live.say(f"  {one_line(ask.free.options[answer][0])}")
            elif answer is not None and not (ask.own and ask.free):
                self._live.say(f"  {answer_line(answer)}")
            ask.waiting.answer(answer)
            if self._later:
                self.put(self._later.popleft())

    def _edit(self, ask: Dialog, key: str, act: InEditor) -> None:
        async def edit() -> None:
            came = await run_in_terminal(lambda: edited_as(act.text, act.read))
            if came.problem:
                self._live.say(f"  {came.problem}")
                # What was written is there when the editor is opened again.
                ask.keys[key] = InEditor(came.text, act.read)
            elif self.ask is ask and came.answer is not None:
                self._give(came.answer)

        self._live.app.create_background_task(edit())
