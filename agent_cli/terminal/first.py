"""The first start: which model, where several could be it, and how to begin."""

from __future__ import annotations

import json
import os
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.options import RunOptions
from agent_cli.place import Place
from agent_cli.session.store import state_folder
from agent_cli.terminal.dialogs import Dialogs
from agent_tools.private import write_whole
from agent_tools.regular import read_regular

# mode: what changes the permission mode.
HINTS = (
    "  /help lists the commands; @ mentions a file, ! runs a command",
    "  nothing is changed without your yes; {mode} changes what is asked about",
)


def is_first_start(place: Place) -> bool:
    """Whether nothing of ours has been kept for this person yet."""
    return not os.path.isdir(state_folder(place.env))  # noqa: PTH112 - the method raises in closed folders


def choose_first_model(dialogs: Dialogs, options: RunOptions, layers: Layers, place: Place) -> None:
    """Ask which model to use, where nothing says so and there are several; keep the answer in the person's settings."""
    if options.model or layers.settings().model or options.resume or options.continue_ or not os.isatty(0):
        return
    from agent_cli.model.discover import discover  # few starts get here

    found = discover(place.env)
    if len(found) < 2:
        return
    chosen = dialogs.choose("Which model? (/model changes it at any time)", found)
    if chosen is None:
        return
    name = found[chosen][0]
    layers.add({"model": name}, "your choice", place.root)
    if place.home is not None and keep_model(place.home / ".agentrc", name):
        dialogs.say("  kept as `model` in ~/.agentrc")


def keep_model(path: Path, name: str) -> bool:
    """Write the choice into a settings file, above what stands there; False where that is not safe."""
    try:
        text = read_regular(path, 1 << 20, path.parent).decode("utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, ValueError):
        return False
    import tomllib

    new = f"model = {json.dumps(name)}\n{text}"
    try:
        if tomllib.loads(new) != {"model": name, **tomllib.loads(text)}:
            return False
        write_whole(path, new.encode(), keep=True)
    except (OSError, ValueError):
        return False
    return True
