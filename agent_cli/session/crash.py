"""Crash reports: the traceback of an unexpected exception in a file that only the user can read, without secrets."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_cli.core.redact import Redactor
from agent_cli.core.version import __version__
from agent_cli.session.store import state_folder
from agent_tools.fs.private import write_whole
from agent_tools.text import escape_controls

_MOST = 20
# A recursive traceback repeats itself, and a message may be a whole file.
_LONGEST = 100_000


def write_report(error: BaseException, env: Mapping[str, str]) -> str:
    """Write an exception to `<state>/crashes/` and return the file's path, or "" if that failed. Never raises.

    The traceback holds lines of code and the message, no values of variables; secrets are removed. Only the latest
    reports are kept.
    """
    import traceback  # 5 ms, only for a bug

    try:
        folder = state_folder(env) / "crashes"
        text = "".join(traceback.format_exception(error))
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]}\n[...]\n{text[-_LONGEST // 2 :]}"
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}.txt"
        said = f"agent {__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}\n\n{text}"
        write_whole(path, escape_controls(Redactor(env)(said)).encode("utf-8", "replace"), sync=False)
        _forget_old(folder)
    except Exception:  # noqa: BLE001 - a report that fails must not hide what it is about
        return ""
    return str(path)


def _forget_old(folder: Path) -> None:
    reports = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
    for old in reports[:-_MOST]:
        with suppress(OSError):
            old.unlink()
