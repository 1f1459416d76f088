"""Parse the arguments of programs: options from a list of allowed ones, or by a table of their effects.

Also the values for a file or program that a command touches, and for what a read-only command reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permissions.effects.table import PROGRAMS, Program, Role
from agent_cli.permissions.programs.find import Follows
from agent_cli.permissions.shell.words import Word
from agent_tools.record import Value


class Options(Value):
    """The allowed options of a program; all others are unknown.

    flags: one-letter options without a value; clusters are accepted.
    valued: one-letter options with a value, in the same word or the next.
    optional: one-letter options that may have a value in the same word.
    long: long options without a value.
    long_valued: long options with one ("name", or "name?" if it is optional and then given only with "=").
    numbers: -5 is accepted.
    strict: the program may read the next word as an option although a value is expected, so a value that looks like an
        option is rejected.
    apart: values of one-letter options are in the next word.
    """

    flags: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""
    numbers: bool = False
    optional: str = ""
    strict: bool = False
    apart: bool = False


class ParsedArguments(Value):
    """Parsed arguments: option names with their values, in order, and operands."""

    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]


class UnknownOptionError(Exception):
    """An option that is not allowed; the message names it."""


def read_options(words: tuple[str, ...], allowed: Options) -> ParsedArguments:
    """Parse the words after a program's name as GNU programs do: options anywhere, `--` ends them.

    Abbreviated long options count as unknown. Raises UnknownOptionError.
    """
    found: list[tuple[str, str]] = []
    operands: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            operands += queue
            break
        if word.startswith("--"):
            found.append(_long(word, queue, allowed))
        elif word.startswith("-") and word != "-":
            if allowed.numbers and re.fullmatch(r"-\d+", word):
                found.append(("-number", word[1:]))
            else:
                found += _short(word, queue, allowed)
        else:
            operands.append(word)
    return ParsedArguments(tuple(found), tuple(operands))


def _long(word: str, queue: list[str], allowed: Options) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    listed = allowed.long_valued.split()
    if name[2:] in listed:
        if equals:
            return name, value
        return name, _next(word, queue, allowed)
    if f"{name[2:]}?" in listed:
        return name, value
    if name[2:] in allowed.long.split() and not equals:
        return name, ""
    raise UnknownOptionError(word)


def _short(word: str, queue: list[str], allowed: Options) -> list[tuple[str, str]]:
    found = []
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in allowed.flags:
            found.append((f"-{letter}", ""))
        elif letter in allowed.optional:
            found.append((f"-{letter}", letters))
            break
        elif letter in allowed.valued and not (letters and allowed.apart):
            found.append((f"-{letter}", letters or _next(f"-{letter}", queue, allowed)))
            break
        else:
            raise UnknownOptionError(word)
    return found


def _next(option: str, queue: list[str], allowed: Options) -> str:
    """Return the value of an option from the next word."""
    if not queue:
        raise UnknownOptionError(f"{option} without a value")
    if allowed.strict and re.match(r"-(?!\d+$)", queue[0]):
        raise UnknownOptionError(f"{option} before {queue[0]}")
    return queue.pop(0)


REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+::?(?!\\)|\w+://")


class FileRead(Value):
    """A path that is read.

    what: "names" (sizes, dates, file names), "content", "tree" (all content below), "tracked" (the content of all files
        below that git tracks), or "listing" if only the names that a glob expands to are shown.
    hidden: which hidden files of a tree are read; "typed" for those with an extension.
    only: name patterns of the files that are read, if restricted.
    without: name patterns of files that are not read.
    closed: name patterns of directories that are not entered.
    follows: links below a tree are followed.
    split: the names of a tree come as text that is split at blanks.
    """

    path: str
    what: Literal["names", "content", "tree", "tracked", "listing"] = "content"
    hidden: Literal["all", "typed", "none"] = "all"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    follows: bool = False
    split: bool = False


class Touch(Value):
    """One effect of a command beyond its own name.

    kind: "read" a file, "tree" a directory with everything below, "write", "into" a directory under any names,
        "remove", "run": it runs, sends or destroys something because of the option or subcommand `word`, "names" and
        "unpack" if it writes files that only a patch or an archive names, "listed" if it reads files that a list names,
        "link" for the target of a link, or "maybe"
        for the value of an unlisted option, which may be a file.
    where: directory of a link, the one unpacked into, or the one that listed names start from.
    follows: whether the program acts on the target of a link: of one that is named, or also of those below. It is only
        needed for "remove"; all other kinds act on the target of a link that is named.
    selective: of "remove", only some of what is below a directory.
    """

    kind: Literal["read", "tree", "write", "into", "remove", "run", "names", "unpack", "listed", "link", "maybe"]
    word: Word
    where: Word = Word(".")
    follows: Follows = ""
    selective: bool = False


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
        option = name if name in program.roles else _expand_abbreviation(name, program)
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


def _expand_abbreviation(name: str, program: Program) -> str:
    """Return the option that an abbreviation means; if there are several, the most dangerous one."""
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


# Where an editor begins: a line, or a word to look for. Anything else behind a plus is a command.
_PLACE = re.compile(r"\+(?:\d*|/[\w .-]+)")


def table_effects(program: Program, words: Sequence[Word]) -> Iterator[Touch]:
    """Yield the effects of a program that its row describes completely."""
    found, operands = scan(program, words)
    yield from option_effects(found)
    tree = "*" in program.tree or any(option in program.tree for option, _, _ in found)
    read: Literal["tree", "read"] = "tree" if tree else "read"
    into = [value for _, role, value in found if role == "into"]
    if any(option in ("-d", "--directory") for option, _, _ in found) and program is PROGRAMS["install"]:
        yield from (Touch("write", w) for w in operands)
    whole = any(name.startswith(option) for option, _, _ in found for name in program.whole)
    yield from _operands(program, operands, into, read, whole=whole)
    if program.operands == "skip" and any(option == "--reference" for option, _, _ in found):
        yield from (Touch("write", w) for w in operands[:1])  # the mode or owner is that of another file
    if program is PROGRAMS["vim"]:
        yield from (Touch("run", w) for w in operands if w.text[:1] == "+" and not _PLACE.fullmatch(w.text))
    if program.here and not into and not any(role == "write" for _, role, _ in found):
        yield Touch("into", Word("."))


def _operands(
    program: Program, operands: list[Word], into: list[Word], read: Literal["tree", "read"], *, whole: bool
) -> Iterator[Touch]:
    kind = program.operands
    if kind in ("copy", "move"):
        target = [] if into or len(operands) < 2 else [operands[-1]]
        sources = operands if into or len(operands) < 2 else operands[:-1]
        for source in sources:
            if not (program.remote and REMOTE.match(source.text)):
                yield Touch("tree" if kind == "move" else read, source)
                if kind == "move":
                    yield Touch("remove", source)
        # A file copied into a directory keeps its own name there.
        for place in target or into or [Word(".")]:
            if not (program.remote and REMOTE.match(place.text)):
                yield Touch("write", place)
                for source in sources:
                    path = source.text.strip("/")
                    name = path if whole else os.path.basename(path)
                    if name in ("", ".", "..") or source.text.endswith("/"):
                        yield Touch("into", place)  # its content, under unknown names
                    yield Touch("write", Word(os.path.join(place.text, name), source.why or place.why, source.pattern))
    elif kind == "first":
        yield from (Touch("write" if n == 0 else read, w) for n, w in enumerate(operands))
    elif kind == "second":
        yield from (Touch("write" if n == 1 else read, w) for n, w in enumerate(operands))
    elif kind == "skip":
        yield from (Touch("write", w) for w in operands[1:])
    elif kind == "rewrite":
        for word in operands:
            yield Touch("read", word)
            yield Touch("write", word)
    elif kind != "none":
        plain: Literal["tree", "read", "write", "remove"] = (
            "write" if kind == "write" else "remove" if kind == "remove" else read
        )
        yield from (Touch(plain, w, follows=program.follows if plain == "remove" else "") for w in operands)
