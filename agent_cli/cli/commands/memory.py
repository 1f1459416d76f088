"""`agent memory show`: which memory files were loaded, in their order, why, how large, and what was not."""

from __future__ import annotations

import os

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.core.place import RunEnvironment
from agent_cli.headless.output import echo, put_json
from agent_cli.headless.printing import print_notice
from agent_cli.memory.files import Memory, lines, load_memory, memory_data
from agent_cli.runtime.environment import find_place, memory_sources, read_settings
from agent_cli.runtime.permissions import make_policy
from agent_cli.runtime.tools import make_context, make_workspace
from agent_tools.text import one_line


def show_memory(options: RunOptions, *, as_json: bool, as_text: bool) -> int:
    """Print what a session here would begin with; the exit code. Raises UsageError."""
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
    """The memory files that apply here. Raises UsageError for a folder of the settings that is not there."""
    settings = layers.settings()
    workspace = make_workspace(place, settings)
    context = make_context(workspace, settings, place)
    make_policy(workspace, settings, layers, context, place.home, answered=False)
    return load_memory(memory_sources(place, settings, layers.trust, context.readable))
