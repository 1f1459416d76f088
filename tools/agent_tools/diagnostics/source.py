"""Where problems come from: the interface of checkers and language servers, and how their programs are found."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_tools.base import ToolContext
from agent_tools.diagnostics.checkers import LOCAL
from agent_tools.diagnostics.parsers import Problem
from agent_tools.record import Value
from agent_tools.sandbox.conditions import Wrapped, unconfined
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.state import command_env

# Nothing is fetched, and no caches are left in the workspace.
_CALM = {
    "GOTOOLCHAIN": "local",
    "CARGO_NET_OFFLINE": "true",
    "npm_config_offline": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_COLOR": "1",
}


class CheckFailedError(Exception):
    """A checker could not check: it failed, hung or died. The message says so in words that follow its name."""


class ServerNotStartedError(CheckFailedError):
    """A server does not even start, such as the proxy of a toolchain manager for what is not installed."""


class Source(ABC):
    """Finds the problems of a text. Used by one thread, except for `wake`.

    any_text: it can check a text that is not what the file holds.
    stopped: returns True once the session ends.
    """

    any_text = False

    def __init__(self, name: str, stopped: Callable[[], bool]) -> None:
        self.name = name
        self.stopped = stopped

    @abstractmethod
    def problems(self, path: Path, text: str) -> list[Problem]:
        """Return the problems of the file at `path` when it has this text. Raises CheckFailedError."""

    @property
    def runs(self) -> bool:
        """True while a process has to be listened to between checks; `listen` does."""
        return False

    def listen(self) -> None:  # noqa: B027 - a checker has no process between checks
        """Handle what the process says until `wake` is called, or for a while."""

    def wake(self) -> None:  # noqa: B027 - a checker has no process between checks
        """Make `listen` return. May be called from any thread."""

    def close(self) -> None:  # noqa: B027 - a checker has no process between checks
        """End its process."""


class FoundProgram(Value):
    """A program that was found. local: it belongs to the project. names: what rules may call it."""

    path: str
    names: tuple[str, ...]
    local: bool = False


def find_programs(name: str, ctx: ToolContext) -> tuple[FoundProgram, ...]:
    """Return the programs with this name: those of the project, then the first on PATH outside of it."""
    found = []
    workspace = ctx.workspace
    folders = [p for p in ctx.env.get("PATH", "").split(os.pathsep) if p.startswith("/")]
    first = next((p for folder in folders if _runs(p := f"{folder}/{name}")), None)
    for local in LOCAL:
        path = f"{workspace.root}/{local}/{name}"
        if _runs(path):
            names = [f"{local}/{name}", f"./{local}/{name}", path]
            names += [name] if path == first else []
            names += [f"npx {name}"] if local.startswith("node") else []
            found.append(FoundProgram(path, tuple(names), local=True))
    for folder in folders:
        path = f"{folder}/{name}"
        if any(path == program.path for program in found) or not _runs(path):
            continue
        if not any(workspace.inside(Path(p)) for p in (path, os.path.realpath(path))):
            found.append(FoundProgram(path, (name, path)))
            break
        found.append(FoundProgram(path, (path, *([name] if path == first else [])), local=True))
    return tuple(found)


def _runs(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)  # noqa: PTH113 - text, for speed


def allowed_by_rule(program: FoundProgram, args: Sequence[str], ctx: ToolContext) -> bool | None:
    """Return True if a rule allows the command, False if one refuses it or asks, None if there is none."""
    if ctx.command_rule is None:
        return False
    answers = [ctx.command_rule(f"{name} {shlex.join(args)}") for name in program.names]
    return False if False in answers else True if True in answers else None


class Launcher(Value):
    """Starts a program as the commands of a session are started, but always in the sandbox, without the
    network and without writing to the workspace.

    The sandbox is absent only where the user's settings or the machine have none; then a rule must have allowed the
    command.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    sandbox: SandboxRunner | None

    def wrap(self, cwd: Path, argv: Sequence[str] | None = None) -> Wrapped:
        """Return the process to start. argv: instead of its own. Raises ToolError if it must not run."""
        words = list(argv or self.argv)
        if self.sandbox is None:
            return unconfined(words, self.env)
        return self.sandbox.prepare(words, cwd, self.env, network=False, read_only=self.sandbox.is_boundary)


def make_launcher(argv: Sequence[str], ctx: ToolContext) -> Launcher:
    """Return what starts `argv`."""
    env, _ = command_env(ctx)
    sandbox = ctx.supplied(SandboxRunner)
    if sandbox is not None and sandbox.is_boundary:
        # Made here, by the thread that also runs commands. /tmp is the sandbox's own.
        assert sandbox.session is not None
        env |= {"MYPY_CACHE_DIR": "/tmp/mypy", "CARGO_TARGET_DIR": "/tmp/cargo-target"}
    else:
        env["MYPY_CACHE_DIR"] = os.devnull
    return Launcher(tuple(argv), env | _CALM, sandbox)


def in_sandbox(ctx: ToolContext) -> bool:
    """Return True if commands of this session run in a sandbox that is safe for what nobody has allowed."""
    sandbox = ctx.supplied(SandboxRunner)
    return sandbox is not None and sandbox.is_boundary
