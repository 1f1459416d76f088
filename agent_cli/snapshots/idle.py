"""How long nothing was done with something, in time that the program saw pass.

The clock of a machine may jump, by years, and back. So the time between two looks counts only up to a bound, and what
is seen for the first time, or has changed since the last look, is as young as can be.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from agent_tools.private import write_whole
from agent_tools.regular import read_regular

# What a jump can add to an age, and all that counts of a longer pause.
STEP = 3 * 86_400
_LARGEST = 64 << 20


class Idle:
    """The ages of things by name, kept in a file from look to look. now: the clock, in seconds."""

    def __init__(self, path: Path, now: float) -> None:
        self._path, self._now = path, now
        self._lived = 0.0
        # By name: the time of the last change, and how much had passed by then.
        self._seen: dict[str, tuple[float, float]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            kept = json.loads(read_regular(path, _LARGEST))
            self._lived = float(kept["lived"]) + min(max(now - float(kept["at"]), 0.0), STEP)
            self._seen = {str(name): (float(t), float(lived)) for name, (t, lived) in kept["seen"].items()}

    def seconds(self, name: str, changed: float) -> float:
        """For how long nothing was done with what was last changed at this time."""
        if name not in self._seen or self._seen[name][0] != changed:
            self._seen[name] = (changed, self._lived)
        return self._lived - self._seen[name][1]

    def save(self, there: Collection[str]) -> None:
        """Keep the ages of what is there. Raises OSError."""
        seen = {name: found for name, found in self._seen.items() if name in there}
        data = {"at": self._now, "lived": self._lived, "seen": seen}
        write_whole(self._path, json.dumps(data).encode("ascii"), sync=False)
