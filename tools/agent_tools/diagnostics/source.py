"""The sources of problems: the interface of checkers and language servers, and how their programs are found."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_tools.base import ToolContext
from agent_tools.diagnostics.parsers import Problem
from agent_tools.record import Value
from agent_tools.sandbox.conditions import RunConditions, Wrapped, unconfined
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.state import command_env

# No downloads, and no caches in the workspace.
_OFFLINE_ENV = {
    "GOTOOLCHAIN": "local",
    "CARGO_NET_OFFLINE": "true",
    "npm_config_offline": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_COLOR": "1",
}


class CheckFailedError(Exception):
    """A checker failed, hung or died. The message continues a sentence that begins with its name."""


class ServerNotStartedError(CheckFailedError):
    """A server does not start at all, such as a toolchain manager's shim for a program that is not installed."""


class Source(ABC):
    """Finds the problems of a text. Used by one thread, except for `wake`.

    checks_any_text: it can check a text that differs from the file on disk.
    stopped: returns True once the session ends.
    """

    checks_any_text = False

    def __init__(self, name: str, stopped: Callable[[], bool]) -> None:
        self.name = name
        self.stopped = stopped

    @abstractmethod
    def problems(self, path: Path, text: str) -> list[Problem]:
        """Return the problems of the file at `path` when it has this text. Raises CheckFailedError."""

    @property
    def is_running(self) -> bool:
        """True while there is a process whose messages `listen` must handle between checks."""
        return False

    def listen(self) -> None:  # noqa: B027 - a checker has no process between checks
        """Handle messages of the process until `wake` is called, or for a limited time."""

    def wake(self) -> None:  # noqa: B027 - a checker has no process between checks
        """Make `listen` return. May be called from any thread."""

    def close(self) -> None:  # noqa: B027 - a checker has no process between checks
        """End its process."""


class Launcher(Value):
    """Starts a program as the session's commands are started, but always in the sandbox, without network access and
    without write access to the workspace.

    sandbox: None only if the user's settings disable it or the machine has none; then a rule must allow the command.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    sandbox: SandboxRunner | None

    def wrap(self, cwd: Path, argv: Sequence[str] | None = None) -> Wrapped:
        """Return the process to start. argv: instead of its own. Raises ToolError if it must not run."""
        words = list(argv or self.argv)
        if self.sandbox is None:
            return unconfined(words, self.env)
        return self.sandbox.prepare(words, cwd, self.env, RunConditions(read_only=self.sandbox.is_boundary))


def make_launcher(argv: Sequence[str], ctx: ToolContext) -> Launcher:
    """Return a launcher for `argv`."""
    env, _ = command_env(ctx)
    sandbox = ctx.supplied(SandboxRunner)
    if sandbox is not None and sandbox.is_boundary:
        # Made here, by the thread that also runs commands. In /tmp, hidden names are the sandbox's own.
        assert sandbox.session is not None
        env |= {"MYPY_CACHE_DIR": "/tmp/.mypy", "CARGO_TARGET_DIR": "/tmp/.cargo-target"}
    else:
        env["MYPY_CACHE_DIR"] = os.devnull
    return Launcher(tuple(argv), env | _OFFLINE_ENV, sandbox)
