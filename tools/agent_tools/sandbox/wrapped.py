"""A command made ready for the sandbox, and what is known of it afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal

Kind = Literal["bubblewrap", "landlock", "none"]


class Wrapped:
    """What to start in place of a command: `argv` with `env`, in the same directory, with the descriptors `pass_fds`.

    Start it from a thread that lives as long as the command: the kernel ends a sandbox with the thread that started it.
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
        """The exit code as from wait, negative for a signal.

        Bubblewrap hands a signal on as 128 + n, as a shell does, so there the two cannot be told apart.
        """
        return 128 - code if self.kind == "bubblewrap" and 128 < code <= 128 + 64 else code

    def close(self) -> None:
        """Give back the descriptors and remove what was put into the workspace."""
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
    """A command that runs with the user's own rights."""
    return Wrapped("none", argv, env)


def memory_file(name: str, data: bytes) -> int:
    """A descriptor from which a process that inherits it reads `data`."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
