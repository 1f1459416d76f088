"""The command line. This file has the names of the commands, which every start with a word needs."""

from __future__ import annotations

import os

_COMMANDS = os.path.join(__path__[0], "commands")
# Commands in the file of a related one, with their help. Every other command has a file of its name.
SHARED = {
    "logout": ("login", "Remove the API key that `agent login` stored."),
    "answer": ("pending", 'Answer a question from the model, or request changes to a plan; "yes" approves it.'),
    "approve": ("pending", "Approve waiting calls; once all are decided, the turn continues as with -p."),
    "reject": ("pending", "Refuse waiting calls, or send a plan back with --why; without it a plan is cancelled."),
    "resume": ("pending", "Continue an interrupted turn, or one whose calls are all decided, as with -p."),
}


def command_names() -> list[str]:
    """Return the names of the commands: of the files in `commands`, and those in `SHARED`."""
    stems = [name[:-3] for name in os.listdir(_COMMANDS) if name.endswith(".py")]  # noqa: PTH208 - costs pathlib
    shared = [name for name, (file, _) in SHARED.items() if file in stems]
    return sorted([*shared, *(stem for stem in stems if stem.isidentifier() and not stem.startswith("_"))])


def command_help(name: str) -> str:
    """Return the help of a command, which is the first line of its file; nothing is imported."""
    if name in SHARED:
        return SHARED[name][1]
    with open(os.path.join(_COMMANDS, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""').removesuffix('"""')
