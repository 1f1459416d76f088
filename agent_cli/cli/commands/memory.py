"""Show the memory files (AGENTS.md, CLAUDE.md) that apply here."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli import Config, find_environment, read_settings
from agent_cli.cli.app import AsJsonObject, ListingGroup, with_run_options
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_ignored, print_json
from agent_cli.kernel.runtime.tool_box import ToolBox

app = typer.Typer(cls=ListingGroup, add_completion=False)


@app.callback()
def _group() -> None:
    # Without a callback, Typer does not make a group of a single command.
    pass


@app.command("show", epilog=examples("agent memory show", "agent memory show --text"))
@with_run_options("settings", "trust")
def show_memory(
    config: Config,
    as_json: AsJsonObject = False,
    as_text: Annotated[bool, typer.Option("--text", help="Print the text that the model gets.")] = False,
) -> int:
    """Show which memory files are loaded and why, their size, and what was cut or left out."""
    run_env = find_environment(os.environ)
    layers = read_settings(config, run_env)
    print_ignored(layers.ignored)
    found = ToolBox(run_env, layers).memory()
    if as_text:
        echo(found.block())
    elif as_json:
        print_json(found.data())
    else:
        echo("\n".join(found.described()))
    return 0
