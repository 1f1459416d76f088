"""Read protected names of a workspace while commands run that could create them (`watch`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from agent_tools.fs import own_files
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.conditions import RECORDS

with lazy_imports():
    from agent_tools.sandbox import watch  # imports ctypes, for nothing in most runs

T = TypeVar("T")


def read_steadily(root: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns, which reads protected names of a workspace: nothing that a command just created.

    Raises ChangingSettingsError if a running command keeps creating some.
    """
    if "agent_tools.sandbox.watch" not in sys.modules and not _has_records():
        return read()
    names = watch.WATCH.names(root)
    return watch.read_watched(root, names, read) if names else read()


def _has_records() -> bool:
    folder = own_files.shared_folder()
    with suppress(OSError):
        return folder is not None and bool(os.listdir(folder / RECORDS))  # noqa: PTH208 - text, not paths
    return False
