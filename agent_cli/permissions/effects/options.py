"""What a command touches, as a value, and the reading of options by a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permissions.effects.table import Program, Role
from agent_cli.permissions.shell.words import Word
from agent_tools.record import Value

REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+::?(?!\\)|\w+://")


class Touch(Value):
    """One thing that a command does beside what its name says.

    kind: "read" a file, "tree" a folder with all below, "write", "into" a folder under any names, "remove", "run": what
    it runs, sends or destroys because of the option or subcommand `word`, "names" and "unpack" where it writes files
    that only a patch or an archive names, "link" for what a link leads to, or "maybe" for the value of an option that
    is in no table, which may be a file. where: the folder that a link stands in, or that is unpacked into.
    """

    kind: Literal["read", "tree", "write", "into", "remove", "run", "names", "unpack", "link", "maybe"]
    word: Word
    where: Word = Word(".")


def option_effects(found: Sequence[tuple[str, Role, Word]]) -> Iterator[Touch]:
    """What options alone say."""
    for option, role, value in found:
        if role in ("run", "act"):
            yield Touch("run", Word(option))
            # What is run is often read from a file, and rules may be about that.
            yield from [Touch("read", value)] if role == "run" and value.text else []
        elif role in ("write", "into", "read", "maybe"):
            yield Touch(role, value)


def scan(program: Program, words: Sequence[Word]) -> tuple[list[tuple[str, Role, Word]], list[Word]]:
    """The options that a table lists, with their values, and the operands.

    The value of an option that is not listed may be a file; where the table lists all harmless options, it is "run".
    """
    found: list[tuple[str, Role, Word]] = []
    operands: list[Word] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        text = word.text
        if text == "--":
            operands += queue
            break
        if program.most and len(operands) > program.most:
            operands += [word, *queue]
            break
        if not text.startswith("-") or text == "-":
            operands.append(word)
            continue
        name, equals, value = text.partition("=")
        if name not in program.roles and not text.startswith("--"):
            found += _cluster(program, word, queue)
            continue
        option = name if name in program.roles else _abbreviated(name, program)
        role = program.roles.get(option, program.unlisted)
        if equals:
            given = word.but(text=value)
        elif role in ("act", "flag") or not queue:
            given = Word("")
        elif option in program.roles and option == name:
            given = queue.pop(0)
        else:
            # It may have a value or not, so the next word stays one of its own.
            given = queue[0] if role != "maybe" or program.operands == "none" else Word("")
        found.append((option or name, role, given))
    return found, operands


def _abbreviated(name: str, program: Program) -> str:
    """The option that a shortened one means; of several the one that does most."""
    return next((long for long in program.long if len(name) > 2 and long.startswith(name)), "")


def _cluster(program: Program, word: Word, queue: list[Word]) -> Iterator[tuple[str, Role, Word]]:
    letters = word.text[1:]
    while letters:
        option, letters = f"-{letters[0]}", letters[1:]
        role = program.roles.get(option, program.unlisted)
        if role in ("act", "flag"):
            yield option, role, Word("")
        elif option in program.roles:
            yield (
                option,
                role,
                word.but(text=letters.removeprefix("=")) if letters else queue.pop(0) if queue else Word(""),
            )
            return
        else:
            # Letters behind it are options, or its value; where there are none, the next word may be that.
            later = queue[0] if queue and program.operands == "none" else Word("")
            yield option, role, word.but(text=letters) if letters else later
