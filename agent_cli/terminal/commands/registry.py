"""Slash commands: a function under a decorator; /help and the menu of the input line read the same registry.

The commands are in `commands/`, by topic. A handler runs beside the screen, so it may ask and wait (`repl.choose`,
`repl.confirm`, `repl.ask`, `repl.edit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agent_cli.extensions.commands import split_call
from agent_tools.record import Value

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl

Handler = Callable[["Repl", str], None]
Values = Callable[["Repl"], Iterable[str]]


class ExitRequestedError(Exception):
    """End the session."""


class ReplCommand(Value):
    """A command: its name, its arguments in help, what it does in one line.

    aside: it may be given while a turn runs; the others wait for its end. values: what its argument may be, for the
    menu.
    """

    name: str
    usage: str
    help: str
    run: Handler
    aside: bool = False
    values: Values | None = None


REGISTRY: dict[str, ReplCommand] = {}


def slash(
    name: str, text: str, usage: str = "", *, aside: bool = False, values: Values | None = None
) -> Callable[[Handler], Handler]:
    """Register a command under `/name`."""

    def register(handler: Handler) -> Handler:
        REGISTRY[name] = ReplCommand(name, usage, text, handler, aside, values)
        return handler

    return register


def is_aside(line: str) -> bool:
    """Whether `/name words` may be given while a turn runs."""
    command = REGISTRY.get(line[1:].partition(" ")[0])
    return command is not None and command.aside


def run_slash(repl: Repl, line: str) -> None:
    """Run `/name words`, ours before the user's own.

    Raises ExitRequestedError; an unknown name is said, with the nearest one.
    """
    name, _, rest = line[1:].partition(" ")
    command = REGISTRY.get(name)
    if command is None:
        own = repl.agent.commands
        if split_call(line)[0] in own:
            repl.take_turn(line)
            return
        import difflib

        near = difflib.get_close_matches(name, [*REGISTRY, *own], 1)
        repl.say(f"There is no /{name}" + (f"; did you mean /{near[0]}?" if near else ". See /help."))
        return
    command.run(repl, rest.strip())
