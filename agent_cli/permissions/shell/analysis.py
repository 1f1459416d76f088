"""Analyse a command line: every command it may run, with its words, files and directories.

Plain words joined by `&&`, `||`, `;`, `|` and newlines are split here, without a process; everything else uses the
syntax tree (`parser`, `walker`). Commands that run others are unwrapped (`wrappers`). Uncertainty is reported, never
guessed away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from agent_cli.permissions.shell.parser import LONGEST, ShellParseError, parse_tree
from agent_cli.permissions.shell.scope import PLAIN_VARIABLES, Scope
from agent_cli.permissions.shell.walker import MOST_PARTS, Walk
from agent_cli.permissions.shell.words import Analysis, SimpleCommand, Word
from agent_cli.permissions.shell.wrappers import Script, look_through
from agent_tools.text import UNSAFE

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<join>&&|\|\||;|\||\n)
      | (?P<word>(?:[A-Za-z0-9_@%+:,./=^-]|'[^'\n]*'|"[^"$`\\\n!]*")+)""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
# Words that begin shell grammar instead of a program, and builtins that change what comes after them.
_GRAMMAR = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in "
    "cd pushd popd set export declare local readonly typeset unset read eval exec source . builtin command printf "
    "alias unalias trap shopt enable hash let mapfile readarray getopts shift".split()
)
_DEEPEST = 6


@lru_cache(maxsize=512)
def analyse(command: str, cwd: str = "/", home: str = "") -> Analysis:
    """Analyse a command line as `bash --noprofile --norc` would run it in `cwd`. Never raises."""
    return _analysed(command, Scope({"HOME": home or None}, (cwd,)), 0)


def _analysed(command: str, scope: Scope, depth: int) -> Analysis:
    if not command.strip():
        return Analysis(command, (), "is empty")
    unclear = "contains control or invisible characters" if re.search(UNSAFE, command) else ""
    found = () if unclear else plain_parts(command, scope.cwds)
    if found:
        return _through(command, found, "", depth, scope)
    walk = Walk(command)
    try:
        walk.statements(parse_tree(command).get("Stmts"), scope)
    except ShellParseError as error:
        return Analysis(command, (), str(error))
    except (KeyError, TypeError, RecursionError):
        # A tree of a shape that this parser is not known to produce.
        return Analysis(command, tuple(walk.parts), "has a form that is not known")
    return _through(command, walk.parts, unclear or walk.unclear, depth, scope)


def _through(command: str, found: Iterable[SimpleCommand], unclear: str, depth: int, scope: Scope) -> Analysis:
    """Return the analysis with all wrappers unwrapped."""
    parts: list[SimpleCommand] = []
    for part in found:
        for inner in look_through(part):
            if isinstance(inner, SimpleCommand):
                parts.append(inner)
                continue
            more, why = _script(inner, depth, scope)
            parts += more
            unclear = unclear or why
    return Analysis(command, tuple(parts), unclear)


def _script(script: Script, depth: int, scope: Scope) -> tuple[list[SimpleCommand], str]:
    """Return the parts of shell code that a part runs. Code that sh reads differently than bash is unclear."""
    part = script.part
    if depth >= _DEEPEST:
        return [part], "runs shell code in shell code too deeply"
    own = Scope({"HOME": scope.variables.get("HOME")}, part.cwds)
    inside = _analysed(script.text, own, depth + 1)
    unclear = inside.unclear or ("" if script.exact or plain_parts(script.text, ()) else "runs another shell than bash")
    layers = (*part.layers, script.layer)
    odd = next((n for n in assigned_variables(part) if not PLAIN_VARIABLES.fullmatch(n)), "")
    outer = part.replace(
        words=(), layers=layers, why=part.why or (f"{odd}, set for all of its shell code" if odd else "")
    )
    return [outer, *(p.replace(layers=(*layers, *p.layers)) for p in inside.parts)], unclear


def plain_parts(command: str, cwds: tuple[str, ...] | None) -> tuple[SimpleCommand, ...]:
    """Return the commands of a line without shell syntax other than joins and quotes; () for any other."""
    if len(command) > LONGEST:
        return ()
    parts: list[list[str]] = [[]]
    joined = ""
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
        elif match["word"]:
            word = match["word"]
            if not parts[-1] and (word in _GRAMMAR or "=" in word or re.search(r"['\"]", word)):
                return ()
            parts[-1].append(_QUOTED.sub(lambda m: m[1] if m[1] is not None else m[2], word))
    if (not parts[-1] and joined not in ("", ";", "\n")) or len(parts) > MOST_PARTS:
        return ()
    return tuple(SimpleCommand(tuple(Word(w) for w in words), cwds=cwds) for words in parts if words)


def assigned_variables(part: SimpleCommand) -> Mapping[str, str]:
    """Return the variables set before a command."""
    return {name: value for name, _, value in (w.text.partition("=") for w in part.assigns)}
