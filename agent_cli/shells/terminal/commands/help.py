"""/help: the topics with the names of their commands; a topic or a command in detail. Each fits on a screen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from textwrap import wrap

from rich.text import Text

from agent_cli.kernel.runtime.session_commands import unknown_command
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.slash import BuiltinCommand, SlashContext, builtin_commands, find_command, slash
from agent_tools.base import UserCommand
from agent_tools.record import Value
from agent_tools.text import one_line, shorten


class Topic(Value):
    """A topic of /help. about: a few words. commands: their names, the most used first."""

    about: str
    commands: tuple[str, ...] = ()


BASICS, KEYS, OWN = "basics", "keys", "prompts"
TOPICS = {
    BASICS: Topic(
        "this session and its settings", ("continue", "status", "config", "doctor", "clear", "exit", "bug", "help")
    ),
    "models": Topic("the model, its provider, effort and cost", ("model", "effort", "login", "logout", "cost", "btw")),
    "changes": Topic(
        "plans, changes and commits", ("plan", "todos", "record", "diff", "undo", "redo", "rewind", "commit", "jobs")
    ),
    "window": Topic("the context window", ("context", "compact", "uncompact", "pin")),
    "approval": Topic("what runs without a question", ("mode", "stage", "permissions", "add-dir")),
    "extend": Topic(
        "memory, skills, plugins and servers",
        ("memory", "skills", "agents", "mcp", "hooks", "plugin", "output-style", "ide"),
    ),
    "history": Topic("other sessions", ("resume", "sessions", "fork", "rename", "export", "copy")),
    "screen": Topic("how it looks and edits", ("theme", "vim")),
    KEYS: Topic("keys and special characters"),
    OWN: Topic("commands that send a prompt, and skills"),
}
_TOPIC_COLUMNS = 10
_USAGE_COLUMNS = 30
_MAX_WIDTH = 100
# Values of an argument that are shown; own commands that are named in the list of topics.
_MAX_VALUES = 12
_MAX_OWN = 12


def _values(ctx: SlashContext) -> Iterable[tuple[str, str]]:
    yield from ((name, topic.about) for name, topic in TOPICS.items())
    yield from ((name, builtin_commands()[name].help) for name in sorted(builtin_commands()))


@slash("help", "list commands and keys", "[TOPIC | COMMAND]", aside=True, values=_values,
       aliases=("commands", "?"))  # fmt: skip
def _help(ctx: SlashContext, words: str) -> None:
    word = words.strip().lower()
    name = word.removeprefix("/")
    own = ctx.agent.commands
    if not word and ctx.has_menus:
        _browse(ctx)
        return
    if not word:
        lines: Iterable[str] = _topics(ctx)
    elif word in TOPICS:
        lines = _topic(ctx, word)
    elif command := find_command(name):
        lines = _command(ctx, command)
    elif name in own:
        lines = [*_row(f"/{name} {own[name].hint}", own[name].description), *_from_file(own[name])]
    else:
        ctx.say(unknown_command(name, [*builtin_commands(), *own]))
        ctx.say(f"Topics: {', '.join(TOPICS)}.")
        return
    for line in lines:
        ctx.say(line)


def _browse(ctx: SlashContext) -> None:
    """Show the commands and keys; the chosen command goes into the input line."""
    items, calls = list[ViewItem](), list[str]()
    for topic in TOPICS:
        section = f"{topic}: {TOPICS[topic].about}"
        for name in _commands_of(topic):
            command = builtin_commands()[name]
            draw = partial(_draw, partial(_command, ctx, command))
            items.append(ViewItem(f"/{name} {command.usage}".rstrip(), command.help, section=section, detail=draw))
            calls.append(f"/{name} " if command.usage else f"/{name}")
        for name, own in ctx.agent.commands.items() if topic == OWN else ():
            draw = partial(_draw, partial(_own, own))
            items.append(ViewItem(f"/{name} {own.hint}".rstrip(), own.description, section=section, detail=draw))
            calls.append(f"/{name} ")
        for keys, text in ctx.keys if topic == KEYS else ():
            items.append(ViewItem(keys, text, section=section))
            calls.append("")
    use = ViewAction("enter", "put into the input line", lambda index: bool(calls[index]))
    left = ctx.show_view(View("Help", items=tuple(items), actions=(use,)))
    if left is not None:
        ctx.propose_message(calls[left.index])


def _draw(lines: Callable[[], Iterable[str]], width: int) -> list[Text]:
    return [row for line in lines() for row in prose_lines(line, width)]


def _topics(ctx: SlashContext) -> Iterator[str]:
    for name, topic in TOPICS.items():
        if name == KEYS:
            names = [keys for keys, _ in ctx.keys]
            text = f"{shorten(', '.join(names), 40)}: {topic.about}"
        elif name == OWN:
            own = [f"/{each}" for each in ctx.agent.commands]
            if not own:
                continue
            more = f" … and {len(own) - _MAX_OWN} more" if len(own) > _MAX_OWN else ""
            text = f"{' '.join(own[:_MAX_OWN])}{more}"
        else:
            text = " ".join(f"/{each}" for each in _commands_of(name))
        yield from _row(name, text, _TOPIC_COLUMNS)
    yield "  /help TOPIC or /help COMMAND shows more."


def _topic(ctx: SlashContext, name: str) -> Iterator[str]:
    yield f"  {name}: {TOPICS[name].about}"
    if name == KEYS:
        for keys, text in ctx.keys:
            yield from _row(keys, text)
    elif name == OWN:
        for each, own in ctx.agent.commands.items():
            yield from _row(f"/{each} {own.hint}", own.description or str(getattr(own, "path", "")))
    for each in _commands_of(name):
        yield from _row(f"/{each} {builtin_commands()[each].usage}", builtin_commands()[each].help)


def _commands_of(topic: str) -> list[str]:
    """Return the commands of a topic; those that no topic names are basics."""
    named = {name for each in TOPICS.values() for name in each.commands}
    others = sorted(builtin_commands().keys() - named) if topic == BASICS else ()
    return [*TOPICS[topic].commands, *others]


def _command(ctx: SlashContext, command: BuiltinCommand) -> Iterator[str]:
    yield from _row(f"/{command.name} {command.usage}", command.help)
    values = list(islice(command.values(ctx), _MAX_VALUES + 1)) if command.values else []
    for value in values[:_MAX_VALUES]:
        word, text = (value, "") if isinstance(value, str) else value
        yield from _row(f"  {word}", shorten(one_line(text), 60))
    if len(values) > _MAX_VALUES:
        yield "    …"
    if command.aliases:
        yield f"  Also: {', '.join(f'/{alias}' for alias in command.aliases)}."
    if not command.aside:
        yield "  Runs between turns."


def _own(command: UserCommand) -> list[str]:
    return [command.description, "", *_from_file(command)]


def _from_file(own: object) -> list[str]:
    path = getattr(own, "path", "")
    return _row("  from", str(path)) if path else []


def _row(head: str, text: str, columns: int = _USAGE_COLUMNS) -> list[str]:
    """Return the lines of a row: the head in a column, and the text next to it."""
    width = max(min(_MAX_WIDTH, shutil.get_terminal_size().columns - 1), 40)
    head = f"  {head.rstrip()}"
    body = wrap(text, width - columns - 2, break_on_hyphens=False) or [""]
    indent = " " * (columns + 2)
    if len(head) > columns + 1:
        return [head, *(f"{indent}{line}" for line in body)] if text else [head]
    return [f"{head:{columns + 2}}{body[0]}".rstrip(), *(f"{indent}{line}" for line in body[1:])]
