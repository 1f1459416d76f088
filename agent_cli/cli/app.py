"""The Typer command line: the options of a run, built from their table, and the files of `commands`, loaded lazily.

Typer reads every line that the quick parser does not, words the mistakes, prints --help and completes in the shell.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from agent_cli.cli import SHARED, command_help, command_names, commands
from agent_cli.cli.parameters import options_of, parameters, signed
from agent_cli.config.run_options import RunOptions, normalize_argv
from agent_cli.core.version import __version__
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.cli import run  # the engine, which no command list or help needs

PROMPT = "send-prompt"


class PromptGroup(TyperGroup):
    """The commands, each imported when it runs or its own help is shown.

    A first word that names none of them begins the prompt; options may then stand on either side.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return command_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the stub of a command for lists and completion: its name and line of help."""
        return TyperCommand(cmd_name, help=command_help(cmd_name))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["prompt"] = not (args and args[0] in command_names())
        ctx.allow_interspersed_args = ctx.meta["prompt"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.meta["prompt"]:
            return PROMPT, self.commands[PROMPT], ["--", *args]
        return args[0], load_command(args[0]), args[1:]

    def invoke(self, ctx: Any) -> Any:
        raise typer.Exit(super().invoke(ctx) or 0)


@cache
def load_command(name: str) -> Any:
    """Load a command from its file, as Typer needs it."""
    file = SHARED[name][0] if name in SHARED else name
    module = import_module(f"{commands.__name__}.{file}")
    command: Any
    if name in SHARED:
        command = typer.main.get_group(module.shared).commands[name]
    else:
        command = typer.main.get_command(module.app)
    command.name = name
    command.help = command.help or command_help(name)
    return command


app = typer.Typer(
    cls=PromptGroup,
    invoke_without_command=True,
    subcommand_metavar="[PROMPT... | COMMAND]",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes of -p: 0 done or degraded, 1 failed, 2 usage or settings, 3 waiting for the user, 4 stopped by a "
        "limit, 5 denied (--fail-on-denied), 75 worth trying again, 130 interrupted. "
        "`agent -- WORD` sends a word that is also a command."
    ),
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _run(ctx: typer.Context, **values: Any) -> int:
    """A coding agent in your terminal. Without a command: start a session, with PROMPT as its first message."""
    values.pop("version", None)
    options = options_of(values)
    ctx.obj = options
    return _start(options) if ctx.invoked_subcommand is None else 0


_context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_show_version = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="The version.")],
)
signed(_run, [_context, *parameters(), _show_version])
app.callback()(_run)


@app.command(PROMPT, hidden=True)
def send_prompt(ctx: typer.Context, words: list[str]) -> int:
    """Join the prompt of a run."""
    return _start(ctx.obj.replace(prompt=tuple(words)))


def _start(options: RunOptions) -> int:
    return run.start(options, typed=sys.argv[1:])


@cache
def as_typer_reads() -> Any:
    """Build Typer's command tree; this takes longer than most commands."""
    return typer.main.get_command(app)


def run_cli(argv: list[str]) -> int:
    """Let Typer parse the command line; return the exit code."""
    try:
        code = as_typer_reads().main(args=normalize_argv(argv), prog_name="agent", standalone_mode=True)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # which Typer turns into a plain 1
            raise exit_.__context__ from None
        return exit_.code if isinstance(exit_.code, int) else 1
    return code if isinstance(code, int) else 0
