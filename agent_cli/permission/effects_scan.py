"""What a command touches, as a value, and the reading of options by a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permission.effects_table import Program, Role
from agent_cli.permission.shell_values import Word
from agent_tools.values import Value

REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+::?(?!\\)|\w+://")


class Touch(Value):
    """One thing that a command does beside what its name says.

    kind: "read" a file, "tree" a folder with all below, "write", "into" a folder under any names, "remove", "run": what
    it runs, sends or destroys because of the option or subcommand `word`, or "names" where it writes files that only
    its input names.
    """

    kind: Literal["read", "tree", "write", "into", "remove", "run", "names"]
    word: Word


def told(found: Sequence[tuple[str, Role, Word]]) -> Iterator[Touch]:
    """What options alone say."""
    for option, role, value in found:
        if role in ("run", "act"):
            yield Touch("run", Word(option))
        elif role in ("write", "into"):
            yield Touch(role, value)
        elif role == "read":
            yield Touch("read", value)


def scan(program: Program, words: Sequence[Word]) -> tuple[list[tuple[str, Role, Word]], list[Word]]:
    """The options that a table lists, with their values, and the operands."""
    found: list[tuple[str, Role, Word]] = []
    operands: list[Word] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        text = word.text
        if text == "--":
            operands += queue
            break
        if not text.startswith("-") or text == "-":
            operands.append(word)
            continue
        name, equals, value = text.partition("=")
        option = name if name in program.roles else _abbreviated(name, program) if text.startswith("--") else ""
        if not option and not text.startswith("--"):
            found += _cluster(program, word, queue)
            continue
        if not option:
            found.append((name, "value", word))
            continue
        role = program.roles[option]
        given = word.but(text=value) if equals else Word("") if role == "act" else queue.pop(0) if queue else Word("")
        found.append((option, role, given))
    return found, operands


def _abbreviated(name: str, program: Program) -> str:
    """The option that a shortened one means; of several the one that does most."""
    return next((long for long in program.long if len(name) > 2 and long.startswith(name)), "")


def _cluster(program: Program, word: Word, queue: list[Word]) -> Iterator[tuple[str, Role, Word]]:
    letters = word.text[1:]
    while letters:
        option, letters = f"-{letters[0]}", letters[1:]
        role = program.roles.get(option)
        if role is None:
            yield option, "value", Word("")
        elif role == "act":
            yield option, role, Word("")
        else:
            yield (
                option,
                role,
                word.but(text=letters.removeprefix("=")) if letters else queue.pop(0) if queue else Word(""),
            )
            return
