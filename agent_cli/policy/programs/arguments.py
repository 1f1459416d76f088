"""Parsed arguments of a program: options with the roles that its row gives them, and operands."""

from __future__ import annotations

from typing import Literal

from agent_cli.policy.shell.words import Word
from agent_tools.record import Value

Role = Literal["flag", "value", "read", "steer", "write", "into", "run", "act", "chdir", "other", "maybe"]


class GivenOption(Value):
    """An option as it was given. name: "" if it is not listed, and -number for -5."""

    name: str
    role: Role
    value: Word = Word("")


class Arguments(Value):
    """Parsed arguments.

    odd: the first option that is not known to be harmless; "" if all are.
    words: what was parsed. given: the same before the row's `prepare`.
    """

    options: tuple[GivenOption, ...]
    operands: tuple[Word, ...]
    odd: str
    words: tuple[Word, ...]
    given: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        """Return True if one of the options was given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> list[Word]:
        """Return the values of options, in order."""
        return [option.value for option in self.options if option.name in names]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the operands."""
        return tuple(word.text for word in self.operands)
