"""The open question on the screen: its keys, the guard against accidental keys, and typed replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from prompt_toolkit.application.run_in_terminal import run_in_terminal

from agent_cli.core.decisions import Approve, Defer, EditedCall, QuestionReply, Reject
from agent_cli.terminal.app.input_line import InputLine
from agent_cli.terminal.app.output import InlineApp
from agent_cli.terminal.app.worker import PendingReply
from agent_cli.terminal.dialogs.lines import dialog_lines
from agent_cli.terminal.dialogs.model import GUARD, Dialog, GiveAnswer, InEditor, Pick, TextInput
from agent_cli.terminal.dialogs.questions import ByHunk, Rest, Rewritten
from agent_cli.terminal.editor import edited_as
from agent_cli.terminal.render.transcript import Transcript
from agent_tools.text import one_line


class OpenDialog:
    """A dialog sent from the asking thread to the screen, with its pending answer."""

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.waiting = PendingReply()
        # By key: text from the editor that could not be used.
        self.drafts: dict[str, InEditor] = {}

    @property
    def bar(self) -> str:
        """Describe the keys."""
        dialog = self.dialog
        title = f"? {one_line(dialog.title.text)} · " if dialog.quiet else "? "
        if isinstance(dialog.words, Pick):
            return f"{title}type to filter · ↑↓ Enter · Esc cancel"
        if dialog.quiet and dialog.words:
            return f"{title}Enter · Esc cancel"
        numbers = [choice.key for choice in dialog.choices if choice.key.isdigit()]
        keys = [f"{numbers[0]}-{numbers[-1]} choose"] if numbers else []
        keys += [f"{choice.key} {choice.label}" for choice in dialog.choices if not choice.key.isdigit()]
        return " ".join(part for part in ("?", dialog.question, f"[{' · '.join(keys)}]") if part)

    @property
    def short(self) -> str:
        """The bar for narrow windows: the keys alone, yes and no first."""
        keys = sorted((choice.key for choice in self.dialog.choices), key=lambda key: key not in "yn")
        return f"? [{'/'.join(keys) or 'Enter/Esc'}]"


class QuestionHost(Protocol):
    """What the question panel needs from the screen."""

    app: InlineApp
    transcript: Transcript
    line: InputLine
    stopping: bool
    leaving: bool

    def say(self, text: str) -> None:
        """Show a line."""

    def ring(self) -> None:
        """Ring the bell: the user may be looking elsewhere."""

    def aside_of(self, text: str) -> bool:
        """Run a line as a command during the turn; return False if it is not such a command."""


class QuestionPanel:
    """Shows one question at a time and queues the others. Runs on the drawing thread."""

    def __init__(self, screen: QuestionHost, clock: Callable[[], float]) -> None:
        self._screen, self._clock = screen, clock
        self._asked_at = self._key_at = 0.0
        self._answered = False
        self._words: TextInput | None = None
        # The line when the question appeared; and unsent replies, by label.
        self._before = ""
        self._unsent: dict[str, str] = {}
        self.ask: OpenDialog | None = None
        self._later: deque[OpenDialog] = deque()

    def put(self, ask: OpenDialog) -> None:
        """Show a question. If it wants a typed answer and nobody is typing, the line takes the answer."""
        screen, dialog = self._screen, ask.dialog
        if screen.leaving and not dialog.own:
            ask.waiting.answer(Defer())
            return
        if screen.stopping:
            ask.waiting.cancel()
            return
        if self.ask is not None:
            self._later.append(ask)
            return
        if not dialog.quiet:
            self._write(dialog)
        now = self._clock()
        self.ask, self._asked_at = ask, now
        self._before, self._unsent = screen.line.buffer.text, {}
        if not dialog.own:
            screen.ring()
        if isinstance(dialog.words, Pick):
            screen.line.borrow(dialog.words.label, "", dialog.words.options)
        elif (
            dialog.typing
            and dialog.words
            and (dialog.own or (not screen.line.buffer.text and now - self._key_at > GUARD))
        ):
            self._take_words(dialog.words)

    def _write(self, dialog: Dialog) -> None:
        """Write what is asked above the live region."""
        writer = self._screen.transcript.writer
        writer.settle()
        if not dialog.own:
            writer.gap()
        for row in dialog_lines(dialog, writer.console):
            writer.put(row)

    def key_pressed(self) -> None:
        """Note a key press. A key that answered does not count as typing."""
        if not self._answered:
            self._key_at = self._clock()
        self._answered = False

    def may_answer(self, key: str) -> bool:
        """Return True if a key is an answer: not while a sentence or command is being typed."""
        if self.ask is None or self._screen.line.replying or self.ask.dialog.by_key(key) is None:
            return False
        text = self._screen.line.buffer.text
        if text.startswith("/") and text != self._before:
            return False
        now, guard = self._clock(), self.ask.dialog.guard
        return now - self._asked_at >= guard and now - self._key_at >= guard

    def answer(self, key: str) -> None:
        """Apply an answer key."""
        assert self.ask is not None
        self._answered = True
        choice = self.ask.dialog.by_key(key)
        match choice and choice.act:
            case GiveAnswer(answer=answer):
                self._give(answer)
            case TextInput() as words:
                self._take_words(words)
            case InEditor() as act:
                self._edit(self.ask, key, self.ask.drafts.get(key, act))

    def reply(self, text: str) -> None:
        """Handle a sent reply. The question stays open if the reply was empty or a command."""
        line = self._screen.line
        if line.picking:
            if (place := line.picked) is not None:
                self._give(place)
        elif self._words is not None and self._screen.aside_of(text):
            line.borrow(self._words.label, self._words.text)
        elif self._words is not None:
            try:
                answer = self._words.read(text)
            except ValueError as problem:
                self._screen.say(f"  {problem}")
                return
            if answer is not None:
                self._give(answer)

    def back(self) -> None:
        """Handle Escape in a reply: return to the question, or cancel one of the user's own command."""
        if self.ask is not None and self.ask.dialog.own:
            self._give(None)
        else:
            if self._words is not None:
                self._unsent[self._words.label] = self._screen.line.text
            self._screen.line.give_back()

    def cancel(self) -> None:
        """Cancel all questions: the turn is interrupted."""
        while self.ask is not None:
            ask, self.ask = self.ask, self._later.popleft() if self._later else None
            self._screen.line.give_back()
            ask.waiting.cancel()

    def defer(self) -> bool:
        """Leave a question of a turn open for later, as the user leaves; False if there is none."""
        if self.ask is None or self.ask.dialog.own:
            return False
        ask, self.ask = self.ask, None
        self._screen.line.give_back()
        ask.waiting.answer(Defer())
        while self._later:
            self.put(self._later.popleft())
        return True

    def _take_words(self, words: TextInput) -> None:
        self._words = words
        self._screen.line.borrow(words.label, self._unsent.pop(words.label, words.text))

    def _give(self, answer: Any) -> None:
        ask, self.ask = self.ask, None
        self._screen.line.give_back()
        if ask is not None:
            pick = ask.dialog.words
            if answer is not None and not ask.dialog.quiet:
                said = one_line(pick.options[answer][0]) if isinstance(pick, Pick) else _answer_line(answer)
                self._screen.say(f"  {said}")
            ask.waiting.answer(answer)
            if self._later:
                self.put(self._later.popleft())

    def _edit(self, ask: OpenDialog, key: str, act: InEditor) -> None:
        async def edit() -> None:
            came = await run_in_terminal(lambda: edited_as(act.text, act.read, act.suffix))
            if came.problem:
                self._screen.say(f"  {came.problem}")
                # Offer the text again when the editor is reopened.
                ask.drafts[key] = act.replace(text=came.text)
            elif self.ask is ask and came.answer is not None:
                self._give(came.answer)

        self._screen.app.create_background_task(edit())


def _answer_line(answer: Any) -> str:
    """Return an answer as a line for the scrollback."""
    match answer:
        case bool() | Rest():
            return "yes" if answer is True or answer == Rest(True) else "no"
        case ByHunk():
            return "part by part"
        case Approve(rule="", scope=_):
            return "yes"
        case Approve(rule=rule, scope=scope):
            return f"yes, and always for {rule}, {'kept for this project' if scope == 'project' else 'in this session'}"
        case Reject(reason=reason):
            return f"no, because: {reason}" if reason else "no"
        case EditedCall():
            return "yes, changed"
        case Rewritten():
            return "edited"
        case QuestionReply(verdict=verdict, text=text):
            words = {"approve": "yes", "cancel": "no", "revise": "change it", "undo": "undo it", "answer": "answer"}[
                verdict
            ]
            return f"{words}: {text}" if text else words
    return str(answer)
