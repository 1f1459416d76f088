"""The commands of `agent`, one file each: `agent NAME` is the Typer `app` in NAME.py.

The first line of that file is the command's help. Lists and completion read only that line: a file is imported when
its command runs. A command's function returns the exit code.
"""

from __future__ import annotations

import os


def command_names() -> list[str]:
    """Return the names of the commands, which are those of the files here."""
    stems = (name[:-3] for name in os.listdir(__path__[0]) if name.endswith(".py"))  # noqa: PTH208 - costs pathlib
    return sorted(stem for stem in stems if stem.isidentifier() and not stem.startswith("_"))


def command_help(name: str) -> str:
    """Return the first line of a command's file, without importing it."""
    with open(os.path.join(__path__[0], f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""').removesuffix('"""')
