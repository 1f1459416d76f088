"""Where the copies of staged turns are: in the state folder, by project."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_cli.kernel.session.store import SessionStore
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.stage import copy

_KEPT_SECONDS = 14 * 86_400.0


def stages_folder(state: Path, root: Path) -> Path:
    """Return the folder of a project's copies."""
    return state / "stages" / SessionStore(state, root).folder.name


def stage_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of a project's copies."""
    with suppress(FileNotFoundError):
        yield from sorted(entry for entry in folder.iterdir() if (entry / "stage.json").is_file())


def find_stage(folder: Path, session: str) -> Path | None:
    """Return the folder of the copy in which a session works; None for none. folder: of the project's copies."""
    for found in stage_folders(folder):
        with suppress(copy.StageError):
            if copy.read_copy(found).facts.session == session:
                return found
    return None


def remove_old(folder: Path) -> None:
    """Remove what was discarded two weeks ago."""
    with suppress(OSError):
        for entry in folder.glob("discarded-*"):
            if entry.stat().st_mtime < time.time() - _KEPT_SECONDS:
                shutil.rmtree(entry, ignore_errors=True)
