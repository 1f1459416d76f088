"""End child processes if the program is killed: a small shell next to it is notified of every process that is started.

One for the whole program, started with the first process. It reads from a pipe whose write end only the program has, so
the shell notices when the program ends in any way (`reaper.bash`).
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_tools.shell.state import MARK_VARIABLE

_SCRIPT = Path(__file__).with_name("reaper.bash")
_USUAL = ("/bin", "/usr/bin")


def marked(env: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of a process with one more mark."""
    return {**env, MARK_VARIABLE: f"{env.get(MARK_VARIABLE, '')}:{mark}"}


class Child(subprocess.Popen[bytes]):
    """A process that the reaper watches until its end is seen here; its PID may then be reused."""

    def poll(self) -> int | None:
        return self._seen(super().poll())

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        self._seen(code)
        return code

    def _seen(self, code: int | None) -> int | None:
        if code is not None:
            REAPER.forget(self.pid)
        return code


class Reaper:
    """Starts the shell when there is a process to watch; without bash, nothing is watched. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def expect(self, mark: str) -> None:
        """Announce a process with this mark in its environment; `watch` or `give_up` must follow."""
        with self._lock:
            if self._shell is None or self._shell.poll() is not None:
                self._start()
        self._tell(f"? {mark}")

    def give_up(self, mark: str) -> None:
        """Report that the announced process could not be started."""
        self._tell(f"! {mark}")

    def watch(self, pid: int, mark: str) -> None:
        """Report that the announced process was started, as a group leader."""
        self._tell(f"+ {pid} {mark}")

    def forget(self, pid: int, *, strays: bool = False) -> None:
        """Report that the group leader has ended. strays: end the rest of the group with the program."""
        self._tell(f"{'~' if strays else '-'} {pid}")

    def popen(self, argv: Sequence[str], *, env: Mapping[str, str], **how: Any) -> Child:
        """Start a process that ends with the program, including its descendants. It leads its own group.

        how: options of `Popen`. Raises as `Popen`.
        """
        mark = os.urandom(8).hex()
        group = {} if "process_group" in how else {"start_new_session": True}
        self.expect(mark)
        try:
            process = Child(argv, env=marked(env, mark), **(group | how))
        except BaseException:  # leave no announced process behind; the caller reports the error
            self.give_up(mark)
            raise
        self.watch(process.pid, mark)
        return process

    def _start(self) -> None:
        folders = (*_USUAL, *(p for p in os.environ.get("PATH", "").split(os.pathsep) if p.startswith("/")))
        bash = next((b for folder in folders if os.access(b := f"{folder}/bash", os.X_OK)), None)
        if bash is None:
            return
        with suppress(OSError):
            self._shell = subprocess.Popen(
                [bash, "--noprofile", "--norc", str(_SCRIPT)],
                bufsize=0,
                cwd="/",
                env={"PATH": os.defpath},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert self._shell.stdin is not None
            self._pipe = self._shell.stdin.fileno()
            # A shell that does not read must not block a command.
            os.set_blocking(self._pipe, False)

    def _tell(self, line: str) -> None:
        if self._shell is not None:
            with suppress(OSError):
                os.write(self._pipe, f"{line}\n".encode())


REAPER = Reaper()
