"""The open question, which takes the place of the input line: its keys, typed replies, and the draft meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from prompt_toolkit.application.run_in_terminal import run_in_terminal

from agent_cli import Defer, UserDecision
from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.key_guard import QUIET_SECONDS, KeyGuard, KeyHost
from agent_cli.shells.terminal.app.output import InlineApp
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_cli.shells.terminal.app.worker import PendingReply
from agent_cli.shells.terminal.dialogs.model import (
    EXPLAIN,
    MARK,
    VIEW,
    Choice,
    Dialog,
    GiveAnswer,
    InEditor,
    Pick,
    TextInput,
)
from agent_cli.shells.terminal.dialogs.questions import RewrittenPlan
from agent_cli.shells.terminal.editor import edit_and_parse
from agent_cli.shells.terminal.render.ansi import cells
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_tools.text import one_line


class OpenDialog:
    """A dialog sent from the asking thread to the screen, with its pending answer and its view.

    stays: it is not of the turn, and stays open when that is interrupted.
    """

    def __init__(self, dialog: Dialog, *, stays: bool = False) -> None:
        self.dialog, self.stays = dialog, stays
        self.waiting = PendingReply()
        self.view = QuestionView(dialog)
        # By key: text from the editor that was invalid.
        self.drafts: dict[str, InEditor] = {}


class QuestionHost(KeyHost, Protocol):
    """What the question panel needs from the screen."""

    app: InlineApp
    transcript: Transcript
    line: InputLine
    stopping: bool
    leaving: bool

    def say(self, text: str) -> None:
        """Show a line."""

    def ring(self) -> None:
        """Ring the bell, as the user may be looking elsewhere."""

    def answered(self) -> None:
        """Reset the title: no question of the turn is open any more."""

    def run_aside(self, text: str) -> bool:
        """Run a line as a command during the turn; return False if it is not such a command."""

    def is_command(self, text: str) -> bool:
        """Return True for a slash command that exists, a shell command, and a note."""

    def page(self, text: str) -> None:
        """Show a long text in the pager."""

    def hint_for(self, text: str, seconds: float) -> None:
        """Show a hint above the input line for some seconds."""

    def keep_unmatched(self, text: str) -> bool:
        """Keep a text that fits no option as a message, before a session; return False if that is not the case."""

    def later(self, seconds: float, run: Callable[[], None]) -> None:
        """Run on the drawing thread after some seconds."""

    def draw_now(self) -> None:
        """Draw after the key that is handled now."""

    def draw_soon(self) -> None:
        """Draw with the next frame."""


# Rows that a question leaves to the text above it, or to a draft or a reply of at most a part of the window, and those
# that its row of keys takes.
ROWS_ABOVE, MAX_TYPED_PART, KEYS_ROWS = 2, 6, 1
# Keys that answer, as the terminal sends them.
ENTER, MODE_KEY = "\r", "s-tab"
_HINT_SECONDS = 3.0
_AGAIN = "press the key again"


class QuestionPanel:
    """Shows one question at a time and queues the others. Runs on the drawing thread.

    Keys go to the question, or to a draft, which is shown above it: text that answers nothing begins one. A draft never
    answers. The `KeyGuard` decides when a key counts.
    """

    def __init__(self, screen: QuestionHost, clock: Callable[[], float]) -> None:
        self._screen = screen
        self.guard = KeyGuard(screen, clock)
        self._words: TextInput | None = None
        # Unsent replies, by label.
        self._unsent_replies: dict[str, str] = {}
        self.ask: OpenDialog | None = None
        self._queued: deque[OpenDialog] = deque()
        # Keys go to the draft, if there is one.
        self._in_draft = False
        self._text = ""

    def put(self, ask: OpenDialog) -> None:
        """Show a question; what does not fit is written above it first."""
        screen, dialog = self._screen, ask.dialog
        if ask.waiting.done:
            return
        if screen.leaving and not dialog.from_command:
            ask.waiting.answer(Defer())
            return
        if screen.stopping and not ask.stays:
            ask.waiting.cancel()
            return
        if self.ask is not None:
            self._queued.append(ask)
            return
        screen.transcript.writer.settle()
        self.ask, self._unsent_replies = ask, {}
        self._in_draft, self._text = True, screen.line.buffer.text
        self.guard.open(ask.view)
        self.write_unseen()
        if not dialog.from_command:
            screen.ring()
        if isinstance(dialog.words, Pick):
            screen.line.begin_reply(dialog.words.label, "", dialog.words.options)
        elif (
            dialog.typing
            and dialog.words
            and (dialog.from_command or (not screen.line.buffer.text and not self.guard.is_typing))
        ):
            self._begin_input(dialog.words)
        screen.draw_soon()

    @property
    def room(self) -> int:
        """The number of rows that a question may take, without its row of keys."""
        size = self._screen.app.screen.get_size()
        return max(size.rows - KEYS_ROWS - max(ROWS_ABOVE, self.typed_rows), 1)

    @property
    def typed_rows(self) -> int:
        """The number of rows of a draft, or of a reply."""
        line, size = self._screen.line, self._screen.app.screen.get_size()
        text = line.buffer.text
        if not text and not line.replying:
            return 0
        rows = sum(-(-(cells(row) + cells(line.label) + 1) // size.columns) for row in text.split("\n"))
        return min(rows, max(1, size.rows // MAX_TYPED_PART))

    def write_unseen(self) -> bool:
        """Write what is decided above the question, if it does not fit into it, as after a resize; True if it did."""
        if self.ask is None or (view := self.ask.view).written or view.explained:
            return False
        writer, width = self._screen.transcript.writer, self._screen.app.screen.get_size().columns - 1
        if view.fits(writer.console, width, self.room):
            return False
        writer.put_apart(view.to_write(writer.console, width))
        view.written = len(view.body(writer.console, width))
        return True

    @property
    def away(self) -> bool:
        """True if keys go to the draft instead of the open question."""
        line = self._screen.line
        return self.ask is not None and not line.replying and self._in_draft and bool(line.buffer.text)

    @property
    def listing(self) -> bool:
        """True if keys go to the list of a question."""
        return self.ask is not None and not self._screen.line.replying and not self.away

    @property
    def from_command(self) -> bool:
        """True if the open question was asked by a command of the user."""
        return self.ask is not None and self.ask.dialog.from_command

    def takes(self, key: str) -> bool:
        """Return True if a key is for the question, and not a part of a text."""
        line, guard = self._screen.line, self.guard
        if self.ask is None or line.replying or not guard.is_alone or not self._is_known(key):
            return False
        return not (text := line.buffer.text) or (text == guard.early and key == text[0])

    def _is_known(self, key: str) -> bool:
        assert self.ask is not None
        dialog = self.ask.dialog
        known = {EXPLAIN: bool(dialog.details), VIEW: bool(dialog.body), MARK: bool(dialog.several)}
        if self._separates(key):
            return True
        return known[key] if key in known else self.ask.view.by_key(key) is not None

    def _separates(self, key: str) -> bool:
        """Return True for the comma between two numbers, where several choices may be taken."""
        return key == "," and self.ask is not None and self.ask.dialog.several is not None

    def _marks(self, key: str) -> bool:
        """Return True for a number where several choices may be taken: it marks one, and Enter takes them."""
        view = self.ask.view if self.ask is not None else None
        choice = view.by_key(key) if view is not None and key.isdecimal() else None
        return choice is not None and choice.key.isdecimal() and view is not None and bool(view.dialog.several)

    def press(self, key: str) -> None:
        """Handle a key of the question: it acts at once, or is typed if it came too soon."""
        assert self.ask is not None
        view, guard = self.ask.view, self.guard
        if key in (EXPLAIN, VIEW, MARK) or self._marks(key) or self._separates(key):
            guard.mark_used()
            self._show(key)
        elif guard.is_due(key):
            guard.forget_early()
            self._choose(view.by_key(key), key)
        elif not guard.repeats_answer(key):
            self._screen.line.buffer.insert_text(key)
            guard.early += key
            self._screen.later(QUIET_SECONDS, self._forget_early)
            self._screen.hint_for(f"That was too quick to be an answer: press {key} again", _HINT_SECONDS)
        self._screen.draw_now()

    def _forget_early(self) -> None:
        """Remove a key that came too soon, if no other followed it."""
        if self.guard.drop_early():
            self._screen.draw_soon()
        elif self.guard.early:
            self._screen.later(QUIET_SECONDS, self._forget_early)

    def _show(self, key: str) -> None:
        """Handle a key that decides nothing."""
        assert self.ask is not None
        view = self.ask.view
        if key == VIEW:
            self.show_all()
        elif key == EXPLAIN:
            view.explain()
        elif key == MARK:
            view.mark()
        elif not self._separates(key):
            view.highlight(key)
            view.mark()
            view.numbered = True

    def enter(self) -> bool:
        """Take the highlighted choice on Enter; return False if the line is to be sent.

        A lone answer letter or word is never sent.
        """
        if self.ask is None or self._screen.line.replying:
            return False
        line, text = self._screen.line, self._screen.line.buffer.text.strip()
        if self.away and text:
            known = self.ask.view.by_key(text) if len(text) == 1 else self.ask.dialog.by_name(text)
            if known is None and not self._are_numbers(text):
                return False
            line.clear()
            self._screen.hint_for(f"Nothing is sent, as {text} could be an answer: press the key", _HINT_SECONDS)
        elif self.guard.gone:
            self._screen.hint_for(f"Nothing is answered, as {self.guard.gone} came too quick: {_AGAIN}", _HINT_SECONDS)
        elif self.guard.is_due(ENTER):
            self._take()
        self._screen.draw_now()
        return True

    def _are_numbers(self, text: str) -> bool:
        """Return True for numbers of choices, where several may be taken."""
        return self.ask is not None and self.ask.dialog.several is not None and not text.strip("0123456789,; ")

    def _take(self) -> None:
        """Take what is marked, or highlighted."""
        assert self.ask is not None
        dialog, view = self.ask.dialog, self.ask.view
        if dialog.several is not None and view.marked:
            self._close_with(dialog.several(tuple(sorted(view.marked))), ENTER)
        elif view.choice is None and isinstance(dialog.words, TextInput):
            self._begin_input(dialog.words)
        else:
            self._choose(view.choice, ENTER)

    def mode_key(self) -> bool:
        """Take the choice that changes the permission mode; return False if there is none."""
        choice = next((c for c in self.ask.dialog.choices if c.mode_key), None) if self.ask is not None else None
        if choice is None or self._screen.line.replying:
            return False
        if self.guard.is_due(MODE_KEY):
            self._choose(choice, MODE_KEY)
            self._screen.draw_now()
        return True

    def move(self, step: int) -> bool:
        """Move the highlight, or between the list and the draft; return False if the key is for the line."""
        line = self._screen.line
        if self.ask is None or line.replying:
            return False
        if self.away:
            if step < 0 or not line.buffer.document.on_last_line:
                return False
            self._in_draft = False
        elif step < 0 and not self.ask.view.chosen and line.buffer.text:
            self._in_draft = True
        elif self.ask.view.choices:
            self.ask.view.move(step)
        else:
            return False
        self.guard.mark_used()
        self._screen.draw_soon()
        return True

    def comment(self) -> bool:
        """Return to the draft, else open the line for words on the highlighted choice; False if Tab is for the line."""
        line = self._screen.line
        if self.ask is None or line.replying or self.away:
            return False
        self.guard.mark_used()
        if line.buffer.text:
            self._in_draft = True
        elif (comment := self.ask.view.text_input) is not None:
            self._begin_input(comment)
        self._screen.draw_soon()
        return True

    def key_pressed(self) -> None:
        """Note a key that was handled: what it typed is a draft."""
        self.guard.key_pressed()
        text = self._screen.line.buffer.text
        if self.ask is not None and text != self._text and not self._screen.line.replying:
            self._in_draft, self._text = True, text

    def escape(self) -> bool:
        """Go back from the draft, close the explanation, else refuse; return False if Escape has no meaning."""
        if self.ask is None:
            return False
        dialog = self.ask.dialog
        if self.away:
            self._in_draft = False
        elif self.ask.view.explained:
            self.ask.view.explain()
        elif dialog.from_command:
            self._close_with(None)
        elif (choice := dialog.by_key(dialog.escape)) is not None:
            self._choose(choice, "")
        else:
            return False
        self._screen.draw_soon()
        return True

    def show_all(self) -> bool:
        """Show the whole question in the pager; return False if there is none."""
        if self.ask is None or isinstance(self.ask.dialog.words, Pick):
            return False
        self._screen.page(self.ask.view.whole(self._screen.transcript.writer.console))
        return True

    def _choose(self, choice: Choice | None, key: str) -> None:
        match choice and choice.act:
            case GiveAnswer(answer=answer):
                self._close_with(answer, key)
            case TextInput() as words:
                self._begin_input(words)
            case InEditor() as act:
                assert self.ask is not None
                assert choice is not None
                self._edit(self.ask, choice.key, self.ask.drafts.get(choice.key, act))

    def reply(self, text: str) -> None:
        """Handle a sent reply. The question stays open if the reply was empty or a command."""
        line = self._screen.line
        if line.picking:
            if (index := line.picked) is not None:
                self._close_with(index)
            elif self._screen.keep_unmatched(text):
                line.clear()
        elif self._words is not None and self._screen.run_aside(text):
            line.begin_reply(self._words.label, self._words.text)
        elif self._words is not None:
            try:
                answer = self._words.read(text)
            except ValueError as problem:
                self._screen.say(f"  {problem}")
                return
            if answer is not None:
                self._close_with(answer)

    def back(self) -> None:
        """Handle Escape in a reply: return to the question, or cancel the question of a command."""
        if self.ask is not None and self.ask.dialog.from_command:
            self._close_with(None)
        else:
            if self._words is not None:
                self._unsent_replies[self._words.label] = self._screen.line.text
            self._screen.line.end_reply()

    def cancel(self) -> None:
        """Cancel the questions of the turn, which is interrupted."""
        self.guard.close()
        asked = [self.ask, *self._queued] if self.ask is not None else []
        self._end_replies()
        self.ask = None
        self._queued.clear()
        for ask in asked:
            if ask.stays:
                self.put(ask)
            else:
                ask.waiting.cancel()

    def withdraw(self, ask: OpenDialog) -> None:
        """Cancel one question: nobody waits for its answer any more."""
        ask.waiting.cancel()
        if ask in self._queued:
            self._queued.remove(ask)
        elif ask is self.ask:
            self.guard.close()
            self._end_replies()
            self.ask = None
            if self._queued:
                self.put(self._queued.popleft())
            self._screen.draw_soon()

    def defer(self) -> bool:
        """Leave the question of a turn open for later, as the user leaves; return False if there is none."""
        if self.ask is None or self.ask.dialog.from_command:
            return False
        self.guard.close()
        self._end_replies()
        ask, self.ask = self.ask, None
        ask.waiting.answer(Defer())
        while self._queued:
            self.put(self._queued.popleft())
        return True

    def _begin_input(self, words: TextInput) -> None:
        self._words = words
        self._screen.line.begin_reply(words.label, self._unsent_replies.pop(words.label, words.text))

    def _end_replies(self, *, sent: bool = False) -> None:
        """Restore the draft; what was typed as replies to a question of a turn and not sent is added to it.

        sent: the reply in the line is the answer. A changed command is no message, and goes.
        """
        line = self._screen.line
        if line.replying and not line.picking and not sent and self._words is not None:
            self._unsent_replies[self._words.label] = line.text
        line.end_reply()
        unsent, self._unsent_replies = self._unsent_replies, {}
        if self.ask is None or self.ask.dialog.from_command:
            return
        dialog = self.ask.dialog
        edits = {c.act.label for c in dialog.choices if isinstance(c.act, TextInput) and c.act.text}
        texts = [text for label, text in unsent.items() if label not in edits and text.strip()]
        if texts:
            line.set_text("\n".join(filter(None, [line.buffer.text, *texts])))

    def answer_outside(self, ask: OpenDialog, answer: Any) -> None:
        """Take an answer that was given elsewhere, as in an editor. A reply in the line becomes a draft."""
        if ask is self.ask:
            self._end_replies()
            self._close_with(answer)
            self._screen.draw_soon()
            return
        if ask in self._queued:
            self._queued.remove(ask)
        ask.waiting.answer(answer)

    def _close_with(self, answer: Any, key: str = "") -> None:
        self.guard.close(key)
        self._end_replies(sent=True)
        ask, self.ask = self.ask, None
        if ask is not None:
            if text := _trace(answer, ask):
                self._screen.say(text)
            ask.waiting.answer(answer)
            if not ask.dialog.from_command:
                self._screen.answered()
            if self._queued:
                self.put(self._queued.popleft())

    def _edit(self, ask: OpenDialog, key: str, act: InEditor) -> None:
        async def edit() -> None:
            result = await run_in_terminal(lambda: edit_and_parse(act.text, act.read, act.suffix))
            if result.problem:
                self._screen.say(f"  {result.problem}")
                # Offer the text again when the editor is reopened.
                ask.drafts[key] = act.replace(text=result.text)
            elif self.ask is ask and result.answer is not None:
                self._close_with(result.answer)

        self._screen.app.create_background_task(edit())


def _trace(answer: Any, ask: OpenDialog) -> str:
    """Return the line that stays of a question and its answer; "" for none."""
    dialog = ask.dialog
    if answer is None or dialog.reported or dialog.quiet:
        return ""
    if dialog.told is not None:
        return dialog.told(answer)
    text = one_line(dialog.words.options[answer][0]) if isinstance(dialog.words, Pick) else _answer_line(answer, dialog)
    return f"? {one_line(ask.view.asks)} → {text}"


def _answer_line(answer: Any, dialog: Dialog) -> str:
    """Return an answer as a line for the scrollback."""
    match answer:
        case bool():
            return "yes" if answer else "no"
        case RewrittenPlan():
            return "edited"
        case UserDecision(verdict=verdict, text=text, mode=mode):
            words = {
                "approve": "✓ yes", "reject": "✗ no", "answer": "change it", "undo": "undo it",
            }[verdict]  # fmt: skip
            words += f", mode {mode}" if mode else ""
            return f"{words}: {text}" if text else words
    choice = dialog.by_key(answer) if isinstance(answer, str) else None
    return choice.label.lower() if choice is not None else str(answer)
