"""One hook's process: its input in a nameless file, its two outputs kept apart and bounded, its group ended whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import monotonic
from typing import Literal

from agent_cli.core.events import UsageAdded
from agent_tools.cancel import CancelToken
from agent_tools.process import Running
from agent_tools.values import Value

MOST = 1 << 20
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class HookRun(Value):
    """What came of a hook. code: None where there is none. error: how it came to no answer, with that cause.

    used: what models were asked for it."""

    code: int | None
    cause: Literal["exit", "time-out", "interrupted", "error"]
    seconds: float
    out: bytes = b""
    err: bytes = b""
    error: str = ""
    used: tuple[UsageAdded, ...] = ()


def shell_argv(command: str) -> list[str]:
    """A command line for the shell that hooks run in: bash without start-up files, or sh."""
    shell = next((s for s in _SHELLS if os.access(s, os.X_OK)), "sh")
    return [shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else []), "-c", command]


def run_hook(
    argv: list[str], given: bytes, cwd: Path, env: dict[str, str], seconds: float, cancel: CancelToken
) -> HookRun:
    """Run a command to its end, its time, or the cancellation. Nothing is raised; what it left behind may go on."""
    started = monotonic()
    out, err = _Kept(), _Kept()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            running = Running(argv, cwd, env, out.feed, stdin=file.fileno(), feed_errors=err.feed)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return HookRun(None, "error", monotonic() - started, error=f"could not be started: {why}")
    forget = cancel.on_cancel(running.wake)
    try:
        while (cause := running.step(started + seconds, cancel.cancelled)) is None:
            pass
        running.drain()
        code = running.process.wait()
        return HookRun(
            code if cause == "exit" else None, cause, monotonic() - started, bytes(out.data), bytes(err.data)
        )
    finally:
        forget()
        if running.process.returncode is None:
            running.end()
        running.close()


class _Kept:
    """The first bytes of an output; the rest is read and dropped."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: bytes) -> None:
        self.data += data[: MOST - len(self.data)]
