"""`agent hooks` on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.parameters import takes
from agent_cli.config.run_options import RunOptions

hooks_app = typer.Typer(help="Commands of yours at named steps of a session.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@hooks_app.command("list")
@takes("settings", "trust")
def hooks_list(options: RunOptions, json: AsJson = False) -> None:
    """List the hooks in the order they run: event, matcher, command, where from, and whether they run."""
    from agent_cli.cli.commands.hooks import list_hooks

    raise typer.Exit(list_hooks(options, as_json=json))


@hooks_app.command("test")
@takes("settings", "trust")
def hooks_test(
    options: RunOptions,
    event: Annotated[str, typer.Argument(help="The event, e.g. PreToolUse.")],
    given: Annotated[
        str, typer.Option("--input", metavar="JSON", help="Fields of the event; for a tool its input is enough.")
    ] = "",
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool that would be called.")] = "",
    json: AsJson = False,
) -> None:
    """Run the hooks of an event, for real, and show what they answer and what would come of it."""
    from agent_cli.cli.commands.hooks import test_hooks

    raise typer.Exit(test_hooks(event, given, tool, options, as_json=json))
