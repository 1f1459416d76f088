"""The first start: which model, where several could be it, how commands run, and how to begin."""

from __future__ import annotations

import os
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.reading import SettingsError
from agent_cli.options import RunOptions
from agent_cli.place import Place
from agent_cli.session.store import state_folder
from agent_cli.terminal.dialogs import Dialogs

_SANDBOX = (
    (
        "In the sandbox, without asking",
        "tests, builds and linters just run; deleting files, leaving the workspace and the network still ask",
    ),
    ("Ask before every command", "what you allow runs in the sandbox, too"),
)


def hints(mode_key: str, *, unasked: bool) -> tuple[str, str]:
    """How to begin, in lines. mode_key: what changes the permission mode. unasked: commands run in the sandbox."""
    asked = "commands run in the sandbox; leaving it asks first" if unasked else "nothing is changed without your yes"
    return (
        "  /help lists the commands; @ mentions a file, ! runs a command",
        f"  {asked}; {mode_key} changes what is asked about",
    )


def is_first_start(place: Place) -> bool:
    """Whether nothing of ours has been kept for this person yet."""
    return not os.path.isdir(state_folder(place.env))  # noqa: PTH112 - the method raises in closed folders


def choose_first_model(dialogs: Dialogs, options: RunOptions, layers: Layers, place: Place) -> None:
    """Ask which model to use, where nothing says so and there are several; keep the answer in the user's settings."""
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
    _save(dialogs, place, "model", name)


def choose_sandbox(dialogs: Dialogs, layers: Layers, place: Place) -> None:
    """Ask whether commands run in the sandbox without a question, where there is one and nothing says so yet."""
    asked = layers.settings().sandbox
    if asked.mode == "off" or "sandbox.auto_allow" in layers.origins or not os.isatty(0):
        return
    from agent_tools.sandbox import choose, trial_profile  # few starts get here

    if choose(asked.mode, trial_profile(), place.env).kind != "bubblewrap":
        return
    chosen = dialogs.choose("How should commands run? (/config sandbox.auto_allow changes it later)", _SANDBOX)
    if chosen is not None:
        layers.add({"sandbox": {"auto_allow": chosen == 0}}, "your choice", place.root)
        _save(dialogs, place, "sandbox.auto_allow", chosen == 0)


def _save(dialogs: Dialogs, place: Place, key: str, value: Any) -> None:
    if place.home is None:
        return
    from agent_cli.config.own_settings import save_setting  # with the reader of TOML that keeps comments

    try:
        save_setting(place.home / ".agentrc", key, value)
    except (SettingsError, OSError):
        dialogs.say("  this counts for this session; ~/.agentrc could not be changed")
    else:
        dialogs.say(f"  saved as `{key}` in ~/.agentrc")
