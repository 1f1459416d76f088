"""A dialog, independent of the screen: the question, the text shown with it, and the meaning of each answer.

The application draws it with keys and a bar (`app/question_panel`), the plain front end with lines (`dialogs/lines`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_tools.record import Value
from agent_tools.results import Display

# Seconds in which a line does not answer a question of the plain front end: the user may be typing a sentence.
GUARD_SECONDS = 0.6
# Keys that may answer a question; the application binds these, and those that show more of it or mark a choice.
KEYS = "yaASdehnorstuwx123456789"
EXPLAIN, VIEW, MARK = "?", "v", " "
# A choice as (label, meaning).
Option = tuple[str, str]


class Prose(Value):
    """Text to read: wrapped by words on a terminal. more: indentation of continuation rows."""

    text: str
    style: str = ""
    more: str = ""


class Verbatim(Value):
    """Text to copy: never wrapped here."""

    text: str
    style: str = ""


class ShellCommand(Value):
    """A command that would run, whole."""

    text: str


class DiffBlock(Value):
    """File changes, shown in full. titled: the title of the question names the only file."""

    display: Display | None
    titled: bool = False


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

    read: parses the line; returns None if it is incomplete and raises ValueError with a message if it is invalid; in
        both cases the question stays open.
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
    """Choose from a menu that typing filters; the answer is the index of an option, or None.

    empty: what an empty line does, for the plain front end.
    """

    label: str
    options: tuple[Option, ...]
    empty: str = "cancel"


Act = GiveAnswer | TextInput | InEditor


class Choice(Value):
    """One of the offered answers.

    key: its key.
    label: its text in the list.
    names: lines that select it, "" for an empty line; without names it is offered for keys only.
    short: its text in the plain front end, if it differs from the label.
    detail: a description after the label.
    why: what it allows, in one line, for the explanation.
    comment: reads a comment to go with this answer.
    listed: False if it has a key, but is not in the list.
    rare: it is in the list only while the question is explained.
    mode_key: the key that changes the permission mode selects it too.
    grave: as in `Dialog`, for this answer alone.
    """

    key: str
    label: str
    act: Act
    names: tuple[str, ...] = ()
    short: str = ""
    detail: str = ""
    why: str = ""
    comment: TextInput | None = None
    listed: bool = True
    rare: bool = False
    mode_key: bool = False
    grave: bool = False


class Dialog(Value):
    """A question to the user.

    title: the question, or what it is about.
    asks: the question as a sentence, if it is not the title.
    about: a description of it, such as the model's own.
    body: the subject of the question, in blocks.
    warnings: shown before the answer, the most serious first.
    details: computed facts, shown on request.
    question: short text before the choices in the plain front end; "" if the title is enough.
    words: parses a line that names no choice.
    typing: the input line is for `words` from the start.
    several: converts the numbers of the marked choices to the answer, if more than one may be taken.
    escape: key of the choice that Escape selects.
    from_command: it is asked by a command of the user, so leaving answers None; other questions then stay open.
    reported: an event of the turn reports the answer, so the panel does not.
    told: returns the line to write for an answer, if it is not the usual one; "" for none.
    guard: seconds without a line before a line counts as an answer, in the plain front end.
    grave: an answer may destroy something, or let it leave the sandbox. The caller sets it; about calls,
        `is_grave` does. A letter then counts only once the question was seen.
    whole: the body is written above the question in any case.
    quiet: if possible, nothing of it stays on the screen.
    """

    title: Prose | Verbatim
    body: tuple[Block, ...] = ()
    details: tuple[Fact, ...] = ()
    question: str = ""
    choices: tuple[Choice, ...] = ()
    words: TextInput | Pick | None = None
    about: str = ""
    warnings: tuple[str, ...] = ()
    typing: bool = False
    several: Callable[[tuple[int, ...]], Any] | None = None
    escape: str = "n"
    from_command: bool = False
    reported: bool = False
    told: Callable[[Any], str] | None = None
    asks: str = ""
    guard: float = GUARD_SECONDS
    grave: bool = False
    whole: bool = False
    quiet: bool = False

    @property
    def listed(self) -> tuple[Choice, ...]:
        """The choices of the list, in order, without the rare ones."""
        return tuple(choice for choice in self.choices if choice.listed and not choice.rare)

    def by_key(self, key: str) -> Choice | None:
        """Return the choice with a key."""
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
