"""Record which process has a session open, in a small file beside the log, so that others can name it.

The lock itself is on the log; this file only names its holder, and may be missing or stale.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from agent_cli.session.permissions import owner_file
from agent_tools.fs.safe_read import open_regular, read_regular

_LARGEST = 4096


def claim(log: Path) -> None:
    """Record that this process has the log open. A failed write is ignored."""
    said = {"pid": os.getpid(), "host": os.uname().nodename, "terminal": _terminal(), "since": int(time.time())}
    with suppress(OSError):
        fd = open_regular(owner_file(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(fd, json.dumps(said).encode("ascii"))
        finally:
            os.close(fd)


def release(log: Path) -> None:
    """Remove the record; called while the lock is still held."""
    with suppress(OSError):
        owner_file(log).unlink()


def holder(log: Path) -> str:
    """Describe the process that has the log open; "" if it is unknown."""
    try:
        said = json.loads(read_regular(owner_file(log), _LARGEST))
        pid, host, terminal = int(said["pid"]), str(said["host"]), str(said["terminal"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    here = host == os.uname().nodename
    if here and not is_running(pid):
        return ""
    place = [f"on {host}"] if not here else []
    place += [f"in {terminal}"] if terminal else ["without a terminal"]
    return f"process {pid} {', '.join(place)}"


def is_open(log: Path) -> bool:
    """Return True if a process has the log open, judged by the lock: the file beside the log may be stale."""
    import fcntl

    try:
        fd = open_regular(log)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def is_running(pid: int) -> bool:
    """Return True if a process with this id exists on this machine, under any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _terminal() -> str:
    for fd in (0, 1, 2):
        with suppress(OSError):
            return os.ttyname(fd)
    return ""
