"""The rows of all programs, by name."""

from __future__ import annotations

import os

from agent_cli.policy.programs.archives import ARCHIVE_ROWS
from agent_cli.policy.programs.docker import DOCKER_ROWS
from agent_cli.policy.programs.git import GIT_ROWS
from agent_cli.policy.programs.row import Row
from agent_cli.policy.programs.rows.builds import BUILD_ROWS
from agent_cli.policy.programs.rows.files import FILE_ROWS
from agent_cli.policy.programs.rows.network import NETWORK_ROWS
from agent_cli.policy.programs.rows.outputs import OUTPUT_ROWS
from agent_cli.policy.programs.rows.reading import READING_ROWS
from agent_cli.policy.programs.rows.system import SYSTEM_ROWS
from agent_cli.policy.programs.scripts import SCRIPT_ROWS

ROWS: dict[str, Row] = {
    **READING_ROWS, **FILE_ROWS, **ARCHIVE_ROWS, **SCRIPT_ROWS, **BUILD_ROWS, **NETWORK_ROWS, **DOCKER_ROWS,
    **SYSTEM_ROWS, **OUTPUT_ROWS, **GIT_ROWS,
}  # fmt: skip
# GNU programs under the names that they have on other systems.
_GNU = frozenset(("gsed", "gtar", "gcp", "gmv", "grm", "gln", "ginstall", "gtee", "gsort", "gsplit", "gdd", "gmake"))


def program_name(word: str) -> str:
    """Return the usual name of a program."""
    name = os.path.basename(word)
    return name[1:] if name in _GNU else name


def find_row(word: str) -> Row | None:
    """Return the row of a program; None for one that nothing is known of."""
    return ROWS.get(program_name(word))


def row_of(word: str) -> Row:
    """Return the row of a program; an empty one if nothing is known of it."""
    return find_row(word) or _UNKNOWN


_UNKNOWN = Row("", partly=True)
