"""Texts that a word may turn out to be although its value is not known: `"$(pwd)"`, `"$UNSET"/*`, `${DIR:-/}`.

Only used to find out whether a removal might reach an important directory. What nothing is known of has no texts.

Variables of the environment and the top of a repository are filled in later, when those are at hand: they are marked
in the text between NUL characters, which no word can contain.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence

from agent_cli.policy.programs.printing import possibly_printed
from agent_cli.policy.shell.words import Node, Scope, UnknownValueError, read_word
from agent_tools.lazy import lazy_pattern

_MAX_TEXTS = 32
_HOME = "\0env HOME\0"
_MARK = lazy_pattern("\0(env|unset|top) ([^\0]*)\0")
_BRACES = lazy_pattern(r"\{([^{}]*,[^{}]*)\}")


def possible_values(node: Node, scope: Scope) -> tuple[str, ...]:
    """Return the texts that a word of the syntax tree may have; () if nothing is known of it."""
    texts = _joined(node.get("Parts") or [], scope)
    expanded = list(itertools.chain.from_iterable(map(_expand_braces, texts)))
    home = scope.variables.get("HOME")
    found = (f"{home}{text[1:]}" if home and re.match(r"~(?:/|$)", text) else text for text in expanded)
    return tuple(dict.fromkeys(found))[:_MAX_TEXTS]


def fill_in(texts: Iterable[str], variable: Callable[[str], str], top: Callable[[str], str]) -> tuple[str, ...]:
    """Return texts with their marks replaced.

    variable: returns the value of a variable of the environment; "" if it is not set.
    top: returns the top directory of the repository that contains a directory; "" if none does.
    """
    found: dict[str, None] = {}
    for text in texts:
        marks = _MARK.findall(text)
        if any(kind == "unset" and variable(value) for kind, value in marks):
            continue
        values = {"env": variable, "unset": lambda _: "", "top": top}
        found[_MARK.sub(lambda m, values=values: values[m[1]](m[2]), text)] = None  # type: ignore[misc]
    return tuple(found)


def _joined(parts: Sequence[Node], scope: Scope) -> list[str]:
    choices = [_part(part, scope, first=number == 0) for number, part in enumerate(parts)]
    return ["".join(pieces) for pieces in itertools.islice(itertools.product(*choices), _MAX_TEXTS)]


def _part(part: Node, scope: Scope, *, first: bool = False) -> list[str]:
    match part["Type"]:
        case "DblQuoted":
            return _joined(part.get("Parts") or [], scope)
        case "ParamExp":
            return _parameter(part, scope)
        case "CmdSubst":
            return _printed(part.get("Stmts") or [], scope)
        case "Lit" if first and part["Value"].startswith("~"):
            return _tilde(part["Value"], scope)
        case _:
            try:
                word = read_word({"Parts": [part], "Pos": part["Pos"], "End": part["End"]}, scope.variables, b"")
            except (KeyError, UnknownValueError):
                return []
            # A list in braces is expanded below.
            return [word.text] if not word.why else [part["Value"]] if part["Type"] == "Lit" else []


def _tilde(text: str, scope: Scope) -> list[str]:
    name, slash, rest = text[1:].partition("/")
    if name in ("+", "-"):
        return [f"{cwd}{slash}{rest}" for cwd in scope.cwds or ()]
    if not name:
        return [f"{scope.variables.get('HOME') or _HOME}{slash}{rest}"]
    home = os.path.expanduser(f"~{name}")
    return [f"{home}{slash}{rest}"] if home.startswith("/") else []


def _parameter(part: Node, scope: Scope) -> list[str]:
    name = (part.get("Param") or {}).get("Value", "")
    known = scope.possible_texts(name)
    # A folder is left for one near it; that one counts for the one before.
    if name in ("PWD", "OLDPWD") and known is None:
        known = scope.cwds or ()
    if known is None and name.isdigit():
        known = () if scope.lost else ("",)
    if known is None:
        known = (f"\0env {name}\0",) if name.isidentifier() else ()
    expansion = part.get("Exp") or {}
    operator = expansion.get("Op", "").removeprefix(":")
    if operator not in ("-", "=", "+") or not expansion.get("Word"):
        return list(known)
    default = _joined(expansion["Word"].get("Parts") or [], scope)
    if operator == "+":
        return ["", *default]
    return [*known, *(f"\0unset {name}\0{text}" if name not in scope.variables else text for text in default)]


def _printed(statements: Sequence[Node], scope: Scope) -> list[str]:
    """Return what commands may print that are known to print a path."""
    commands = [statement.get("Cmd") or {} for statement in statements]
    while commands and commands[0].get("Type") == "BinaryCmd" and commands[0].get("Op") in ("&&", "||"):
        commands[:1] = [commands[0][side].get("Cmd") or {} for side in ("X", "Y")]
    if len(commands) > 1:
        moved = _arguments(commands[0], scope)
        if len(moved) == 2 and moved[0] == ["cd"] and _arguments(commands[-1], scope)[:1] == [["pwd"]]:
            return [os.path.join(cwd, text) for cwd in scope.cwds or () for text in moved[1]]
        return [text for command in commands for text in _printed([{"Cmd": command}], scope)]
    command = commands[0] if commands else {}
    return possibly_printed(_arguments(command, scope), scope)


def _arguments(command: Node, scope: Scope) -> list[list[str]]:
    """Return the texts that each word of a simple command may have; [] for any other command."""
    if command.get("Type") != "CallExpr" or command.get("Assigns"):
        return []
    return [_joined(word.get("Parts") or [], scope) for word in command.get("Args") or []]


def _expand_braces(text: str) -> list[str]:
    waiting, found = [text], list[str]()
    while waiting and len(found) < _MAX_TEXTS:
        text = waiting.pop(0)
        if match := _BRACES.search(text):
            waiting += [text[: match.start()] + piece + text[match.end() :] for piece in match[1].split(",")]
        else:
            found.append(text)
    return found
