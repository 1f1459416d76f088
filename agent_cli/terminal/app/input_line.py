"""The input line: the draft, what was typed before, folded pastes, the menu of completions, and replies that borrow it.

The draft is never lost: a reply to a question puts it aside and brings it back.

Long pastes, folded to a word in the input line and unfolded when it is sent.
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
    """What was pasted in this session, by number."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """What stands for a pasted text in the input: itself, where it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARS:
            return text
        number = len(self._kept) + 1
        self._kept[number] = text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[Pasted #{number} {size}]"

    def unfold(self, text: str) -> str:
        """The text with every paste that is still in it."""
        return _FOLD.sub(lambda match: self._kept.get(int(match[1]), match[0]), text)


PROMPT = "> "
# A longer message is kept in the history as it stood in the line, with its pastes folded.
LONGEST_KEPT = 20_000


class InputLine:
    """commands: names and help of what `/` may begin. files: names of what `@` may mention. values: what may follow the
    name of a command."""

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
        """What would be sent: the draft with its pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def draft(self) -> str:
        """The draft, also while a reply has its place."""
        return self.text if self._aside is None else self.pastes.unfold(self._aside.text)

    @property
    def replying(self) -> bool:
        """The line belongs to a question, and the draft is kept aside."""
        return self._aside is not None

    def borrow(self, label: str, text: str, options: tuple[Option, ...] = ()) -> None:
        """Put the draft aside and take a reply in its place. options: the reply is one of these, from the menu."""
        if self._aside is None:
            self._aside = self.buffer.document
        self.label = label
        self._options = options
        self._put(Document(text))
        self.complete()

    @property
    def picking(self) -> bool:
        """The reply is a choice from the menu."""
        return bool(self._options)

    @property
    def picked(self) -> int | None:
        """The place of the option that the menu stands at; the first where none was gone to."""
        return self.menu[max(self.chosen, 0)].place if self.menu else None

    def give_back(self) -> None:
        """The draft, as it was."""
        if self._aside is not None:
            draft, self._aside = self._aside, None
            self.label, self._options = PROMPT, ()
            self._put(draft)

    def take(self) -> str:
        """The message, which goes into the history; the line is empty then."""
        text, typed = self.text, self.buffer.text
        self.history.add(text if len(text) <= LONGEST_KEPT else typed)
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset()
        self.close_menu()

    def put_back(self, text: str) -> None:
        """A message that was taken, to be changed."""
        self._put(Document(text))

    def paste(self, text: str) -> None:
        text = text.replace("\0", "")  # no name of a file and no argument of a program can have one
        self.buffer.insert_text(self.pictures.pasted(text) or self.pastes.fold(text))

    def newline_for_backslash(self) -> bool:
        """A backslash before the cursor makes Enter a line end; False where there is none."""
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
        """The menu for what stands before the cursor."""
        self.chosen = -1
        before = self.buffer.document.text_before_cursor
        if self.picking:
            self.menu, self.chosen = narrowed(self.buffer.text, self._options), 0
        else:
            self.menu = [] if self.replying else complete(before, self._commands(), self._files, self._values)

    def close_menu(self) -> None:
        self.menu, self.chosen = [], -1

    def move(self, step: int) -> None:
        """To another choice of the menu."""
        self.chosen = (self.chosen + step) % len(self.menu) if self.chosen >= 0 or step > 0 else len(self.menu) - 1

    def accept(self) -> None:
        """Put the choice into the line; the first where none was gone to."""
        choice = self.menu[max(self.chosen, 0)]
        document = self.buffer.document
        before, after = document.text_before_cursor[: choice.start] + choice.text, document.text_after_cursor
        self._put(Document(before + after.removeprefix(" "), len(before)))
