"""The open question on the screen: its keys, the guard against accidental keys, and typed replies."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from prompt_toolkit.application.run_in_terminal import run_in_terminal

from agent_cli.kernel.decisions import Defer
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.key_guard import KeyGuard, KeyHost
from agent_cli.shells.terminal.app.output import InlineApp
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_cli.shells.terminal.app.worker import PendingReply
from agent_cli.shells.terminal.dialogs.lines import dialog_lines
from agent_cli.shells.terminal.dialogs.model import (
    EXPLAIN,
    GUARD_SECONDS,
    MARK,
    VIEW,
    Choice,
    Dialog,
    GiveAnswer,
    InEditor,
    Pick,
    PlanBody,
    TextInput,
)
from agent_cli.shells.terminal.dialogs.questions import RewrittenPlan
from agent_cli.shells.terminal.editor import edit_and_parse
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_tools.text import one_line


class OpenDialog:
    """A dialog sent from the asking thread to the screen, with its pending answer and its view."""

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
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

    def draw_soon(self) -> None:
        """Draw with the next frame."""


# Rows below a question: the input line and the toolbar.
ROWS_BELOW = 3
# Keys that answer, as the terminal sends them.
ENTER, MODE_KEY = "\r", "s-tab"


class QuestionPanel:
    """Shows one question at a time and queues the others. Runs on the drawing thread.

    The `KeyGuard` decides which keys answer, and when.
    """

    def __init__(self, screen: QuestionHost, clock: Callable[[], float]) -> None:
        self._screen = screen
        self.guard = KeyGuard(screen, clock, self._act)
        self._words: TextInput | None = None
        # Unsent replies, by label.
        self._unsent_replies: dict[str, str] = {}
        self.ask: OpenDialog | None = None
        self._queued: deque[OpenDialog] = deque()

    def put(self, ask: OpenDialog) -> None:
        """Show a question. If it needs a typed answer and the user is not typing, the line takes the answer."""
        screen, dialog = self._screen, ask.dialog
        if screen.leaving and not dialog.from_command:
            ask.waiting.answer(Defer())
            return
        if screen.stopping:
            ask.waiting.cancel()
            return
        if self.ask is not None:
            self._queued.append(ask)
            return
        screen.transcript.writer.settle()
        self.ask, self._unsent_replies = ask, {}
        self.guard.open(ask.view)
        if not dialog.from_command:
            screen.ring()
        if isinstance(dialog.words, Pick):
            screen.line.begin_reply(dialog.words.label, "", dialog.words.options)
        elif (
            dialog.typing
            and dialog.words
            and (dialog.from_command or (not screen.line.buffer.text and not self.guard.typed_within(GUARD_SECONDS)))
        ):
            self._begin_input(dialog.words)
        screen.draw_soon()

    @property
    def listing(self) -> bool:
        """True if keys go to the list of a question, as nothing is typed."""
        line = self._screen.line
        return self.ask is not None and not line.replying and not line.buffer.text

    @property
    def from_command(self) -> bool:
        """True if the open question was asked by a command of the user."""
        return self.ask is not None and self.ask.dialog.from_command

    def may_answer(self, key: str) -> bool:
        """Return True if a key acts on the question immediately: one that decides nothing and begins no sentence."""
        shows = self._is_answer(key) and (key in (EXPLAIN, MARK) or self._marks(key))
        return shows and self.guard.is_over and not self._screen.line.buffer.text

    def may_hold(self, key: str) -> bool:
        """Return True if a key answers the question unless more is typed."""
        if not self._is_answer(key):
            return False
        if self.guard.repeats_held(key):
            return True
        shows = key in (EXPLAIN, VIEW, MARK)
        return not self._screen.line.buffer.text if shows else self.guard.is_at_start

    def _marks(self, key: str) -> bool:
        """Return True for a number where several choices may be taken: it marks one, and Enter takes them."""
        return self.ask is not None and self.ask.dialog.several is not None and key.isdecimal()

    def _is_answer(self, key: str) -> bool:
        if self.ask is None or self._screen.line.replying or len(key) != 1:
            return False
        dialog = self.ask.dialog
        known = {EXPLAIN: bool(dialog.details), VIEW: not isinstance(dialog.words, Pick), MARK: bool(dialog.several)}
        return known[key] if key in known else dialog.by_key(key) is not None

    def answer(self, key: str) -> None:
        """Apply a key of the question."""
        assert self.ask is not None
        self.guard.mark_used()
        view = self.ask.view
        if key == VIEW:
            self.show_all()
        elif key == EXPLAIN:
            self._explain()
        elif key == MARK:
            view.mark()
        elif self._marks(key):
            view.highlight(key)
            view.mark()
            view.numbered = True
        else:
            self._choose(self.ask.dialog.by_key(key))
        self._screen.draw_soon()

    def enter(self) -> bool:
        """Take the highlighted choice on Enter; return False if the line is to be sent.

        A lone answer letter is never sent. A line that came at once with its Enter answers a moment later, as it may be
        the first of a paste.
        """
        if self.ask is None or self._screen.line.replying:
            return False
        line, guard, dialog = self._screen.line, self.guard, self.ask.dialog
        text, at_once = line.buffer.text.strip(), self._screen.app.reader.at_once
        if not at_once and guard.confirm():
            return True
        if not text:
            guard.press(ENTER)
            return True
        if dialog.several is not None and (numbers := self._numbers(text)):
            guard.mark_used()
            if guard.is_seen and not at_once:
                line.clear()
                self._close_with(dialog.several(tuple(sorted({*numbers, *self.ask.view.marked}))))
            else:
                self._screen.hint_for("Press Enter again to answer the question", 3.0)
            return True
        if guard.released and text.startswith(guard.released):
            command = text.removeprefix(guard.released).lstrip()
            if self._screen.is_command(command):
                line.set_text(command)
                return False
        choice = dialog.by_name(text)
        is_word = len(text) > 1 and choice is not None and guard.is_typing_message and guard.is_seen
        if at_once and guard.held is not None:
            guard.hold_line(guard.held.key)
        elif at_once and is_word and choice is not None:
            guard.hold_line(choice.key)
        elif is_word:
            line.clear()
            guard.mark_used()
            self._choose(choice)
            self._screen.draw_soon()
        else:
            return self._clear_lone_letter(text)
        return True

    def _numbers(self, text: str) -> tuple[int, ...]:
        """Return the indices of the choices that a text such as "1,3", "1 3", "13" or ",3" names; () for any other."""
        assert self.ask is not None
        count = sum(choice.key.isdecimal() for choice in self.ask.dialog.choices)
        pieces = re.findall(r"\d" if count < 10 else r"\d+", text) if re.fullmatch(r"[\d,; ]+", text) else []
        found = sorted({int(piece) - 1 for piece in pieces})
        return tuple(found) if found and found[0] >= 0 and found[-1] < count else ()

    def _clear_lone_letter(self, text: str) -> bool:
        """Clear a lone letter that would answer, as it is never sent as a message; False for any other line."""
        if not self._is_answer(text):
            return False
        if self.guard.held is None:
            # It was typed before the question, so it cannot be meant as the answer.
            self._screen.line.clear()
            self._screen.hint_for(f"Press {text} again to answer the question", 3.0)
        self.guard.mark_used()  # a held key stays held
        return True

    def mode_key(self) -> bool:
        """Take the choice that changes the permission mode; return False if there is none."""
        found = self.ask is not None and any(choice.mode_key for choice in self.ask.dialog.choices)
        if found and not self._screen.line.replying:
            self.guard.press(MODE_KEY)
            return True
        return False

    def _act(self, key: str) -> None:
        assert self.ask is not None
        dialog, view = self.ask.dialog, self.ask.view
        if key == ENTER and dialog.several is not None and view.marked:
            self._close_with(dialog.several(tuple(sorted(view.marked))))
        elif key == ENTER and view.choice is None and isinstance(dialog.words, TextInput):
            self._begin_input(dialog.words)
        elif key == ENTER:
            self._choose(view.choice)
        elif key == MODE_KEY:
            self._choose(next((choice for choice in dialog.choices if choice.mode_key), None))
        else:
            self.answer(key)

    def move(self, step: int) -> bool:
        """Move the highlight in the list; return False if the key is for the line."""
        if not self.listing or self.ask is None or not self.ask.dialog.listed:
            return False
        self.ask.view.move(step)
        self.guard.mark_used()
        self._screen.draw_soon()
        return True

    def comment(self) -> bool:
        """Open the line for a comment on the highlighted choice; return False if the key is for the line.

        What was already typed becomes the comment.
        """
        line = self._screen.line
        if self.ask is None or line.replying:
            return False
        comment = self.ask.view.text_input
        if line.buffer.text:
            if comment is None or line.menu:
                return False
            self._unsent_replies[comment.label] = line.buffer.text
            line.clear()
        self.guard.mark_used()
        if comment is not None:
            self._begin_input(comment)
        return True

    def escape(self) -> bool:
        """Close the explanation, else refuse; return False if Escape has no meaning for the question."""
        if self.ask is None:
            return False
        dialog = self.ask.dialog
        if self.ask.view.explained:
            self.ask.view.explained = False
        elif dialog.from_command:
            self._close_with(None)
        elif (choice := dialog.by_key(dialog.escape)) is not None:
            self._choose(choice)
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

    def _explain(self) -> None:
        """Show the facts below the body if they fit, else in the pager; hide them if they are shown."""
        assert self.ask is not None
        view, size = self.ask.view, self._screen.app.screen.get_size()
        room = size.rows - ROWS_BELOW
        if view.explained or view.fits_explained(self._screen.transcript.writer.console, size.columns - 1, room):
            view.explained = not view.explained
        else:
            self.show_all()

    def _choose(self, choice: Choice | None) -> None:
        match choice and choice.act:
            case GiveAnswer(answer=answer):
                self._close_with(answer)
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
        """Cancel all questions: the turn is interrupted."""
        self.guard.close()
        while self.ask is not None:
            self._end_replies()
            ask, self.ask = self.ask, self._queued.popleft() if self._queued else None
            ask.waiting.cancel()

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

    def _close_with(self, answer: Any) -> None:
        self.guard.close()
        self._end_replies(sent=True)
        ask, self.ask = self.ask, None
        if ask is not None:
            pick = ask.dialog.words
            if answer is not None and not ask.dialog.reported and not ask.dialog.quiet:
                text = one_line(pick.options[answer][0]) if isinstance(pick, Pick) else _answer_line(answer, ask.dialog)
                self._write_answer(ask.dialog, text)
            ask.waiting.answer(answer)
            if not ask.dialog.from_command:
                self._screen.answered()
            if self._queued:
                self.put(self._queued.popleft())

    def _write_answer(self, dialog: Dialog, text: str) -> None:
        """Write a question and its answer on one line; a plan is written whole."""
        writer = self._screen.transcript.writer
        if any(isinstance(block, PlanBody) for block in dialog.body) and text != _EDITED_ANSWER:
            for line in dialog_lines(dialog.replace(about=""), writer.console):
                writer.put(line)
            self._screen.say(f"  {text}")
        else:
            self._screen.say(f"? {one_line(dialog.title.text)} → {text}")

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


_EDITED_ANSWER = "edited"


def _answer_line(answer: Any, dialog: Dialog) -> str:
    """Return an answer as a line for the scrollback."""
    match answer:
        case bool():
            return "yes" if answer else "no"
        case RewrittenPlan():
            return _EDITED_ANSWER
        case UserDecision(verdict=verdict, text=text, mode=mode):
            words = {
                "approve": "✓ approved", "reject": "✗ cancelled", "answer": "changes requested", "undo": "undo",
            }[verdict]  # fmt: skip
            words += f", mode {mode}" if mode else ""
            return f"{words}: {text}" if text else words
    choice = dialog.by_key(answer) if isinstance(answer, str) else None
    return choice.label.lower() if choice is not None else str(answer)
