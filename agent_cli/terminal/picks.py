"""What the user picks most (commands, models), remembered between sessions in a small file of the state folder.

A pick counts one, and half as much after two weeks, so that what is used now comes before what was used a lot.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_tools.fs.safe_files import private_folder, read_regular, write_whole

_HALF = 14 * 24 * 3600.0
_LARGEST = 1 << 20
_MOST = 200


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
        latest = sorted(self._scores.items(), key=lambda pair: pair[1][1])[-_MOST:]
        text = json.dumps({**data, self._kind: {name: list(score) for name, score in latest}})
        with suppress(OSError):
            private_folder(self._path.parent)
            write_whole(self._path, text.encode("utf-8", "replace"), sync=False)

    def used(self) -> list[str]:
        """Return what was picked, the most used first."""
        now = self._clock()
        return sorted(self._scores, key=lambda name: -self._score(name, now))

    def sorted(self, names: Iterable[str]) -> list[str]:
        """Return the names with the most used first; the others stay in their order."""
        now = self._clock()
        return sorted(names, key=lambda name: -self._score(name, now))

    def _score(self, name: str, now: float) -> float:
        score, at = self._scores.get(name, (0.0, now))
        return score * math.exp2(-max(0.0, now - at) / _HALF)


def _read(path: Path | None) -> dict[str, Any]:
    try:
        data = json.loads(read_regular(path, _LARGEST)) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _scores(data: Any) -> dict[str, tuple[float, float]]:
    """Return the scores of a kind and when they were counted, without what is damaged."""
    found = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        with suppress(TypeError, ValueError):
            score, at = value
            found[str(name)] = float(score), float(at)
    return found
