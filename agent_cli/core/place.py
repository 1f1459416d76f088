"""The environment of a run, and the error for mistakes that its user can correct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_tools.record import Value


class UsageError(Exception):
    """Something the user has to correct: one sentence, exit code 2."""


class RunEnvironment(Value):
    """Where a run happens.

    cwd: the working directory.
    root: the workspace that contains it.
    home: the home folder; None if there is none.
    env: the environment variables.
    """

    cwd: Path
    root: Path
    home: Path | None
    env: Mapping[str, str]
