"""The user's status line command: it gets facts of the session as JSON on stdin and prints one line for the toolbar.

The facts have the names of Claude Code's status line, so its scripts work here. Also: the git branch of a directory,
read from git's own files, and whether there are uncommitted changes; the facts of a session as plain data, for status
lines and reports.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from agent_cli import Session, __version__
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_tools.fs.safe_files import read_regular
from agent_tools.process.child import run_child
from agent_tools.text import escape_controls

TIMEOUT_SECONDS = 5.0
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_MAX_CHARS = 1_000


class StatusLine:
    """Runs the command in the background, one run at a time, when the facts or the width change.

    ready: called from another thread when there is a new line. If the command fails, the default toolbar stays.
    """

    def __init__(self, command: str, env: dict[str, str], cwd: str, ready: Callable[[], None]) -> None:
        self._command, self._env, self._cwd, self._ready = command, env, cwd, ready
        self._now = ("", 0)
        self._running = False
        self._lock = threading.Lock()
        self.text = ""

    def refresh(self, facts: dict[str, Any], columns: int) -> None:
        """Pass the current facts and the terminal width."""
        now = json.dumps(facts), columns
        if now == self._now:
            return
        self._now = now
        with self._lock:
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
            with self._lock:
                if given == self._now:
                    self._running = False
                    return

    def _line(self, facts: str, columns: int) -> str:
        try:
            done = run_child(
                ["/bin/sh", "-c", self._command],
                seconds=TIMEOUT_SECONDS,
                feed=facts.encode(),
                # The user's own program gets no memory limit.
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
    """Return the first line without escape sequences other than colours."""
    first = text.split("\n", 1)[0].rstrip("\r")[:_MAX_CHARS]
    return "".join(part if _SGR.fullmatch(part) else escape_controls(part) for part in _SGR.split(first))


_HEAD, _LINK = "ref: refs/heads/", "gitdir:"
_MAX_GIT_FILE_BYTES = 4096
_REFRESH_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 0.4


def read_branch(folder: Path) -> str:
    """Return the branch, the short commit if HEAD is detached, or "" outside a repository."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if os.path.isfile(git):  # noqa: PTH113 - the method raises where a parent is closed
                link = os.fsdecode(read_regular(git, _MAX_GIT_FILE_BYTES)).strip("\r\n")
                git = parent / link.removeprefix(_LINK).strip()
            head = read_regular(git / "HEAD", _MAX_GIT_FILE_BYTES).decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            continue
        if head.startswith(_HEAD):
            return head.removeprefix(_HEAD)
        return head[:8] if re.fullmatch(r"[0-9a-f]{8,64}", head) else ""
    return ""


class Branch:
    """The branch for the toolbar, with a star if there are uncommitted changes.

    has_changes: runs git, which takes a moment; called in the background at the start and after `check`.
    ready: called from that thread when the result changes.
    """

    def __init__(self, folder: Path, has_changes: Callable[[], bool], ready: Callable[[], None]) -> None:
        self._folder, self._has_changes, self._ready = folder, has_changes, ready
        self._name, self._read_at = "", -_REFRESH_SECONDS
        self._dirty = self._busy = self._again = False
        self._pause = _FIRST_PAUSE_SECONDS

    def __str__(self) -> str:
        now = time.monotonic()
        if now - self._read_at >= _REFRESH_SECONDS:
            before, self._name, self._read_at = self._name, read_branch(self._folder), now
            if self._name != before:
                self.check()
        return f"{self._name}*" if self._name and self._dirty else self._name

    def check(self) -> None:
        """Check again, as something may have changed. On the drawing thread."""
        self._again = True
        if not self._busy:
            self._busy = True
            threading.Thread(target=self._check_changes, name="git status", daemon=True).start()

    def _check_changes(self) -> None:
        # Wait until the first prompt is drawn.
        pause, self._pause = self._pause, 0.0
        time.sleep(pause)
        while self._again:
            self._again = False
            before, self._dirty = self._dirty, self._has_changes()
            if self._dirty != before:
                self._ready()
        self._busy = False


def session_facts(agent: Session, show: EventRenderer) -> dict[str, Any]:
    """Return the facts with the names of Claude Code's status line; costs in dollars, sizes in tokens."""
    conversation = agent
    window = conversation.context.size
    used = show.view.context
    return {
        "hook_event_name": "Status",
        "session_id": agent.session_id,
        "cwd": str(agent.run_env.cwd),
        "model": {"id": conversation.options.model, "display_name": conversation.label},
        "workspace": {
            "current_dir": str(agent.tool_context.workspace.cwd),
            "project_dir": str(agent.run_env.root),
        },
        "version": __version__,
        "permission_mode": agent.policy.mode,
        "sandbox": agent.settings.sandbox.mode,
        "cost": {"total_cost_usd": round(show.view.spent.cost, 6) if show.view.spent.reliable else None},
        "context_window": {
            "context_window_size": window,
            "used_tokens": used,
            "used_percentage": round(100 * used / window, 1) if window else None,
        },
    }
