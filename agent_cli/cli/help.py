"""Format --help: options in groups, names never truncated, examples at the end.

`use_help_layout` applies this to a command of Typer, whose own layout (by Rich) truncates long names.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

_MAX_WIDTH = 100
# Below this width the explanation of an option gets a line of its own.
_MIN_TWO_COLUMN_WIDTH = 60
_COLUMN_WIDTH = 28
# Commands by group, in the order of the help. A command without a group is added to the last one.
GROUPS = {
    "Session commands": ("sessions", "show", "record", "resume", "undo", "why"),
    "Approval commands": ("pending", "approve", "reject", "answer"),
    "Setup commands": (
        "doctor", "models", "trust", "permissions", "mcp", "hooks", "plugin", "memory", "tools", "import",
    ),
    "Other commands": ("review", "every", "serve", "batch", "acp", "demo", "eval"),
}  # fmt: skip
_METAVARS = {"int": "N", "integer": "N", "int range": "N", "float": "N", "float range": "N"}


def use_help_layout(command: Any) -> Any:
    """Make a command and its subcommands format --help here; return the command."""
    command.rich_markup_mode = None  # error messages are plain text as well
    command.format_help = lambda ctx, formatter: formatter.write(format_help(command, ctx))
    for subcommand in getattr(command, "commands", {}).values():
        use_help_layout(subcommand)
    return command


def format_help(command: Any, ctx: Any) -> str:
    """Format the help of a command to the width of the terminal."""
    width = max(24, min(_MAX_WIDTH, shutil.get_terminal_size().columns))
    pieces = [piece.strip("{}") for piece in command.collect_usage_pieces(ctx)]
    usage = wrap(
        f"Usage: {' '.join((ctx.command_path, *pieces))}", width, subsequent_indent=" " * 7,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    default = getattr(command, "default_command", "")
    more = f"\n\nWithout a command, the same as {ctx.command_path} {default}." if default else ""
    about = [line for text in f"{command.help or ''}{more}".split("\n\n") for line in _wrap(text, width)]
    sections = ["\n".join(usage), "\n".join(about)]
    for heading, rows in _sections(command, ctx):
        lines = [line for names, text in rows for line in _option_row(names, text, width)]
        sections.append("\n".join((_heading(heading), *lines)))
    if command.epilog:
        sections.append("\n".join(_epilog(command.epilog, width)))
    return "\n\n".join(s for s in sections if s) + "\n"


def _sections(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each heading with its rows of names and explanation."""
    shown = [p for p in command.get_params(ctx) if not p.hidden]
    arguments = [(p.make_metavar(ctx), _explain(p, ctx)) for p in shown if p.param_type_name == "argument"]
    if arguments:
        yield "Arguments:", arguments
    panels: dict[str, list[tuple[str, str]]] = {}
    for option in (p for p in shown if p.param_type_name == "option"):
        panels.setdefault(option.rich_help_panel or "", []).append((_names(option), _explain(option, ctx)))
    yield from _commands(command, ctx)
    general = panels.pop("", [])
    for name, rows in panels.items():
        yield f"{name}:", rows
    if general:
        yield "Other options:" if panels else "Options:", general


def _commands(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    if not hasattr(command, "list_commands"):
        return
    found = {name: command.get_command(ctx, name) for name in command.list_commands(ctx)}
    rest = {n: (c.help or "").partition("\n\n")[0] for n, c in found.items() if not c.hidden}
    if ctx.parent is not None:
        if rest:
            yield "Commands:", list(rest.items())
        return
    *_, last = GROUPS
    for heading, names in GROUPS.items():
        rows = [(n, rest.pop(n)) for n in names if n in rest]
        if heading == last:
            rows += rest.items()
        if rows:
            yield f"{heading}:", rows


def _names(option: Any) -> str:
    names = sorted((*option.opts, *option.secondary_opts), key=lambda name: name.startswith("--"))
    if option.is_flag:
        return ", ".join(names)
    kind = option.type.name
    return f"{', '.join(names)} {option.metavar or _METAVARS.get(kind, 'TEXT')}"


def _explain(parameter: Any, ctx: Any) -> str:
    text = parameter.help or ""
    facts = []
    if getattr(parameter, "multiple", False):
        facts.append("repeatable")
    default = parameter.get_default(ctx, call=False)
    if isinstance(parameter.show_default, str):
        facts.append(f"default: {parameter.show_default}")
    elif default not in (None, "", ()) and not isinstance(default, bool):
        facts.append(f"default: {default}")
    if not facts:
        return text
    return f"{text.removesuffix('.')} ({', '.join(facts)})."


def _option_row(names: str, text: str, width: int) -> list[str]:
    """Return the lines of one option, argument or command."""
    if width < _MIN_TWO_COLUMN_WIDTH:
        head = _wrap(names, width - 2)
        return [*(f"  {line}" for line in head), *(f"      {line}" for line in _wrap(text, width - 6))]
    body = _wrap(text, width - _COLUMN_WIDTH - 2) or [""]
    if len(names) + 4 > _COLUMN_WIDTH:
        head = _wrap(names, width - 2)
        return [*(f"  {line}" for line in head), *(f"{'':{_COLUMN_WIDTH}}{line}" for line in body)]
    return [f"  {names:{_COLUMN_WIDTH - 2}}{body[0]}".rstrip(), *(f"{'':{_COLUMN_WIDTH}}{line}" for line in body[1:])]


def _wrap(text: str, width: int) -> list[str]:
    return wrap(" ".join(text.split()), max(12, width), break_long_words=False, break_on_hyphens=False)


def _epilog(text: str, width: int) -> Iterator[str]:
    """Yield an epilog: headings, lines that are indented as they are, and paragraphs."""
    for line in text.strip().splitlines():
        if line.startswith(" ") or not line:
            yield line
        elif line.endswith(":"):
            yield _heading(line)
        else:
            yield from _wrap(line, width)


def examples(*lines: str) -> str:
    """Return the examples of a command as its epilog."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines)))


def _heading(text: str) -> str:
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb")
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def one_of(words: Iterable[str]) -> str:
    """Return words as in a sentence: a, b or c."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
