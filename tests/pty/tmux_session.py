"""The real program in tmux, for what only a terminal with a scrollback can tell."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.program import clean_env

PATIENCE = 60.0


class Tmux:
    """One window on a server of its own, to be used with `with`. program: another one than `agent`."""

    def __init__(
        self,
        args: list[str],
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
        *,
        program: Sequence[str] = (sys.executable, "-m", "agent_cli"),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._socket = f"agent-{uuid.uuid4().hex[:12]}"
        env = clean_env(cwd.parent / "home", LANG="C.UTF-8", LC_ALL="C.UTF-8", **(more or {}))
        env.pop("TERM")
        given = [f"{k}={v}" for k, v in env.items()]
        command = shlex.join(["env", "-u", "TERM_PROGRAM", *given, *program, *args])
        config = cwd.parent / "tmux.conf"
        config.write_text("set -g history-limit 50000\nset -g default-terminal screen-256color\nset -g status off\n")
        env = {**env, "TERM": "xterm-256color", "TMUX_TMPDIR": str(cwd.parent)}
        self._env = env
        size = ["-x", str(columns), "-y", str(rows)]
        done = self._run("-f", str(config), "new-session", "-d", *size, "-c", str(cwd), f"{command}; sleep 60")
        assert done.returncode == 0, done.stderr

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *error: object) -> None:
        self._run("kill-server")

    def _run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tmux", "-L", self._socket, *args], env=self._env, cwd=os.sep, capture_output=True, text=True, check=False
        )

    def keys(self, *keys: str) -> None:
        """Named keys, such as Enter and C-c."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def resize_at_rest(self, columns: int, rows: int) -> None:
        """Resize while the program is stopped and all that it writes is drawn: a frame on its way would be torn."""
        shell = self._run("display-message", "-p", "#{pane_pid}").stdout.strip()
        (program,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        end, whole = time.monotonic() + PATIENCE, False
        while not whole:
            assert time.monotonic() < end, self.screen()
            os.kill(int(program), signal.SIGSTOP)
            before = ""
            while (drawn := self.screen().rstrip()) != before:
                before = drawn
                time.sleep(0.02)
            # The status line is the last row of a frame.
            whole = drawn.rpartition("\n")[2].startswith("asks before changes")
            if whole:
                self.resize(columns, rows)
            os.kill(int(program), signal.SIGCONT)

    def history(self) -> list[str]:
        """All lines since the start, those that the terminal has wrapped joined."""
        return self._run("capture-pane", "-p", "-J", "-S", "-").stdout.split("\n")

    def screen(self, *, styled: bool = False) -> str:
        """The window; styled: with its escape sequences."""
        return self._run("capture-pane", "-p", *(["-e", "-N"] if styled else [])).stdout

    def wait(self, text: str) -> None:
        """Until the text is on the screen."""
        self.until(lambda: text in self.screen(), repr(text))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{what} did not come:\n{self.screen()}"
            time.sleep(0.03)
