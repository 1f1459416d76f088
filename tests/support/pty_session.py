"""The real program in a pseudo-terminal, driven as a user would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import time
from pathlib import Path
from typing import Any

import pexpect
from pexpect.fdpexpect import fdspawn

from tests.support.fork_server import start
from tests.support.program import clean_env


class Terminal:
    """`agent` in a pty, line by line. `expect` waits for text; nothing sleeps for a fixed time."""

    def __init__(self, args: list[str], cwd: Path, **env: str) -> None:
        self._at_prompt = False
        self._typed = ""
        self._ear, mouth = pty.openpty()
        fcntl.ioctl(mouth, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), mouth)
        env = clean_env(cwd.parent / "home", **{"TERM": "dumb", **env})
        self._process = start(args, cwd, env, terminal=True, **streams)
        os.close(mouth)
        self._child: Any = fdspawn(self._ear, timeout=60, encoding="utf-8")

    def expect(self, text: str) -> str:
        """Wait for `text`; what came before it, without colours."""
        # The echo comes at once; what is typed after it may come before the program has read the line.
        assert text not in self._typed, "the echo of what was typed is no answer"
        self._typed = ""
        self._child.expect_exact(text)
        return plain(self._child.before)

    def ready(self) -> None:
        """Wait for the prompt."""
        self._child.expect_exact("> ")
        self._at_prompt = True

    def type(self, text: str) -> None:
        """A line and Enter."""
        self._at_prompt = False
        self._send(text + "\r")
        self._typed = text

    def send(self, text: str) -> None:
        """Keys, as they are."""
        self._child.send(text)

    def seen(self, text: str, seconds: float) -> bool:
        """Whether `text` comes within so many seconds."""
        found = self._child.expect_exact([text, pexpect.TIMEOUT], timeout=seconds)
        return bool(found == 0)

    def press(self, key: str) -> None:
        self._send(chr(ord(key) & 0x1F))

    def _send(self, keys: str) -> None:
        # Nobody types in the moment in which a prompt appears, and what is typed before it is thrown away.
        time.sleep(0.05)
        self._child.send(keys)

    def leave(self) -> str:
        """Ctrl-D, and the rest of the output."""
        if not self._at_prompt:
            self.ready()
        self.press("d")
        return self.end()

    def end(self) -> str:
        self._child.expect(pexpect.EOF)
        self._process.wait()
        self._close()
        return plain(self._child.before)

    def kill(self) -> None:
        """SIGKILL, and the end of the process."""
        self._process.kill()
        self._process.wait()
        self._close()

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does, and wait for the end of the process."""
        self._close()
        self._process.wait()

    def __del__(self) -> None:
        """What a test has left open ends with its terminal."""
        self._close()

    def _close(self) -> None:
        if self._ear >= 0:
            os.close(self._ear)
            self._ear = -1

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode


def plain(text: str) -> str:
    """Without escape sequences and carriage returns."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r", "", text)
