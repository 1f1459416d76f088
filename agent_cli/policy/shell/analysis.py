"""Analyse a command line: every command it may run, with its words, files and directories.

Plain words joined by `&&`, `||`, `;`, `|` and newlines are split here, without a process; everything else uses the
syntax tree (`parser`, `walker`). Commands that run others are unwrapped if that is exact. Uncertainty is reported,
never guessed away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from agent_cli.policy.programs.unwrapping import Script, unwrap_part
from agent_cli.policy.shell.parser import MAX_CHARS, ShellParseError, parse_tree
from agent_cli.policy.shell.walker import MAX_PARTS, Walk
from agent_cli.policy.shell.words import Analysis, Scope, SimpleCommand, Word, is_plain_assignment
from agent_tools.lazy import lazy_pattern
from agent_tools.text import UNSAFE

_TOKEN = lazy_pattern(
    r"""(?P<blank>[ \t]+)
      | (?P<join>&&|\|\||;|\||\n)
      | (?P<word>(?:[A-Za-z0-9_@%+:,./=^-]|'[^'\n]*'|"[^"$`\\\n!]*")+)""",
    re.VERBOSE,
)
_QUOTED = lazy_pattern(r"""'([^']*)'|"([^"]*)\"""")
# Words that begin shell grammar instead of a program, and builtins that change what comes after them.
_GRAMMAR = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in "
    "cd pushd popd set export declare local readonly typeset unset read eval exec source . builtin command printf "
    "alias unalias trap shopt enable hash let mapfile readarray getopts shift".split()
)
_MAX_DEPTH = 6


# A `cd` before everything else.
_FIRST_CD = lazy_pattern(r"\s*cd\s+([\w./@+-]+)\s*(?:&&|;|\n)")


def analyse(command: str, cwd: str = "/", home: str = "") -> Analysis:
    """Analyse a command line as `bash --noprofile --norc` would run it in `cwd`. Never raises.

    Of the file system it only looks whether the directory of a `cd` that comes first is there: then a later `cd ..`
    does not begin above it.
    """
    first = _FIRST_CD.match(command) if command.count("cd") > 1 else None
    there = first is not None and os.access(os.path.join(cwd, first[1], "."), os.X_OK)
    return _analyse(command, cwd, home, first[1] if first is not None and there else "")


@lru_cache(maxsize=512)
def _analyse(command: str, cwd: str, home: str, entered: str) -> Analysis:
    return _analysed(command, Scope({"HOME": home or None}, (cwd,)), 0, entered)


def _analysed(command: str, scope: Scope, depth: int, entered: str = "") -> Analysis:
    if not command.strip():
        return Analysis(command, (), "is empty")
    unclear = "contains control or invisible characters" if re.search(UNSAFE, command) else ""
    found = () if unclear else plain_parts(command, scope.cwds)
    if found:
        return _unwrap_all(command, found, "", depth, scope)
    walk = Walk(command, entered)
    try:
        walk.statements(parse_tree(command).get("Stmts"), scope)
    except ShellParseError as error:
        return Analysis(command, (), str(error))
    except (KeyError, TypeError, RecursionError):
        # A tree of a shape that this parser is not known to produce.
        return Analysis(command, tuple(walk.parts), "has an unknown form")
    return _unwrap_all(command, walk.parts, unclear or walk.unclear, depth, scope)


def _unwrap_all(command: str, found: Iterable[SimpleCommand], unclear: str, depth: int, scope: Scope) -> Analysis:
    """Return the analysis with all wrappers unwrapped."""
    parts: list[SimpleCommand] = []
    for part in found:
        for inner in unwrap_part(part):
            if isinstance(inner, SimpleCommand):
                parts.append(inner)
                continue
            more, why = _script(inner, depth, scope)
            parts += more
            unclear = unclear or why
    return Analysis(command, tuple(parts), unclear)


def _script(script: Script, depth: int, scope: Scope) -> tuple[list[SimpleCommand], str]:
    """Return the parts of shell code that a part runs. Code that sh reads differently from bash is unclear."""
    part = script.part
    if depth >= _MAX_DEPTH:
        return [part], "runs shell code in shell code too deeply"
    own = Scope({"HOME": scope.variables.get("HOME")}, part.cwds)
    inside = _analysed(script.text, own, depth + 1)
    unclear = inside.unclear or ("" if script.exact or plain_parts(script.text, ()) else "runs another shell than bash")
    layers = (*part.layers, script.layer)
    odd = next((w.text.partition("=")[0] for w in part.assigns if not is_plain_assignment(w.text)), "")
    outer = part.replace(
        words=(), layers=layers, why=part.why or (f"{odd}, set for all of its shell code" if odd else "")
    )
    return [outer, *(p.replace(layers=(*layers, *p.layers)) for p in inside.parts)], unclear


def plain_parts(command: str, cwds: tuple[str, ...] | None) -> tuple[SimpleCommand, ...]:
    """Return the commands of a line without shell syntax other than joins and quotes; () for any other."""
    if len(command) > MAX_CHARS:
        return ()
    parts: list[list[str]] = [[]]
    joined = ""
    piped: set[int] = set()
    position = 0
    while position < len(command):
        match = _TOKEN.match(command, position)
        if match is None:
            return ()
        position = match.end()
        if match["join"]:
            if not parts[-1] and (joined or match["join"] != "\n") and not (match["join"] == "\n" and joined):
                return ()
            if parts[-1]:
                parts.append([])
                joined = match["join"]
                piped |= {len(parts) - 1} if joined == "|" else set()
        elif match["word"]:
            word = match["word"]
            if not parts[-1] and (word in _GRAMMAR or "=" in word or re.search(r"['\"]", word)):
                return ()
            parts[-1].append(_QUOTED.sub(lambda m: m[1] if m[1] is not None else m[2], word))
    if (not parts[-1] and joined not in ("", ";", "\n")) or len(parts) > MAX_PARTS:
        return ()
    return tuple(
        SimpleCommand(tuple(Word(w) for w in words), cwds=cwds, piped=number if number in piped else 0)
        for number, words in enumerate(parts)
        if words
    )
