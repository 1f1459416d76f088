"""Where a run happens, and the error for what its user has to correct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_tools.record import Value


class UsageError(Exception):
    """Something the user has to correct: one sentence, exit code 2."""


class RunEnvironment(Value):
    """Where a run happens."""

    cwd: Path
    root: Path
    home: Path | None
    env: Mapping[str, str]
