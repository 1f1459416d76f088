"""A command wrapped for the sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal

Kind = Literal["bubblewrap", "landlock", "none"]


class Wrapped:
    """A process to start instead of a command: `argv` with `env`, in the same directory, with descriptors `pass_fds`.

    Start it from a thread that lives as long as the command: the kernel kills the sandbox when that thread ends.
    Call `close` when the process has been waited for.
    """

    def __init__(
        self,
        kind: Kind,
        argv: list[str],
        env: dict[str, str],
        pass_fds: tuple[int, ...] = (),
        finish: Callable[[], None] | None = None,
    ) -> None:
        self.kind = kind
        self.argv = argv
        self.env = env
        self.pass_fds = pass_fds
        self._finish = finish

    def code(self, code: int) -> int:
        """Return the exit code of the command, negative for a signal.

        Bubblewrap reports a signal as 128 + n, as a shell does, so it looks like an exit code there.
        """
        return 128 - code if self.kind == "bubblewrap" and 128 < code <= 128 + 64 else code

    def close(self) -> None:
        """Close the descriptors and remove the placeholders from the workspace."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        for descriptor in self.pass_fds:
            with suppress(OSError):
                os.close(descriptor)
        self.pass_fds = ()

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
