"""Run a session at a terminal, in the front end that fits it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.place import is_dumb
from agent_cli.runtime.environment import find_place, read_settings
from agent_cli.terminal.repl import LineScreen, Repl
from agent_cli.terminal.startup import ask_before_start, is_first_start
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.terminal.app import session


def run_repl(options: RunOptions) -> int:
    """Run a session until the user leaves; return the exit code. Raises UsageError before it begins."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    front_end = _front_end(options, layers.settings(), os.environ)
    screen = LineScreen(options, layers.settings())
    first = is_first_start(place)
    layers = ask_before_start(options, place, layers, screen.console, first=first)
    repl = front_end(options, place, layers, screen, first=first)
    try:
        return repl.run(" ".join(options.prompt))
    finally:
        repl.agent.close("prompt_input_exit")


def _front_end(options: RunOptions, settings: Settings, env: Mapping[str, str]) -> type[Repl]:
    """Return the application if a user is at a terminal that can draw it; else the plain front end."""
    drawable = not is_dumb(env) and not env.get("CI") and sys.platform != "win32"
    if options.plain or settings.terminal.plain or not drawable or not (os.isatty(0) and os.isatty(1)):
        return Repl
    # Lazy: the plain front end does not need the application.
    return session.AppRepl
