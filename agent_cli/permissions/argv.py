"""Parse the arguments of a known program: its options, from a list of allowed ones, and its operands."""

from __future__ import annotations

import re

from agent_tools.record import Value


class Options(Value):
    """The allowed options of a program; all others are unknown.

    flags: one-letter options without a value; clusters are understood.
    valued: one-letter options with a value, in the same word or the next.
    optional: one-letter options that may have a value in the same word.
    long: long options without a value.
    long_valued: long options with one ("name", or "name?" if it is optional and then only given with "=").
    numbers: -5 is understood.
    strict: the program may read a next word as an option although a value is due, so a value that looks like an option
        is not understood.
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
