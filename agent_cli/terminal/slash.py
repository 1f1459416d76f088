"""What a slash command is: a function under `@slash` that is given a `SlashContext`, and no more of the session.

The commands are in `commands/`, by topic; /help and the menu of the input line read `REGISTRY`. A command runs beside
the screen, so it may ask and wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.core.events import Event
from agent_cli.core.place import RunEnvironment
from agent_cli.core.results import Usage
from agent_cli.extensions.commands import split_call
from agent_cli.runtime.builder import Agent
from agent_tools.display import Display
from agent_tools.record import Value


class UserOutput(Protocol):
    """What a command shows."""

    def say(self, text: str) -> None:
        """Show a line."""

    def page(self, text: str) -> None:
        """Show a text that may be long."""

    def show_display(self, display: Display) -> None:
        """Show a display, whole."""

    def show_markdown(self, text: str) -> None:
        """Show a text of the model's that is not part of the transcript."""

    def show_plan(self) -> None:
        """Show the plan, or say that there is none."""

    def show_event(self, event: Event) -> None:
        """Show an event of the conversation."""


class UserQuestions(Protocol):
    """What a command asks the user. Each raises CancelledError where the question is interrupted."""

    def confirm(self, question: str) -> bool:
        """Whether the user says yes."""

    def choose(self, question: str, options: Sequence[tuple[str, str]]) -> int | None:
        """The place of the option that the user picks, from 0; None for none. An option is a name and what it means."""

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        """The text as it comes out of the user's editor; None where that fails."""

    def propose(self, text: str) -> None:
        """Put a text into the input line, where there is one that is empty."""


class TerminalControl(Protocol):
    """What a command changes about the terminal."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """The keys and what they do, for /help."""

    @property
    def theme(self) -> str:
        """The name of the colours."""

    def switch_theme(self, theme: str) -> None:
        """Change the colours for the rest of the session."""

    def switch_vim(self) -> bool | None:
        """Turn the keys of vi on or off; None where lines are typed without an editor."""

    def send_sequence(self, sequence: str) -> bool:
        """Send the terminal a sequence that draws nothing; False where there is no terminal."""


class SessionControl(Protocol):
    """What a command knows and changes about the session. The changes raise UsageError, and then change nothing."""

    @property
    def usage(self) -> Usage:
        """What the session has used."""

    @property
    def context_tokens(self) -> int:
        """How many tokens of the model's window are in use."""

    def add_usage(self, usage: Usage) -> None:
        """Count what was used beside the turns."""

    def measure_context(self) -> None:
        """Measure again how full the window is."""

    def start_new_session(self) -> None:
        """Start a new session with the same options."""

    def resume(self, session_id: str) -> None:
        """Leave this session for another one."""

    def fork(self) -> str:
        """Continue in a copy of this session; the ID of the one that is left."""

    def switch_model(self, name: str) -> None:
        """Continue with another model."""

    def switch_mode(self, mode: str) -> None:
        """Change what is permitted."""

    def take_turn(self, text: str) -> None:
        """Send a message and show the turn that it starts."""

    def run_interruptible(self, run: Callable[[], object]) -> None:
        """Run what takes a while; Ctrl-C interrupts it."""


class SlashContext(UserOutput, UserQuestions, TerminalControl, SessionControl, Protocol):
    """All that a slash command may use: the agent, where and how it was started, and the four parts above."""

    @property
    def agent(self) -> Agent: ...

    @property
    def place(self) -> RunEnvironment: ...

    @property
    def layers(self) -> Layers: ...

    @property
    def options(self) -> RunOptions: ...


Handler = Callable[[SlashContext, str], None]
ArgumentValues = Callable[[SlashContext], Iterable[str]]


class ExitRequestedError(Exception):
    """End the session."""


class BuiltinCommand(Value):
    """A command: its name, its arguments in help, what it does in one line.

    aside: it may be given while a turn runs; the others wait for its end. values: what its argument may be, for the
    menu.
    """

    name: str
    usage: str
    help: str
    run: Handler
    aside: bool = False
    values: ArgumentValues | None = None


REGISTRY: dict[str, BuiltinCommand] = {}


def slash(
    name: str, text: str, usage: str = "", *, aside: bool = False, values: ArgumentValues | None = None
) -> Callable[[Handler], Handler]:
    """Register a command under `/name`."""

    def register(handler: Handler) -> Handler:
        REGISTRY[name] = BuiltinCommand(name, usage, text, handler, aside, values)
        return handler

    return register


def is_aside(line: str) -> bool:
    """Whether `/name words` may be given while a turn runs."""
    command = REGISTRY.get(line[1:].partition(" ")[0])
    return command is not None and command.aside


def run_slash(ctx: SlashContext, line: str) -> None:
    """Run `/name words`, ours before the user's own.

    Raises ExitRequestedError; an unknown name is said, with the nearest one.
    """
    name, _, rest = line[1:].partition(" ")
    command = REGISTRY.get(name)
    if command is None:
        own = ctx.agent.commands
        if split_call(line)[0] in own:
            ctx.take_turn(line)
            return
        import difflib

        near = difflib.get_close_matches(name, [*REGISTRY, *own], 1)
        ctx.say(f"There is no /{name}" + (f"; did you mean /{near[0]}?" if near else ". See /help."))
        return
    command.run(ctx, rest.strip())
