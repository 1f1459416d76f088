"""`agent sessions`."""

from __future__ import annotations

from typing import Annotated

import typer

sessions_app = typer.Typer(help="The sessions of this project.", no_args_is_help=True)


@sessions_app.command("list")
def sessions_list(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the sessions of this project, the latest first."""
    from agent_cli.commands.sessions import list_sessions

    raise typer.Exit(list_sessions(as_json=json))
