"""The command line. Here are the names of the commands, which every start with a word asks for."""

from __future__ import annotations

import os

_COMMANDS = os.path.join(__path__[0], "commands")


def command_names() -> list[str]:
    """Return the names of the commands, which are those of the files in `commands`."""
    stems = (name[:-3] for name in os.listdir(_COMMANDS) if name.endswith(".py"))  # noqa: PTH208 - costs pathlib
    return sorted(stem for stem in stems if stem.isidentifier() and not stem.startswith("_"))


def command_help(name: str) -> str:
    """Return the first line of a command's file, without importing it."""
    with open(os.path.join(_COMMANDS, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""').removesuffix('"""')
