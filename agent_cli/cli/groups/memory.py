"""`agent memory`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.parameters import takes
from agent_cli.config.run_options import RunOptions

memory_app = typer.Typer(help="The memory files (AGENTS.md, CLAUDE.md) that apply here.", no_args_is_help=True)


@memory_app.callback()
def _memory() -> None:
    """The memory files (AGENTS.md, CLAUDE.md) that apply here."""


@memory_app.command("show")
@takes("settings", "trust")
def memory_show(
    options: RunOptions,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    text: Annotated[bool, typer.Option("--text", help="The text that the model gets.")] = False,
) -> None:
    """Say which memory files are loaded, why, how large they are, and what was cut or left out."""
    from agent_cli.cli.commands.memory import show_memory

    raise typer.Exit(show_memory(options, as_json=json, as_text=text))
