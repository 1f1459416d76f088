"""The environment of a run: its folders, its standard output and terminal, and the errors that its user can correct."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from agent_tools.record import Protocol, Value
from agent_tools.sandbox.conditions import ChangingSettingsError
from agent_tools.sandbox.steady import read_steadily

T = TypeVar("T")


class UsageError(Exception):
    """Something the user has to correct: one sentence, exit code 2."""


class Stage(Protocol):
    """The connection from a stage to the process outside."""

    def request(self, do: str, **fields: Any) -> Any:
        """Return the answer to a request. Raises ToolError."""


class RunEnvironment(Value):
    """Where a run happens.

    cwd: the working directory.
    root: the workspace that contains it.
    home: the home folder; None if there is none.
    env: the environment variables.
    stage: the connection to the process outside, if this is one in a stage.
    """

    cwd: Path
    root: Path
    home: Path | None
    env: Mapping[str, str]
    stage: Stage | None = None


class StagedSessionError(UsageError):
    """The session works in a stage, so only a process in that can open it. folder: of its copy."""

    def __init__(self, folder: Path, session_id: str) -> None:
        super().__init__(f"This session works in a copy of the project: continue it with agent --resume {session_id}")
        self.folder = folder


def read_project(root: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns, which reads files of a project that take effect: none that a command in the sandbox
    has just created. It may be called again. Raises UsageError if a running command keeps creating some.
    """
    try:
        return read_steadily(root, read)
    except ChangingSettingsError as error:
        raise UsageError(str(error)) from None


class OutputError(Exception):
    """Standard output cannot be written: it is closed, or its disk is full. One sentence, exit code 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}")


def is_dumb(env: Mapping[str, str]) -> bool:
    """Return True if there is no terminal, or one without escape sequences."""
    return env.get("TERM", "") in ("", "dumb", "unknown")


def has_styles(env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Return True if standard output is a terminal with bold and underline, and plain mode is off."""
    return os.isatty(1) and not is_dumb(env) and not plain


def has_color(setting: str, env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Return True if colours are used: always, never, or (auto) with styles and without NO_COLOR."""
    return setting == "always" or (setting == "auto" and has_styles(env, plain=plain) and not env.get("NO_COLOR"))
