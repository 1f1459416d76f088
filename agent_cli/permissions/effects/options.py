"""A file or program touched by a command, as a value, and the parsing of options by a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permissions.effects.table import Program, Role
from agent_cli.permissions.shell.words import Word
from agent_tools.record import Value

REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+::?(?!\\)|\w+://")


class Touch(Value):
    """One effect of a command beyond its own name.

    kind: "read" a file, "tree" a directory with everything below, "write", "into" a directory under any names,
        "remove", "run": it runs, sends or destroys something because of the option or subcommand `word`, "names" and
        "unpack" if it writes files that only a patch or an archive names, "link" for the target of a link, or "maybe"
        for the value of an unlisted option, which may be a file.
    where: directory of a link, or the one unpacked into.
    """

    kind: Literal["read", "tree", "write", "into", "remove", "run", "names", "unpack", "link", "maybe"]
    word: Word
    where: Word = Word(".")


def option_effects(found: Sequence[tuple[str, Role, Word]]) -> Iterator[Touch]:
    """Yield the effects of options alone."""
    for option, role, value in found:
        if role in ("run", "act"):
            yield Touch("run", Word(option))
            # What is run is often read from a file, which rules may cover.
            yield from [Touch("read", value)] if role == "run" and value.text else []
        elif role in ("write", "into", "read", "maybe"):
            yield Touch(role, value)


def scan(program: Program, words: Sequence[Word]) -> tuple[list[tuple[str, Role, Word]], list[Word]]:
    """Return the options of a table with their values, and the operands.

    The value of an unlisted option may be a file; if the table lists all harmless options, the option counts as "run".
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
            given = word.replace(text=value)
        elif role in ("act", "flag") or not queue:
            given = Word("")
        elif option in program.roles and option == name:
            given = queue.pop(0)
        else:
            # It may or may not have a value, so the next word also counts as an operand.
            given = queue[0] if role != "maybe" or program.operands == "none" else Word("")
        found.append((option or name, role, given))
    return found, operands


def _abbreviated(name: str, program: Program) -> str:
    """Return the option that an abbreviation means; of several the one that does most."""
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
                word.replace(text=letters.removeprefix("=")) if letters else queue.pop(0) if queue else Word(""),
            )
            return
        else:
            # Letters after it are options or its value; if there are none, the next word may be the value.
            later = queue[0] if queue and program.operands == "none" else Word("")
            yield option, role, word.replace(text=letters) if letters else later
