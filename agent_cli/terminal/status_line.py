"""A command of the user's that writes the toolbar: facts of the session as JSON on its stdin, one line back.

The facts have the names that Claude Code gives them, so scripts written for it serve here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from agent_tools.inert import inert

SECONDS = 5.0
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_LONGEST = 1_000


class StatusLine:
    """Runs the command in the background, one run at a time, when the facts or the width have changed.

    ready: called from another thread when there is a new line. A command that fails leaves the usual toolbar.
    """

    def __init__(self, command: str, env: dict[str, str], cwd: str, ready: Callable[[], None]) -> None:
        self._command, self._env, self._cwd, self._ready = command, env, cwd, ready
        self._now = ("", 0)
        self._running = False
        self._wanted = threading.Lock()
        self.text = ""

    def refresh(self, facts: dict[str, Any], columns: int) -> None:
        """What is so now, and how wide the terminal is."""
        now = json.dumps(facts), columns
        if now == self._now:
            return
        self._now = now
        with self._wanted:
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="status line", daemon=True).start()

    def _run(self) -> None:
        while True:
            given = self._now
            text = self._line(*given)
            changed, self.text = text != self.text, text
            if changed:
                self._ready()
            with self._wanted:
                if given == self._now:
                    self._running = False
                    return

    def _line(self, facts: str, columns: int) -> str:
        from subprocess import DEVNULL

        from agent_tools.child import run_child

        try:
            done = run_child(
                ["/bin/sh", "-c", self._command],
                seconds=SECONDS,
                feed=facts.encode(),
                # A program of the user's own: how much it needs is not ours to say.
                memory=None,
                stderr=DEVNULL,
                cwd=self._cwd,
                env={**self._env, "COLUMNS": str(columns)},
                start_new_session=True,
            )
        except (OSError, TimeoutError, OverflowError):
            return ""
        return sanitize_status(done.out.decode("utf-8", "replace")) if done.code == 0 else ""


def sanitize_status(text: str) -> str:
    """The first line with its colours and without any other sequence."""
    first = text.split("\n", 1)[0].rstrip("\r")[:_LONGEST]
    return "".join(part if _SGR.fullmatch(part) else inert(part) for part in _SGR.split(first))
