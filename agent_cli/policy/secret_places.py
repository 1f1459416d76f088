"""Where keys, logins and histories are kept outside a workspace: the places that the sandbox hides from commands."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools.sandbox import profile

# Of ~/.claude: what is no secret is CLAUDE.md, and the folders that are not these, such as those of toolkits. Claude
# Code keeps there what happened in sessions, and who is logged in.
CLAUDE_FOLDER = ".claude"
_CLAUDE_STATE = frozenset(
    "backups cache daemon debug downloads file-history history ide image-cache jobs local logs paste-cache plans "
    "projects session-env sessions shell-snapshots statsig tasks teams telemetry todos uploads usage-data".split()
)
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
    if len(start) <= 2 or not text.startswith(start):
        return False
    below = text.removeprefix(start)
    return f"{below}/".startswith(below_home) and not _is_open_claude(below.split("/"), path)


def _is_open_claude(parts: Sequence[str], path: Path) -> bool:
    """Return True for what holds no secrets in ~/.claude, by the parts of a path below the home folder."""
    if parts[0] != CLAUDE_FOLDER or len(parts) < 2 or parts[1].startswith(".") or parts[1] in _CLAUDE_STATE:
        return False
    return parts[1] == "CLAUDE.md" or len(parts) > 2 or path.is_dir()


def in_open_claude_folder(path: Path, home: str | None) -> bool:
    """Return True for a resolved file in a folder of ~/.claude that holds no secrets, such as that of a toolkit."""
    parts = path.parts[len(Path(home).parts) :] if home and path.is_relative_to(home) else ()
    return len(parts) > 2 and _is_open_claude(parts, path)


def open_claude_folders(home: Path | None) -> list[Path]:
    """Return the folders of ~/.claude that hold no secrets."""
    if home is None:
        return []
    try:
        with os.scandir(home / CLAUDE_FOLDER) as entries:
            names = [e.name for e in entries if e.is_dir()]
    except OSError:
        return []
    folder = home / CLAUDE_FOLDER
    return [folder / name for name in names if _is_open_claude([CLAUDE_FOLDER, name], folder / name)]


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
