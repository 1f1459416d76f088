"""What a command would do to files, and what else it would run, from its operands and options.

`effects_table` has the usual programs; those with a language of their own are in `effects_own`. A program that is in
neither says nothing. Where several readings are possible, the one that does more counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permission.effects_own import OWN
from agent_cli.permission.effects_scan import REMOTE, Touch, scan, told
from agent_cli.permission.effects_table import PROGRAMS, Program
from agent_cli.permission.shell_values import Part, Word


def effects_of(part: Part) -> tuple[Touch, ...]:
    """What a simple command touches; nothing for a program that is not known."""
    name = os.path.basename(part.words[0].text) if part.words and not part.words[0].why else ""
    program = PROGRAMS.get(name)
    if program is None:
        return ()
    words = part.words[1:]
    own = OWN.get(name)
    return tuple(own(words)) if own is not None else tuple(_by_table(program, words))


def _by_table(program: Program, words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(program, words)
    yield from told(found)
    tree = "*" in program.tree or any(option in program.tree for option, _, _ in found)
    read: Literal["tree", "read"] = "tree" if tree else "read"
    into = [value for _, role, value in found if role == "into"]
    yield from _operands(program, operands, into, read)
    if program.here and not into and not any(role == "write" for _, role, _ in found):
        yield Touch("into", Word("."))


def _operands(
    program: Program, operands: list[Word], into: list[Word], read: Literal["tree", "read"]
) -> Iterator[Touch]:
    kind = program.operands
    if kind in ("copy", "move"):
        target = [] if into or len(operands) < 2 else [operands[-1]]
        sources = operands if into or len(operands) < 2 else operands[:-1]
        for source in sources:
            if not REMOTE.match(source.text):
                yield Touch("remove" if kind == "move" else read, source)
                if kind == "move":
                    yield Touch("read", source)
        # What is copied into a folder has its own name there.
        for place in target or into or [Word(".")]:
            if not REMOTE.match(place.text):
                yield Touch("write", place)
                for source in sources:
                    name = os.path.basename(source.text.rstrip("/"))
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
        yield from (Touch(plain, w) for w in operands)
