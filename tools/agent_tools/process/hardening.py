"""Make this process unreadable for the programs that it starts, which run as the same user (Linux).

`/proc/PID/environ` shows the initial environment of a process, `/proc/PID/mem` and a debugger all its memory. Without
this, a command whose environment has no keys could read them from its parent.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_tools.secret_patterns import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_SET_DUMPABLE = 4
# Start and end of the environment in memory, in the fields of /proc/self/stat after the name.
_ENVIRONMENT = slice(47, 49)


def protect() -> None:
    """Hide the secrets in the initial environment of this process, and its memory.

    Call it before any thread or child is started; `os.environ`, and the environment of children, stay unchanged. Skips
    what the kernel does not support. Core dumps, debuggers or profilers that attach later, and listing open files then
    need root. Programs that are started are not affected.
    """
    if sys.platform == "linux":
        with suppress(OSError, ValueError):
            _hide_secrets(os.environ)
        _forbid_reading()


def _hide_secrets(env: Mapping[str, str]) -> None:
    secrets = {os.fsencode(name): value for name, value in env.items() if value and is_secret(name, value)}
    if not secrets:
        return
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[_ENVIRONMENT])
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        block = os.pread(memory, end - start, start)
        at = start
        for entry in block.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if value and name in secrets:
                # Move the C library's copy first: children inherit it.
                os.putenv(name, os.fsencode(secrets[name]))
                os.pwrite(memory, bytes(len(value)), at + len(name) + 1)
            at += len(entry) + 1
    finally:
        os.close(memory)


def _forbid_reading() -> None:
    # Importing all of ctypes takes 3 ms, too much for a short run.
    with suppress(ImportError, AttributeError, OSError):
        from _ctypes import call_function, dlopen, dlsym

        call_function(dlsym(dlopen(None, 2), "prctl"), (_SET_DUMPABLE, 0, 0, 0, 0))  # type: ignore[arg-type]
