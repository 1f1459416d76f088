"""Parse a command line into `RunOptions`.

Most command lines are parsed by `parse_options`, which knows exactly the table of `run_options` and gives up (None) on
anything it does not fully understand: an unknown word, a missing value, an invalid choice, --help. Typer, built from
the same table in `cli.app`, then decides; importing it takes as long as a whole one-shot run otherwise does.
"""

import os
import re
from collections.abc import Callable
from typing import Any, get_args

from agent_cli.cli.run_options import PICK_SESSION, Flag, RunOptions, flags
from agent_cli.kernel.rules import KNOWN_TOOLS


def parse_options(argv: list[str]) -> RunOptions | None:
    """Parse a command line; None if Typer has to parse it."""
    table = {n: (field, flag, kind) for field, (flag, kind) in flags().items() for n in flag.names}
    found: dict[str, Any] = {}
    words: list[str] = []
    rest = list(reversed(normalize_argv(argv)))
    while rest:
        word = rest.pop()
        if word == "--":
            words += reversed(rest)
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in table or (equals and not name.startswith("--")):
            return None
        field, flag, kind = table[name]
        if kind is bool:
            if equals:
                return None
            found[field] = True
            continue
        if not equals:
            if not rest:
                return None
            value = rest.pop()
        read = _value(flag, kind, value)
        if read is None:
            return None
        found[field] = (*found.get(field, ()), read) if str(kind).startswith("tuple") else read
    return RunOptions(prompt=tuple(words), **found)


def _value(flag: Flag, kind: Any, text: str) -> Any:
    if flag.choices and text not in (*flag.choices, *flag.aliases):
        return None
    number = next((t for t in (int, float) if t in get_args(kind)), None)
    if number is None:
        return text
    try:
        return number(text)
    except ValueError:
        return None


# Patterns of values for the flags whose value may be omitted.
_OPTIONAL_VALUES = {"resume": r"(?s)[^-].*", "worktree": r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"}
# Other agents' categories of --debug: such a word is a filter, not a prompt. Three of them are written here.
_DEBUG_CATEGORIES = frozenset(
    "1p api config file hook hooks lsp mcp permissions plugins sdk startup statsig tool tools".split()
)


def _are_betas(word: str) -> bool:
    return re.fullmatch(r"[a-z0-9-]+-20\d\d-\d\d-\d\d(?:,\S*)?", word) is not None


def _is_rule(word: str) -> bool:
    """Return True if a word is certainly a rule: the name of a known tool, alone or with parentheses."""
    name, opened, rest = word.partition("(")
    return name.startswith("mcp__") or (name in KNOWN_TOOLS and (not opened or rest.endswith(")")))


def _are_tools(word: str) -> bool:
    return all(_is_rule(name) for name in word.split(","))


def _is_filter(word: str) -> bool:
    return not re.search(r"\s", word) and (word.startswith("!") or not _DEBUG_CATEGORIES.isdisjoint(word.split(",")))


def _is_folder(word: str) -> bool:
    return os.path.isdir(os.path.expanduser(word))  # noqa: PTH112 - the methods raise where a parent is closed


def _is_server_file(word: str) -> bool:
    return word.lstrip().startswith("{") or (word.endswith(".json") and " " not in word)


# Flags that take several words. Each further word must have this form, so that no prompt is swallowed.
_MULTI_WORD: dict[str, Callable[[str], object]] = {
    "allowed_tools": _is_rule,
    "disallowed_tools": _is_rule,
    "ask_tools": _is_rule,
    "tools": _are_tools,
    "add_dir": _is_folder,
    "plugin_dir": _is_folder,
    "plugin_dir_no_mcp": _is_folder,
    "mcp_config": _is_server_file,
    "betas": _are_betas,
}


def normalize_argv(argv: list[str]) -> list[str]:
    """Expand what a table of flags cannot express: several words after one flag, and flags without their value.

    Only words in the exact form of a rule, a folder, the name of a worktree and so on are consumed, so a prompt is not
    swallowed; --resume takes the next word, whatever it is.
    """
    table = flags()
    listing = {n: form for f, form in _MULTI_WORD.items() for n in table[f][0].names}
    values = {n: (field, form) for field, form in _OPTIONAL_VALUES.items() for n in table[field][0].names}
    debug = table["debug"][0].names
    out: list[str] = []
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if word.startswith("--debug="):
            out.append(f"--debug-filter={word.partition('=')[2]}")
            word = "--debug"
        out.append(word)
        if word == "--":
            return out + argv[index:]
        if word in debug:
            if index < len(argv) and _is_filter(argv[index]):
                out.append(f"--debug-filter={argv[index]}")
                index += 1
        elif word in values:
            field, form = values[word]
            if index < len(argv) and re.fullmatch(form, argv[index]):
                out.append(argv[index])
                index += 1
            else:
                out[-1] = f"--{field}={PICK_SESSION}"
        elif word in listing and index < len(argv):
            out.append(argv[index])
            index += 1
            while index < len(argv) and listing[word](argv[index]):
                out += [word, argv[index]]
                index += 1
    return out
