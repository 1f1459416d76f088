"""The real program in a pseudo-terminal, driven as a person would."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pexpect

from tests.helpers import clean_env


class Terminal:
    """`agent` in a pty, line by line. `expect` waits for text; nothing sleeps for a fixed time."""

    def __init__(self, args: list[str], cwd: Path, **env: str) -> None:
        home = cwd.parent / "home"
        self._at_prompt = False
        self._child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "agent_cli", *args],
            cwd=str(cwd),
            env=clean_env(home, **{"TERM": "dumb", **env}),
            dimensions=(40, 100),
            timeout=20,
            encoding="utf-8",
        )

    def expect(self, text: str) -> str:
        """Wait for `text`; what came before it, without colours."""
        self._child.expect_exact(text)
        return plain(self._child.before)

    def ready(self) -> None:
        """Wait for the prompt."""
        self._child.expect_exact("> ")
        self._at_prompt = True

    def type(self, text: str) -> None:
        """A line and Enter."""
        self._at_prompt = False
        self._child.send(text + "\r")

    def send(self, text: str) -> None:
        """Keys, as they are."""
        self._child.send(text)

    def seen(self, text: str, seconds: float) -> bool:
        """Whether `text` comes within so many seconds."""
        found = self._child.expect_exact([text, pexpect.TIMEOUT], timeout=seconds)
        return bool(found == 0)

    def press(self, key: str) -> None:
        self._child.sendcontrol(key)

    def leave(self) -> str:
        """Ctrl-D, and the rest of the output."""
        if not self._at_prompt:
            self.ready()
        self._child.sendeof()
        return self.end()

    def end(self) -> str:
        self._child.expect(pexpect.EOF)
        self._child.close()
        return plain(self._child.before)

    def kill(self) -> None:
        """SIGKILL, and the end of the process."""
        self._child.kill(signal.SIGKILL)
        self._child.wait()
        self._child.close()

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does, and wait for the end of the process."""
        os.close(self._child.child_fd)
        self._child.wait()

    @property
    def exit_code(self) -> int | None:
        code: int | None = self._child.exitstatus
        return code


def plain(text: str) -> str:
    """Without escape sequences and carriage returns."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r", "", text)
