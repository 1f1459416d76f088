"""The command line in Typer: the commands, and the options of a run built from the table in `options.py`.

Typer reads every line that the quick parser does not, words the mistakes, prints --help and completes in the shell.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_cli.cli.groups.approvals import deciding_app
from agent_cli.cli.groups.hooks import hooks_app
from agent_cli.cli.groups.mcp import mcp_app
from agent_cli.cli.groups.memory import memory_app
from agent_cli.cli.groups.permissions import permissions_app
from agent_cli.cli.groups.sessions import sessions_app
from agent_cli.cli.groups.tools import tools_app
from agent_cli.cli.groups.undo import undoing_app
from agent_cli.cli.parameters import options_of, parameters, signed
from agent_cli.config.run_options import RunOptions, spell_out
from agent_cli.core.version import __version__

PROMPT = "send-prompt"


class PromptGroup(TyperGroup):
    """A group whose first word, where it names no command, begins the prompt; options may stand on either side."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["prompt"] = not (args and args[0] in self.commands and args[0] != PROMPT)
        ctx.allow_interspersed_args = ctx.meta["prompt"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.meta["prompt"]:
            return PROMPT, self.commands[PROMPT], ["--", *args]
        return super().resolve_command(ctx, args)


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
app.add_typer(tools_app, name="tools")
app.add_typer(sessions_app, name="sessions")
app.add_typer(permissions_app, name="permissions")
app.add_typer(hooks_app, name="hooks")
app.add_typer(mcp_app, name="mcp")
app.add_typer(memory_app, name="memory")
app.add_typer(deciding_app)
app.add_typer(undoing_app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _run(ctx: typer.Context, **values: Any) -> None:
    """A coding agent in your terminal. Without a command: start a session, with PROMPT as its first message."""
    values.pop("version", None)
    options = options_of(values)
    if ctx.invoked_subcommand is None:
        _start(options)
    ctx.obj = options


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
def send_prompt(ctx: typer.Context, words: list[str]) -> None:
    """The prompt of a run."""
    _start(ctx.obj.but(prompt=tuple(words)))


def _start(options: RunOptions) -> None:
    from agent_cli.cli.run import start

    raise typer.Exit(start(options, typed=sys.argv[1:]))


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the demo's own rules answer.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
) -> None:
    """Watch the agent repair a small broken project. No key and no network needed."""
    from agent_cli.demo.run import run_demo

    raise typer.Exit(run_demo(yes=yes, keep=keep))


@app.command()
def doctor(json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False) -> None:
    """Say what is configured, found and missing."""
    from agent_cli.doctor.report import run_doctor

    raise typer.Exit(run_doctor(as_json=json))


@app.command()
def models(
    search: Annotated[str, typer.Argument(help="Part of a name.")] = "",
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List known models with their window and price."""
    from agent_cli.cli.commands.models import list_models

    raise typer.Exit(list_models(search, as_json=json))


@app.command()
def trust(
    folder: Annotated[str, typer.Argument(help="A folder of the repository; the one here by default.")] = "",
    show: Annotated[bool, typer.Option("--show", help="Only show what it brings.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take trust back.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List the repositories that are trusted.")] = False,
) -> None:
    """Trust a repository as it is now: its settings, commands, agents and hooks then count."""
    from agent_cli.cli.commands.trust import list_trusted, trust_folder

    raise typer.Exit(list_trusted() if every else trust_folder(folder, show=show, revoke=revoke))


@cache
def as_typer_reads() -> Any:
    """What Typer makes of the commands, which takes longer than most of them."""
    return typer.main.get_command(app)


def run_cli(argv: list[str]) -> int:
    """Let Typer read the command line; the exit code."""
    try:
        code = as_typer_reads().main(args=spell_out(argv), prog_name="agent", standalone_mode=True)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # which Typer turns into a plain 1
            raise exit_.__context__ from None
        return exit_.code if isinstance(exit_.code, int) else 1
    return code if isinstance(code, int) else 0
