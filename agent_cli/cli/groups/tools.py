"""`agent tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.parameters import takes
from agent_cli.config.run_options import RunOptions

tools_app = typer.Typer(help="List the tools, or run one from a script.", no_args_is_help=True)


@tools_app.command("list")
def tools_list(json: Annotated[bool, typer.Option("--json", help="With their JSON schemas.")] = False) -> None:
    """List the tools."""
    from agent_cli.cli.commands.tools import list_tools

    raise typer.Exit(list_tools(as_json=json))


@tools_app.command("run")
@takes(
    "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "add_dir",
    "settings", "trust", "bare", print=True,
)  # fmt: skip
def tools_run(
    options: RunOptions,
    name: Annotated[str, typer.Argument(help="The tool, e.g. Grep.")],
    arguments: Annotated[str | None, typer.Argument(help="Its arguments as JSON; else read from stdin.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print text and is_error as JSON.")] = False,
) -> None:
    """Run one tool, under the same permissions as in a session. Exit 0, 1 for an error or a denial, 2 for misuse."""
    from agent_cli.cli.commands.tools import run_tool

    raise typer.Exit(run_tool(name, arguments, options, as_json=json))
