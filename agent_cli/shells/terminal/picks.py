"""The user's most frequent picks of commands and models.

They are stored in a small file in the state folder. A pick counts one, and half as much after two weeks, so that recent
habits outweigh old ones.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_tools.fs.safe_files import private_folder, read_regular, write_atomic

_HALF_LIFE_SECONDS = 14 * 24 * 3600.0
_MAX_FILE_BYTES = 1 << 20
_MAX_PICKS = 200


class Picks:
    """The picks of one kind. path: the file of all kinds; None: remember nothing beyond this object."""

    def __init__(self, path: Path | None, kind: str, clock: Callable[[], float] = time.time) -> None:
        self._path, self._kind, self._clock = path, kind, clock
        self._scores = _scores(_read(path).get(kind))

    def add(self, name: str) -> None:
        """Count a pick, and save it. A file that cannot be read or written is ignored."""
        # Another session may have written meanwhile.
        data = _read(self._path)
        self._scores = _scores(data.get(self._kind)) or self._scores
        now = self._clock()
        self._scores[name] = (self._score(name, now) + 1.0, now)
        if self._path is None:
            return
        latest = sorted(self._scores.items(), key=lambda pair: pair[1][1])[-_MAX_PICKS:]
        text = json.dumps({**data, self._kind: {name: list(score) for name, score in latest}})
        with suppress(OSError):
            private_folder(self._path.parent)
            write_atomic(self._path, text.encode("utf-8", "replace"), sync=False)

    def most_used(self) -> list[str]:
        """Return the picks, the most used first."""
        now = self._clock()
        return sorted(self._scores, key=lambda name: -self._score(name, now))

    def sorted(self, names: Iterable[str]) -> list[str]:
        """Return the names with the most used first; the others stay in their order."""
        now = self._clock()
        return sorted(names, key=lambda name: -self._score(name, now))

    def _score(self, name: str, now: float) -> float:
        score, at = self._scores.get(name, (0.0, now))
        return score * math.exp2(-max(0.0, now - at) / _HALF_LIFE_SECONDS)


def _read(path: Path | None) -> dict[str, Any]:
    try:
        data = json.loads(read_regular(path, _MAX_FILE_BYTES)) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _scores(data: Any) -> dict[str, tuple[float, float]]:
    """Parse the scores of a kind, each with its time; skip invalid entries."""
    found = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        with suppress(TypeError, ValueError):
            score, at = value
            found[str(name)] = float(score), float(at)
    return found
