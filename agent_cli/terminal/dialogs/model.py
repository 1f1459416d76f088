"""What a question is, without a screen: what is asked, what is to be seen for it, and what each answer means.

The application draws it with keys and a bar (`app/question_panel`), the plain front end with lines (`dialogs/lines`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_tools.display import Display
from agent_tools.record import Value

# Keys are no answer while a sentence may be under way: so long after the question, and after the last key.
GUARD = 0.6
# Every key that may answer a question: the application binds only these.
KEYS = "yaAdehnruw123456789"
# A choice: what it is called, and what it means.
Option = tuple[str, str]


class Prose(Value):
    """Text that is read and not copied: wrapped by words on a terminal. more: the indentation of its further rows."""

    text: str
    style: str = ""
    more: str = ""


class Verbatim(Value):
    """Text that may be copied: never wrapped here."""

    text: str
    style: str = ""


class ShellCommand(Value):
    """A command that would run."""

    text: str


class DiffBlock(Value):
    """A change of files, shown whole."""

    display: Display | None


class Fact(Value):
    """What was computed for the decision: one line, indented where it continues."""

    text: str


class PlanBody(Value):
    """A plan, in markdown."""

    text: str


Block = Prose | Verbatim | ShellCommand | DiffBlock | Fact | PlanBody


class GiveAnswer(Value):
    """Answer at once."""

    answer: Any


class TextInput(Value):
    """Take a line of input.

    read: what the line means; None where it says too little, ValueError with a sentence where it cannot be: then the
    question stands. text: what the line begins with. hint: how it is offered beside the choices.
    """

    label: str
    read: Callable[[str], Any]
    text: str = ""
    hint: str = ""


class InEditor(Value):
    """Open the user's editor on this text. read: as in `TextInput`."""

    text: str
    read: Callable[[str], Any]


class Pick(Value):
    """Choose from a menu that what is typed narrows; the answer is the place of an option, or None."""

    label: str
    options: tuple[Option, ...]


Act = GiveAnswer | TextInput | InEditor


class Choice(Value):
    """One of the answers that are offered.

    key: the key that gives it. names: the whole lines that do, "" among them where nothing typed means it; without
    any, it is offered for keys only.
    """

    key: str
    label: str
    act: Act
    names: tuple[str, ...] = ()


class Dialog(Value):
    """A question to the user.

    title: what is asked. body: what the answer is about. details: what was computed beside that. question: the few
    words behind which the choices stand; "" where the title says it. prompt: the same on the input line of the plain
    front end, where it differs. words: what a line means that names no choice. typing: the input line is for `words`
    from the start. repeated: what is shown once more, shortened, below a body longer than the screen. own: a command
    of the user's asks, so that leaving answers None; other questions stay open then. guard: seconds without a key
    before one is an answer.
    """

    title: Prose | Verbatim
    body: tuple[Block, ...] = ()
    details: tuple[Fact, ...] = ()
    question: str = ""
    choices: tuple[Choice, ...] = ()
    words: TextInput | Pick | None = None
    prompt: str = ""
    typing: bool = False
    repeated: str = ""
    own: bool = False
    guard: float = GUARD

    def by_key(self, key: str) -> Choice | None:
        """Return the choice that a key gives."""
        return next((choice for choice in self.choices if choice.key == key), None)

    def by_name(self, line: str) -> Choice | None:
        """Return the choice that a line names, as it is spelled or in small letters."""
        found = (choice for words in (line, line.lower()) for choice in self.choices if words in choice.names)
        return next(found, None)

    @property
    def yes_or_no(self) -> bool:
        """Whether that is all that can be said."""
        return [choice.key for choice in self.choices] == ["y", "n"] and self.words is None


# Shows a dialog and waits; the answer. Raises CancelledError where the turn is interrupted meanwhile.
Put = Callable[[Dialog], Any]
