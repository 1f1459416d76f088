"""`agent undo` and `agent why`: work taken back, and who wrote a line."""

from __future__ import annotations

from typing import Annotated

import typer

undoing_app = typer.Typer()


@undoing_app.command("undo")
def undo_command(
    session: Annotated[str, typer.Argument(help="Its ID or the beginning of it; the latest by default.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="List the turns that changed something.")] = False,
    to: Annotated[int | None, typer.Option("--to", metavar="TURN", help="Undo this turn and all after it.")] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Take the latest undo back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also files that somebody changed since.")] = False,
    files: Annotated[list[str] | None, typer.Option("--file", help="Only this file; repeatable.")] = None,
) -> None:
    """Take back what the last turn of a session changed, commands included."""
    from agent_cli.cli.commands.undo import undo_session

    chosen = tuple(files or ())
    raise typer.Exit(undo_session(session, listed=listed, to=to, redo=redo, yes=yes, force=force, files=chosen))


@undoing_app.command()
def why(line: Annotated[str, typer.Argument(metavar="FILE:LINE", help="As in src/app.py:42.")]) -> None:
    """Say which turn, prompt and model wrote a line."""
    from agent_cli.cli.commands.undo import explain_line

    raise typer.Exit(explain_line(line))
