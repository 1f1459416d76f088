"""The slash commands and the files of folders, as a message can name them; read again after a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_cli import Config, RunEnvironment, read_settings
from agent_cli.kernel.runtime.completion import CommandEntry, mentionable_files
from agent_cli.knowledge.loader import load_extensions
from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.text import one_line

# Seconds for which they are taken as known, and how many folders are.
_FRESH_SECONDS, _MAX_KNOWN = 10.0, 32


class Completer:
    """The commands and files of folders, read again after a while."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, Any]] = {}

    def _read(self, kind: str, folder: Path, make: Callable[[], Any]) -> Any:
        key, now = (kind, str(folder)), time.monotonic()
        found = self._known.get(key)
        if found is None or now - found[0] > _FRESH_SECONDS:
            found = self._known[key] = now, make()
            while len(self._known) > _MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
        return found[1]

    def prompts(self, run_env: RunEnvironment) -> Mapping[str, CommandEntry]:
        """Return the commands of the user and the project, and those that are shipped. Raises UsageError."""

        def make() -> dict[str, CommandEntry]:
            layers = read_settings(Config(), run_env, [])
            found = load_extensions(Config(), run_env, layers, layers.settings(), lambda text: None)
            return {
                name: CommandEntry(name, one_line(c.description), one_line(c.hint))
                for name, c in found.commands.items()
            }

        found: dict[str, CommandEntry] = self._read("commands", run_env.root, make)
        return found

    def files(self, run_env: RunEnvironment) -> tuple[str, ...]:
        """Return the files of a project that a message can mention."""
        context = ToolContext(Workspace(run_env.root, cwd=run_env.cwd), env=dict(run_env.env))
        found: tuple[str, ...] = self._read("files", run_env.root, lambda: mentionable_files(run_env.root, context))
        return found
