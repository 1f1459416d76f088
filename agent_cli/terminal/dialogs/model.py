"""A dialog, independent of the screen: the question, what is shown with it, and the meaning of each answer.

The application draws it with keys and a bar (`app/question_panel`), the plain front end with lines (`dialogs/lines`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_tools.display import Display
from agent_tools.record import Value

# Seconds after the question and after the last key in which keys are not answers: the user may be typing a sentence.
GUARD = 0.6
# Keys that may answer a question; the application binds only these.
KEYS = "yaAdehnruw123456789"
# A choice as (label, meaning).
Option = tuple[str, str]


class Prose(Value):
    """Text to read: wrapped by words on a terminal. more: indentation of its further rows."""

    text: str
    style: str = ""
    more: str = ""


class Verbatim(Value):
    """Text to copy: never wrapped here."""

    text: str
    style: str = ""


class ShellCommand(Value):
    """A command that would run."""

    text: str


class DiffBlock(Value):
    """File changes, shown in full."""

    display: Display | None


class Fact(Value):
    """A computed fact for the decision: one line, indented where it continues."""

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

    read: interprets the line; returns None if it says too little and raises ValueError with a message if it is
        invalid; in both cases the question stays open.
    text: initial text of the line.
    hint: how it is offered next to the choices.
    """

    label: str
    read: Callable[[str], Any]
    text: str = ""
    hint: str = ""


class InEditor(Value):
    """Open the user's editor on this text. read: as in `TextInput`. suffix: of the file, for its language."""

    text: str
    read: Callable[[str], Any]
    suffix: str = ".md"


class Pick(Value):
    """Choose from a menu that typing narrows; the answer is the index of an option, or None."""

    label: str
    options: tuple[Option, ...]


Act = GiveAnswer | TextInput | InEditor


class Choice(Value):
    """One of the offered answers.

    key: the key that gives it.
    names: lines that give it, "" for an empty line; without names it is offered for keys only.
    """

    key: str
    label: str
    act: Act
    names: tuple[str, ...] = ()


class Dialog(Value):
    """A question to the user.

    title: the question.
    body: what the answer is about.
    details: computed facts about it.
    question: short text before the choices; "" if the title is enough.
    prompt: the same for the input line of the plain front end, if it differs.
    words: interprets a line that names no choice.
    typing: the input line is for `words` from the start.
    repeated: text repeated, shortened, below a body longer than the screen.
    own: a command of the user's asks, so leaving answers None; other questions then stay open.
    guard: seconds without a key before a key counts as an answer.
    quiet: nothing of it stays on the screen, where that is possible.
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
    quiet: bool = False

    def by_key(self, key: str) -> Choice | None:
        """Return the choice for a key."""
        return next((choice for choice in self.choices if choice.key == key), None)

    def by_name(self, line: str) -> Choice | None:
        """Return the choice that a line names, as typed or in lower case."""
        found = (choice for words in (line, line.lower()) for choice in self.choices if words in choice.names)
        return next(found, None)

    @property
    def yes_or_no(self) -> bool:
        """True if yes and no are the only answers."""
        return [choice.key for choice in self.choices] == ["y", "n"] and self.words is None


# Shows a dialog and returns the answer. Raises CancelledError if the turn is interrupted meanwhile.
Put = Callable[[Dialog], Any]
