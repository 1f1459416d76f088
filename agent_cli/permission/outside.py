"""Files outside the project that its memory would import: found without looking at any of them.

Only memory at the top of the project counts, with what it imports inside the project. Nothing outside is read, or even
looked at, before the user has agreed to the list; a change of the list asks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_cli.core.imports import MOST, find_imports, leads_outside, place_of
from agent_tools.regular import read_start, resolve_inside

_LIMIT = 64 * 1024
_DEEPEST = 5


def outside_imports(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """The places outside that these files of the project name, sorted; `~` stays as it is written."""
    found: set[str] = set()
    seen: set[Path] = set()
    waiting = [(root / name, 0) for name in names]
    while waiting and len(seen) < MOST:
        path, depth = waiting.pop(0)
        try:
            real = resolve_inside(path, root)
            if real in seen:
                continue
            seen.add(real)
            data = read_start(real, _LIMIT)
        except OSError:
            continue
        if b"@" not in data or b"\0" in data:
            continue
        for name in find_imports(data.decode("utf-8", "replace")):
            place = place_of(name, path.parent)
            if leads_outside(place, root):
                found.add(place)
            elif depth < _DEEPEST and Path(place).is_relative_to(root):
                waiting.append((Path(place), depth + 1))
    return tuple(sorted(found))
