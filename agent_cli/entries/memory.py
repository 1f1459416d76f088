"""`agent memory`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.options import RunOptions

memory_app = typer.Typer(help="The memory files (AGENTS.md, CLAUDE.md) that apply here.", no_args_is_help=True)


@memory_app.callback()
def _memory() -> None:
    """The memory files (AGENTS.md, CLAUDE.md) that apply here."""


@memory_app.command("show")
def memory_show(
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    text: Annotated[bool, typer.Option("--text", help="The text that the model gets.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="As in a run with --trust.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
) -> None:
    """Say which memory files are loaded, why, how large they are, and what was cut or left out."""
    from agent_cli.commands.memory import show_memory

    options = RunOptions(trust=trust, settings=tuple(settings or ()))
    raise typer.Exit(show_memory(options, as_json=json, as_text=text))
