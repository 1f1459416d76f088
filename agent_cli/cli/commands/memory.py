"""Show the memory files (AGENTS.md, CLAUDE.md) that apply here."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli import Config, Layers, RunEnvironment, find_environment, read_settings
from agent_cli.cli.app import AsJsonObject, ListingGroup, with_run_options
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_ignored, print_json
from agent_cli.kernel.runtime.environment import memory_sources
from agent_cli.kernel.runtime.tools import make_context, make_workspace
from agent_cli.knowledge.memory import Memory

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
    found = memory_in_effect(run_env, layers)
    if as_text:
        echo(found.block())
    elif as_json:
        print_json(found.data())
    else:
        echo("\n".join(found.described()))
    return 0


def memory_in_effect(run_env: RunEnvironment, layers: Layers) -> Memory:
    """Return the memory files that apply here. Raises UsageError for a missing directory in the settings."""
    settings = layers.settings()
    workspace = make_workspace(run_env, settings)
    context, _ = make_context(workspace, settings, layers, run_env, answered=False)
    return memory_sources(run_env, settings, layers.trust, context.readable).load()
