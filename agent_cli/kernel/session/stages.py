"""Where the copies of staged turns are: in the state folder, by project."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.safe_files import read_regular

_MAX_BYTES = 1 << 30
_KEPT_SECONDS = 14 * 86_400.0
_UNUSED_SECONDS = 86_400.0


def stages_folder(sessions: Path) -> Path:
    """Return the folder of a project's copies. sessions: the folder of its sessions."""
    return sessions.parent.parent / "stages" / sessions.name


def find_stage(folder: Path, session: str) -> Path | None:
    """Return the folder of the copy in which a session works; None for none. folder: of the project's copies."""
    return next((entry for entry in _entries(folder) if session and _session(entry) == session), None)


def _entries(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from sorted(folder.iterdir())


def _session(entry: Path) -> str | None:
    """Return the session that works in a copy; "" if none ever did, None if that is not known."""
    try:
        return str(json.loads(read_regular(entry / "stage.json", _MAX_BYTES))["session"])
    except FileNotFoundError:  # it was not finished
        return ""
    except (OSError, ValueError, TypeError, LookupError):
        return None


def remove_old(folder: Path) -> None:
    """Remove what was discarded two weeks ago, and copies in which no session ever worked."""
    for entry in _entries(folder):
        unused = not entry.name.startswith("discarded-")
        with suppress(OSError):
            old = entry.stat().st_mtime < time.time() - (_UNUSED_SECONDS if unused else _KEPT_SECONDS)
            if old and not (unused and _session(entry) != ""):
                remove_copy(entry)


def remove_copy(folder: Path) -> None:
    """Remove a copy, with folders that its owner could not change. Raises OSError."""
    for inside, names, _ in os.walk(folder):
        for name in names:
            place = Path(inside, name)
            if not place.is_symlink() and not os.access(place, os.R_OK | os.W_OK | os.X_OK):
                place.chmod(0o700)
    shutil.rmtree(folder)
