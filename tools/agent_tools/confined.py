"""Commands put into the sandbox: which one is found out with the first command, and told where it is not the best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_tools.values import Value

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from agent_tools.sandbox import Sandbox
    from agent_tools.sandbox_profile import Profile
    from agent_tools.sandbox_wrapped import Wrapped

OUTSIDE = "outside the sandbox"


class Terms(Value):
    """How one command is to run. env: variables that it must have. network: whether it may use the network.

    vouched: a person or a rule allowed it, and not the sandbox alone.
    """

    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    network: bool = False
    vouched: bool = True


class Confinement:
    """The sandbox of a conversation. profile: makes the profile for the next command, from its private directory for
    temporary files and whether it may use the network."""

    def __init__(
        self, mode: Literal["auto", "require"], profile: Callable[[Path, bool], Profile], env: dict[str, str]
    ) -> None:
        self._mode: Literal["auto", "require"] = mode
        self._profile = profile
        self._env = env
        self._sandbox: Sandbox | None = None
        self._temp: TemporaryDirectory[str] | None = None
        self._told = False

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that is used; the first look costs a process or two."""
        if self._sandbox is None:
            from agent_tools.sandbox import choose  # with ctypes and subprocess

            self._sandbox = choose(self._mode, self._made(network=False), self._env)
        return self._sandbox

    def _made(self, *, network: bool) -> Profile:
        if self._temp is None:
            from tempfile import TemporaryDirectory

            self._temp = TemporaryDirectory(prefix="agent-sandbox-", ignore_cleanup_errors=True)
        return self._profile(Path(self._temp.name), network)

    @property
    def holds(self) -> bool:
        """Whether commands really run in one."""
        return self.sandbox.kind != "none"

    @property
    def is_boundary(self) -> bool:
        """Whether it holds a command that nobody looked at: only bubblewrap protects hooks and settings inside."""
        return self.sandbox.kind == "bubblewrap"

    def prepare(self, argv: list[str], cwd: Path, env: dict[str, str], *, network: bool) -> Wrapped:
        """The command made ready; close it afterwards. Raises ToolError where it must not run."""
        return self.sandbox.prepare(argv, cwd, env, self._made(network=network))

    def shortfall(self) -> str:
        """What the model should know once: that there is no sandbox though one was asked for."""
        if self._told or self.holds:
            return ""
        self._told = True
        return f"[sandbox: {self.sandbox.text()}]"

    def close(self) -> None:
        """Remove the temporary files."""
        if self._temp is not None:
            self._temp.cleanup()
            self._temp = None


def unconfined(argv: list[str], env: dict[str, str]) -> Wrapped:
    """A command that runs with the person's own rights."""
    from agent_tools.sandbox_wrapped import Wrapped

    return Wrapped("none", argv, env)
