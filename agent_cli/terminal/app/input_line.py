"""The input line: draft, history, folded pastes, the completion menu, and replies to questions.

A reply to a question sets the draft aside and restores it, so the draft is never lost.

Long pastes are folded to a placeholder in the line and unfolded when the message is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.terminal.app.attachments import Pictures
from agent_cli.terminal.app.completion import Completion, complete, narrowed
from agent_cli.terminal.app.history import ProjectHistory
from agent_cli.terminal.dialogs.model import Option

LINES, CHARS = 4, 800
_FOLD = re.compile(r"\[Pasted #(\d{1,9}) (?:\d+ lines?|\d+ characters)\]")


class Pastes:
    """The pasted texts of this session, by number."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """Return a placeholder for a pasted text; the text itself if it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARS:
            return text
        number = len(self._kept) + 1
        self._kept[number] = text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[Pasted #{number} {size}]"

    def unfold(self, text: str) -> str:
        """Replace the placeholders in a text with the pasted texts."""
        return _FOLD.sub(lambda match: self._kept.get(int(match[1]), match[0]), text)


PROMPT = "> "
# A longer message is stored in the history with its pastes folded.
LONGEST_KEPT = 20_000


class InputLine:
    """The input line.

    commands: returns names and help of slash commands.
    files: returns names of files to mention.
    values: returns the argument values of a command.
    """

    def __init__(
        self,
        history: ProjectHistory,
        commands: Callable[[], Iterable[tuple[str, str]]],
        files: Callable[[], tuple[str, ...]],
        pictures: Pictures | None = None,
        values: Callable[[str], Iterable[str]] = lambda command: (),
    ) -> None:
        self.history = history
        self._commands, self._files, self._values = commands, files, values
        self.pastes = Pastes()
        self.pictures = pictures or Pictures()
        self.buffer = Buffer(history=history, multiline=True, on_text_changed=self._changed)
        self.label = PROMPT
        self._aside: Document | None = None
        self._options: tuple[Option, ...] = ()
        self.menu: list[Completion] = []
        self.chosen = -1

    @property
    def text(self) -> str:
        """The message as it would be sent: the draft with its pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def draft(self) -> str:
        """The draft, also while a reply has its place."""
        return self.text if self._aside is None else self.pastes.unfold(self._aside.text)

    @property
    def replying(self) -> bool:
        """True while the line holds a reply to a question and the draft is set aside."""
        return self._aside is not None

    def borrow(self, label: str, text: str, options: tuple[Option, ...] = ()) -> None:
        """Set the draft aside for a reply. options: the reply is picked from this menu."""
        if self._aside is None:
            self._aside = self.buffer.document
        self.label = label
        self._options = options
        self._put(Document(text))
        self.complete()

    @property
    def picking(self) -> bool:
        """True while the reply is picked from the menu."""
        return bool(self._options)

    @property
    def picked(self) -> int | None:
        """Index of the selected option; the first if none was selected."""
        return self.menu[max(self.chosen, 0)].place if self.menu else None

    def give_back(self) -> None:
        """Restore the draft."""
        if self._aside is not None:
            draft, self._aside = self._aside, None
            self.label, self._options = PROMPT, ()
            self._put(draft)

    def take(self) -> str:
        """Return the message, add it to the history, and clear the line."""
        text, typed = self.text, self.buffer.text
        self.history.add(text if len(text) <= LONGEST_KEPT else typed)
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset()
        self.close_menu()

    def put_back(self, text: str) -> None:
        """Put a message back into the line for editing."""
        self._put(Document(text))

    def paste(self, text: str) -> None:
        text = text.replace("\0", "")  # not valid in file names and program arguments
        self.buffer.insert_text(self.pictures.pasted(text) or self.pastes.fold(text))

    def newline_for_backslash(self) -> bool:
        """Replace a backslash before the cursor with a line break; False if there is none."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor()
        self.buffer.newline(copy_margin=False)
        return True

    def _put(self, document: Document) -> None:
        self.buffer.set_document(document, bypass_readonly=True)
        self.close_menu()

    def _changed(self, buffer: Buffer) -> None:
        self.complete()

    def complete(self) -> None:
        """Update the menu for the text before the cursor."""
        self.chosen = -1
        before = self.buffer.document.text_before_cursor
        if self.picking:
            self.menu, self.chosen = narrowed(self.buffer.text, self._options), 0
        else:
            self.menu = [] if self.replying else complete(before, self._commands(), self._files, self._values)

    def close_menu(self) -> None:
        self.menu, self.chosen = [], -1

    def move(self, step: int) -> None:
        """Move the selection in the menu."""
        self.chosen = (self.chosen + step) % len(self.menu) if self.chosen >= 0 or step > 0 else len(self.menu) - 1

    def accept(self) -> None:
        """Insert the selected completion; the first if none was selected."""
        choice = self.menu[max(self.chosen, 0)]
        document = self.buffer.document
        before, after = document.text_before_cursor[: choice.start] + choice.text, document.text_after_cursor
        self._put(Document(before + after.removeprefix(" "), len(before)))
