"""The one parser of arguments.

As GNU programs do: options anywhere, `--` ends them, short ones may be joined, long ones shortened, values follow in
the same word or in the next. If several readings are possible, the one that does more counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_cli.policy.programs.arguments import Arguments, GivenOption
from agent_cli.policy.programs.row import Row
from agent_cli.policy.shell.words import Word

_HARMLESS = ("flag", "value", "read")


def parse_words(row: Row, words: Sequence[Word]) -> Arguments:
    """Parse the words after a program's name."""
    prepared = words if row.prepare is None else row.prepare(words)
    parser = _Parser(row, prepared)
    parser.parse()
    return Arguments(tuple(parser.options), tuple(parser.operands), parser.odd, tuple(prepared), tuple(words))


class _Parser:
    def __init__(self, row: Row, words: Sequence[Word]) -> None:
        self.row = row
        self.queue = list(words)
        self.options: list[GivenOption] = []
        self.operands: list[Word] = []
        self.odd = ""

    def parse(self) -> None:
        row, queue = self.row, self.queue
        while queue:
            word = queue.pop(0)
            text = word.text
            if text == "--":
                self.operands += queue
                break
            if row.most and len(self.operands) > row.most:
                self.operands += [word, *queue]
                break
            if not text.startswith("-") or text == "-":
                self.operands.append(word)
            elif row.numbers and re.fullmatch(r"-\d+", text):
                self.options.append(GivenOption("-number", "value", word.replace(text=text[1:])))
            elif text.partition("=")[0] in row.roles or text.startswith("--"):
                self._whole(word)
            else:
                self._cluster(word)

    def _whole(self, word: Word) -> None:
        """Take an option whose name is a whole word: a long one, or one of a letter."""
        row, queue = self.row, self.queue
        name, equals, value = word.text.partition("=")
        option = name if name in row.roles else _expand_abbreviation(name, row)
        role = row.roles.get(option, row.unlisted)
        if option != name or role not in _HARMLESS or (equals and role == "flag"):
            self._note(word.text)
        if equals:
            given = word.replace(text=value)
        elif role in ("act", "flag") or option in row.optional:
            given = Word("")
        elif not queue:
            given = Word("")
            if role != "maybe":
                self._note(f"{word.text} without a value")
        elif option == name:
            given = self._next(name)
        else:
            # It may or may not have a value, so the next word also counts as an operand.
            given = queue[0] if role != "maybe" or row.operands == "" else Word("")
        self.options.append(GivenOption(option or name, role, given))

    def _cluster(self, word: Word) -> None:
        """Take one-letter options in one word."""
        row, queue = self.row, self.queue
        letters = word.text[1:]
        if row.single and len(letters) > 1:
            self._note(word.text)
            self.options.append(GivenOption("", row.unlisted, word.replace(text=letters[1:])))
            return
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            role = row.roles.get(name)
            if role is None:
                self._note(word.text)
                # Letters after it are options or its value; if there are none, the next word may be the value.
                later = queue[0] if queue and row.operands == "" else Word("")
                given = word.replace(text=letters) if letters else later
                self.options.append(GivenOption(name, row.unlisted, given))
                continue
            if role not in _HARMLESS or (letters and row.apart and role != "flag"):
                self._note(word.text)
            if role in ("act", "flag") and name not in row.optional:
                self.options.append(GivenOption(name, role))
                continue
            if letters or name in row.optional:
                given = word.replace(text=letters.removeprefix("="))
            elif queue:
                given = self._next(name)
            else:
                given = Word("")
                self._note(f"{name} without a value")
            self.options.append(GivenOption(name, role, given))
            return

    def _next(self, name: str) -> Word:
        """Take the next word as the value of an option."""
        word = self.queue.pop(0)
        if self.row.strict and re.match(r"-(?!\d+$)", word.text):
            self._note(f"{name} before {word.text}")
        return word

    def _note(self, option: str) -> None:
        self.odd = self.odd or option


def _expand_abbreviation(name: str, row: Row) -> str:
    """Return the option that an abbreviation means; if there are several, the most dangerous one."""
    return next((long for long in row.long if len(name) > 2 and long.startswith(name)), "")
