"""How a command runs in the sandbox: the conditions set by settings and permissions, and its wrapped form."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from agent_tools.record import Value

if TYPE_CHECKING:
    import socket

    from agent_tools.sandbox.profile import Profile

OUTSIDE_SANDBOX = "outside the sandbox"
# And of a call that brings the changes of a staged turn into the project.
STAGED = "staged changes"
Caches = Literal["session", "shared", "off"]


class MaskedPath(Value):
    """A file, or a folder with everything below, that a command in the sandbox must not use.

    closed: for reading and writing; otherwise it can only be read.
    why: the rule that says so; "" if it looks like it holds secrets.
    """

    path: Path
    closed: bool = True
    why: str = ""


class RunConditions(Value):
    """How a command must run.

    env: variables that it must have.
    network: it may use the network.
    vouched: a user or a rule allowed it, not only the sandbox.
    outside: why it runs outside the sandbox; "" for inside.
    read_only: it may only run in bubblewrap, where it can write nothing but temporary files.
    stopped: notes that it failed because of that; returns what to tell the model.
    masked: what it must not use in bubblewrap.
    missing: paths that it must not create, each as a directory of the workspace and a path below it.
    """

    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    network: bool = False
    vouched: bool = True
    outside: str = ""
    read_only: bool = False
    stopped: Callable[[], str] = str
    masked: tuple[MaskedPath, ...] = ()
    missing: tuple[tuple[Path, str], ...] = ()


class SandboxLimits(Value):
    """The user's sandbox settings that are not in the profile.

    landlock: use it if bubblewrap does not work.
    seatbelt: use it on macOS.
    caches: where writes to caches of the home folder go: a layer of the session, the caches themselves, or nowhere.
    domains: hosts reachable through a proxy.
    ports: reachable servers on this machine.
    """

    landlock: bool = False
    seatbelt: bool = False
    caches: Caches = "session"
    domains: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class Confined(Value):
    """The sandbox as seen by the permission policy.

    holds: returns True if commands run in bubblewrap.
    profile: returns what they may access there.
    auto_allow: commands run there without approval.
    tries_reading: only those that then can write nothing do, until this stops them.
    auto_allow_destructive: the user's setting: `auto_allow` includes commands that destroy files.
    outside: rule patterns of commands that run outside.
    domains: reachable hosts.
    sockets: reachable services.
    """

    holds: Callable[[], bool]
    profile: Callable[[], Profile]
    auto_allow: bool = False
    outside: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    auto_allow_destructive: bool = False
    tries_reading: bool = False


class Moved(Value):
    """What a command created under a protected name, and that was moved away.

    to: where it is now.
    why: why it could not be moved there; "" if it was.
    """

    path: Path
    to: Path
    why: str = ""


class ChangingSettingsError(OSError):
    """A running command keeps changing the settings of a workspace; the message names them."""


# The folder, in the one that processes of this user share, of the names that they watch for.
RECORDS = "watching"
Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]


class Wrapped:
    """A process to start instead of a command: `argv` with `env`, in the same directory, with descriptors `pass_fds`.

    Start it from a thread that lives as long as the command: the kernel kills the sandbox when that thread ends.
    Call `close` when the process has been waited for.

    moved: returns what the command created and must not, and was moved away since the last call.
    left: our end of the socket of `keep.bash`; None if all processes end with the command.
    """

    def __init__(
        self,
        kind: Kind,
        argv: list[str],
        env: dict[str, str],
        pass_fds: tuple[int, ...] = (),
        finish: Callable[[], None] | None = None,
        moved: Callable[[], tuple[Moved, ...]] = tuple,
        left: socket.socket | None = None,
    ) -> None:
        self.kind = kind
        self.left = left
        self.moved = moved
        self.argv = argv
        self.env = env
        self.pass_fds = pass_fds
        self._finish = finish
        self._then: Callable[[], None] | None = None

    def code(self, code: int) -> int:
        """Return the exit code of the command, negative for a signal.

        Bubblewrap reports signal n as exit code 128 + n, as a shell does.
        """
        return 128 - code if self.kind == "bubblewrap" and 128 < code <= 128 + 64 else code

    def on_close(self, call: Callable[[], None]) -> None:
        """Call a function when the process has been waited for."""
        self._then = call

    def close(self) -> None:
        """Close the descriptors, and remove from the workspace what must not stay there."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        then, self._then = self._then, None
        if then is not None:
            then()
        for descriptor in self.pass_fds:
            with suppress(OSError):
                os.close(descriptor)
        self.pass_fds = ()
        if self.left is not None:
            self.left.close()

    def __enter__(self) -> Wrapped:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def unconfined(argv: list[str], env: dict[str, str]) -> Wrapped:
    """Return a command that runs without a sandbox, with the user's rights."""
    return Wrapped("none", argv, env)


def memory_file(name: str, data: bytes) -> int:
    """Return an inheritable descriptor with `data` to read."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
