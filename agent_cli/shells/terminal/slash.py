"""Slash commands: functions decorated with `@slash`, which get a `SlashContext` and nothing else of the session.

The commands are in `commands/`, by topic, and are loaded when `builtin_commands` is first called. Commands do not run
on the drawing thread, so they may ask and wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from agent_cli import Config, Event, Layers, RunEnvironment, Session, Usage
from agent_cli.kernel.runtime.session_commands import unknown_command
from agent_cli.knowledge.commands import split_call
from agent_cli.shells.terminal.dialogs.view import Chosen, View
from agent_tools.record import Value
from agent_tools.results import Display


class UserOutput(Protocol):
    """Output of a command."""

    def say(self, text: str) -> None:
        """Show a line."""

    def page(self, text: str, title: str = "") -> None:
        """Show a long text."""

    def show_view(self, view: View) -> Chosen | None:
        """Show a view until the user closes it; return how it was left. Without a live screen, its text is printed."""

    def pick_from(self, view: View) -> Chosen | None:
        """Let the user pick an item of a view; return how it was left, None if nothing was picked."""

    def show_display(self, display: Display) -> None:
        """Show a display in full."""

    def show_markdown(self, text: str) -> None:
        """Show text of the model that is not part of the transcript."""

    def show_plan(self) -> None:
        """Show the plan, or say that there is none."""

    def show_event(self, event: Event) -> None:
        """Show an event of the conversation."""


class UserQuestions(Protocol):
    """Questions of a command. Each raises CancelledError if the question is interrupted."""

    def confirm(self, question: str, *, grave: bool) -> bool:
        """Ask for yes or no."""

    def decide(self, question: str, options: Sequence[tuple[str, str, str]], *, grave: bool) -> str | None:
        """Return the key of the answer; None for `n` or no answer. An option is a key, a label and a detail."""

    def choose(self, question: str, options: Sequence[tuple[str, str]], *, quiet: bool = False) -> int | None:
        """Return the index of the picked option, or None. An option is a label and its meaning.

        quiet: nothing of it stays on the screen.
        """

    def ask(self, question: str, read: Callable[[str], Any], text: str = "") -> Any:
        """Ask for a line and return it as parsed by `read`; None for no answer.

        read: raises ValueError with a message for an invalid line; the user is then asked again.
        text: initial text of the line.
        """

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        """Return the text edited in the user's editor; None if the editor fails."""

    def propose_message(self, text: str) -> None:
        """Put a text into the input line if it is empty."""

    def outside(self, run: Callable[[], Any]) -> Any:
        """Run something that reads and writes the terminal itself; return its result, None after Ctrl-C."""


class TerminalControl(Protocol):
    """Terminal state that a command can change."""

    @property
    def has_menus(self) -> bool:
        """True if menus and panels can be drawn, not only lines."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """Keys and what they do, for /help."""

    @property
    def theme(self) -> str:
        """Name of the theme."""

    def switch_theme(self, theme: str) -> None:
        """Change the theme for the rest of the session."""

    def switch_vim(self) -> bool | None:
        """Toggle vi keys in the input line; None if there is no line editor."""

    def watch(self, rows: Callable[[int, int], Sequence[str]]) -> None:
        """Show rows that change until the user closes them; once without a live screen.

        rows: returns them for the available columns and rows.
        """

    def send_sequence(self, sequence: str) -> bool:
        """Send the terminal a sequence that draws nothing; return False without a terminal."""


class SessionControl(Protocol):
    """Session state that a command can read and change. Changes raise UsageError and then change nothing."""

    # A message that would continue the work; "" if nothing is left.
    proposal: str

    @property
    def usage(self) -> Usage:
        """Usage of the session."""

    @property
    def context_tokens(self) -> int:
        """Tokens of the model's window in use."""

    def add_usage(self, usage: Usage) -> None:
        """Add usage outside of turns."""

    def measure_context(self) -> None:
        """Measure the context again."""

    def change_stage(self) -> None:
        """Go on in a stage, or outside it if this is one. Raises ExitRequestedError."""

    def start_new_session(self) -> None:
        """Start a new session with the same configuration."""

    def resume(self, session_id: str) -> None:
        """Switch to another session."""

    def fork(self) -> str:
        """Continue in a copy of this session; return the old ID."""

    def switch_model(self, name: str, source: str = "command") -> None:
        """Continue with another model."""

    def switch_mode(self, mode: str) -> None:
        """Change the permission mode."""

    def run_turn(self, text: str) -> None:
        """Send a message and show its turn."""

    def run_interruptible(self, run: Callable[[], object]) -> None:
        """Run something long that Ctrl-C interrupts."""


