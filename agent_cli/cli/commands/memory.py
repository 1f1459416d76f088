"""The memory files (AGENTS.md, CLAUDE.md) that apply here."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli.cli.parameters import AsJsonObject, takes
from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.core.place import RunEnvironment
from agent_cli.headless.output import echo, put_json
from agent_cli.headless.printing import print_notice
from agent_cli.memory.files import Memory, lines, load_memory, memory_data
from agent_cli.runtime.environment import find_place, memory_sources, read_settings
from agent_cli.runtime.tools import make_context, make_policy, make_workspace
from agent_tools.text import one_line

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    # Without a callback, Typer does not make a group of a single command.
    pass


@app.command("show")
@takes("settings", "trust")
def show_memory(
    options: RunOptions,
    as_json: AsJsonObject = False,
    as_text: Annotated[bool, typer.Option("--text", help="The text that the model gets.")] = False,
) -> int:
    """Say which memory files are loaded, why, how large they are, and what was cut or left out."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    for text in layers.ignored:
        print_notice(f"agent: {one_line(text)}.")
    memory = memory_here(place, layers)
    if as_text:
        echo(memory.block())
    elif as_json:
        put_json(memory_data(memory))
    else:
        echo("\n".join(lines(memory)))
    return 0


def memory_here(place: RunEnvironment, layers: Layers) -> Memory:
    """Return the memory files that apply here. Raises UsageError for a missing directory in the settings."""
    settings = layers.settings()
    workspace = make_workspace(place, settings)
    context = make_context(workspace, settings, place)
    make_policy(workspace, settings, layers, context, place.home, answered=False)
    return load_memory(memory_sources(place, settings, layers.trust, context.readable))
