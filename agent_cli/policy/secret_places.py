"""Where keys, logins and histories are kept outside a workspace: the places that the sandbox hides from commands."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools.sandbox import profile

_ELSEWHERE = (
    r"(?:/var)?/run/secrets/.*|/etc/ssh/\w+_key|.*/agent/(?:serve|mcp-logins|keys)/.*"
    r"|/proc/[^/]+(?:/task/[^/]+)?/(?:environ|mem)"
)


def in_secret_place(path: Path, home: Path) -> bool:
    """Return True if a resolved path is in a place of keys, logins or histories."""
    text = str(path)
    places, below_home = _places()
    if re.fullmatch(_ELSEWHERE, text) or f"{text}/".startswith(places):
        return True
    start = f"{home}/"
    return len(start) > 2 and text.startswith(start) and f"{text.removeprefix(start)}/".startswith(below_home)


def secret_place_below(folder: Path, home: Path) -> str:
    """Return a place of keys, logins or histories that is a resolved folder or below it; "" for none."""
    if in_secret_place(folder, home):
        return str(folder)
    start = f"{folder}/".replace("//", "/")
    places, below_home = _places()
    found = (*(p for p in places), *(f"{home}/{name}" for name in below_home))
    return next((place.rstrip("/") for place in found if place.startswith(start)), "")


@cache
def _places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the places of the system and those in a home folder, each with a slash at its end."""
    return tuple(f"{p}/" for p in profile.SYSTEM_SECRET_PATHS), tuple(f"{n}/" for n in profile.SECRET_HOME_NAMES)