class SlashContext(UserOutput, UserQuestions, TerminalControl, SessionControl, Protocol):
    """All that a slash command may use: the agent, its environment and config, and the four interfaces above."""

    @property
    def agent(self) -> Session: ...

    @property
    def run_env(self) -> RunEnvironment: ...

    @property
    def layers(self) -> Layers: ...

    @property
    def config(self) -> Config: ...


Handler = Callable[[SlashContext, str], None]
# Values of an argument: words, or a word with its meaning.
ArgumentValues = Callable[[SlashContext], Iterable[str | tuple[str, str]]]


class ExitRequestedError(Exception):
    """End the session."""


class BuiltinCommand(Value):
    """A slash command.

    usage: its arguments, for help; those without brackets are required.
    help: one line of description.
    aside: may run during a turn; the others wait for its end.
    values: returns its argument values, for the menu.
    strict: its argument is one of these values.
    aliases: other names for it, such as those that other programs use.
    """

    name: str
    usage: str
    help: str
    run: Handler
    aside: bool = False
    values: ArgumentValues | None = None
    strict: bool = False
    aliases: tuple[str, ...] = ()


_REGISTERED: dict[str, BuiltinCommand] = {}
_ALIASES: dict[str, str] = {}
# The order of the menu until the user has used commands.
COMMON = (
    "help", "model", "resume", "compact", "clear", "cost", "plan", "mode", "diff", "undo", "config", "context", "jobs",
    "todos", "commit", "rewind", "init", "review", "memory", "permissions", "status", "effort", "export", "mcp", "exit",
)  # fmt: skip
# Lines that end the session, as in shells and editors.
_EXIT_WORDS = ("exit", "quit", ":q", ":q!", ":wq", ":x")


def builtin_commands() -> Mapping[str, BuiltinCommand]:
    """Return the built-in commands by name."""
    import_module(f"{__package__}.commands").load_all()
    return _REGISTERED


def slash(
    name: str,
    text: str,
    usage: str = "",
    *,
    aside: bool = False,
    values: ArgumentValues | None = None,
    strict: bool = False,
    aliases: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Register a command under `/name`."""

    def register(handler: Handler) -> Handler:
        _REGISTERED[name] = BuiltinCommand(name, usage, text, handler, aside, values, strict, aliases)
        _ALIASES.update(dict.fromkeys(aliases, name))
        return handler

    return register


def find_command(name: str) -> BuiltinCommand | None:
    """Return the built-in command with this name or alias."""
    return builtin_commands().get(_ALIASES.get(name, name))


def as_command(text: str) -> str:
    """Return `/exit` for a line that means to leave (`exit`, `quit`, `:q`); other lines unchanged."""
    return "/exit" if text.strip().lower() in _EXIT_WORDS else text


def is_bang(text: str) -> bool:
    """Return True for a line that runs a command of the shell, after one `!` or two."""
    return text.startswith("!") and text.strip("!").strip() != ""


def parse_note(message: str) -> str:
    """Return the note in a message, "" for other messages: one line after one `#`; no heading, no `#123`, no `#!`."""
    if not message.startswith("#") or "\n" in message:
        return ""
    note = message[1:].strip()
    return "" if not note or message[1] in "#!" or message[1].isdigit() else note


def may_run_during_turn(line: str) -> bool:
    """Return True if `/name words` may run during a turn."""
    command = find_command(line[1:].partition(" ")[0])
    return command is not None and command.aside


def run_slash(ctx: SlashContext, line: str) -> None:
    """Run `/name words`; built-in commands take precedence over the user's, and those over aliases.

    Raises ExitRequestedError. An unknown name is reported with those that match.
    """
    name, _, rest = line[1:].partition(" ")
    own = ctx.agent.commands
    command = builtin_commands().get(name)
    if command is None and split_call(line)[0] in own:
        ctx.run_turn(line)
    elif command := command or find_command(name):
        command.run(ctx, rest.strip())
    else:
        ctx.say(unknown_command(name, [*default_order(builtin_commands()), *own]))


def default_order(names: Iterable[str]) -> list[str]:
    """Sort the names of commands: the common ones first, the others by name."""
    return sorted(names, key=lambda name: (COMMON.index(name) if name in COMMON else len(COMMON), name))
