"""`agent sessions`."""

from __future__ import annotations

from typing import Annotated

import typer

sessions_app = typer.Typer(help="The sessions of this project, or of all.", no_args_is_help=True)

_EVERY = typer.Option("--all-projects", "-A", help="Of all projects, moved and removed ones too.")
_ONE = typer.Argument(help="ID, its beginning, name, or words; the latest by default.", metavar="[SESSION]")


@sessions_app.command("list")
def sessions_list(
    json: Annotated[bool, typer.Option("--json", help="As JSON, with every field.")] = False,
    every: Annotated[bool, _EVERY] = False,
    search: Annotated[str, typer.Option("--search", "-s", help="Only those that say all of these words.")] = "",
) -> None:
    """List the sessions of this project, the latest first."""
    from agent_cli.cli.commands.sessions import list_sessions

    raise typer.Exit(list_sessions(json, every=every, search=search))


@sessions_app.command("show")
def sessions_show(
    session: Annotated[str, _ONE] = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn; negative from the end.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    every: Annotated[bool, _EVERY] = False,
) -> None:
    """Tell what happened in a session, turn by turn."""
    from agent_cli.cli.commands.sessions import log_of, show_log

    raise typer.Exit(show_log(log_of(session, every), turn, as_json=json))


@sessions_app.command("rm")
def sessions_rm(
    sessions: Annotated[list[str] | None, typer.Argument(help="IDs, names, or words.", metavar="[SESSION...]")] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Those that did not change for so long: 12h, 30d, 4w.", metavar="TIME")
    ] = "",
    every: Annotated[bool, _EVERY] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove sessions for good."""
    from agent_cli.cli.commands.sessions import remove_sessions

    raise typer.Exit(remove_sessions(sessions or (), older_than=older_than, every=every, yes=yes))


@sessions_app.command("export")
def sessions_export(
    session: Annotated[str, _ONE] = "",
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option("--format", "-f", help="What to write; by default what FILE's name says, else markdown.",
                          metavar="markdown|html|json")
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to; standard output by default.", metavar="FILE")
    ] = "",
    every: Annotated[bool, _EVERY] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:  # fmt: skip
    """Write a session as markdown, as one HTML page, or as JSON."""
    from agent_cli.cli.commands.sessions import export_session

    raise typer.Exit(export_session(session, format, output, every=every, force=force))
