"""Run the commands of a conversation in the sandbox, which is chosen with the first command."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_tools.base import ToolState
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.conditions import SandboxLimits

if TYPE_CHECKING:
    from agent_tools.sandbox.conditions import Wrapped
    from agent_tools.sandbox.profile import Profile
    from agent_tools.sandbox.sandbox import Sandbox
    from agent_tools.sandbox.session import SandboxSession, TemporaryFolder

with lazy_imports():
    from agent_tools.sandbox import sandbox as sandbox_sandbox  # imports ctypes and subprocess
    from agent_tools.sandbox import session as sandbox_session


class SandboxRunner(ToolState):
    """The sandbox of a conversation.

    profile: makes the profile of the next command, given its temporary directory and whether it may use the network.
    """

    def __init__(
        self,
        mode: Literal["auto", "require"],
        profile: Callable[[Path, bool], Profile],
        env: Mapping[str, str],
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - never changed
    ) -> None:
        self._mode: Literal["auto", "require"] = mode
        self._make_profile = profile
        self._env = env
        self._limits = limits
        self._sandbox: Sandbox | None = None
        self._folder: TemporaryFolder | None = None
        self._session: SandboxSession | None = None
        self._first_profile: Profile | None = None
        self._shortfall_reported = False
        # Commands may be prepared in several threads, which share the session.
        self._lock = _thread.RLock()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox in use; the first access starts a process or two."""
        if self._sandbox is None:
            self._sandbox = sandbox_sandbox.select_sandbox(
                self._mode, self._current_profile(network=False), self._env, landlock=self._limits.landlock
            )
        return self._sandbox

    @property
    def chosen(self) -> Sandbox | None:
        """The sandbox, if it was chosen already."""
        return self._sandbox

    @property
    def session(self) -> SandboxSession | None:
        """The resources that commands share in bubblewrap; created with the first command."""
        if self._session is None and self.is_boundary:
            profile = self._current_profile(network=False)
            session = sandbox_session.SandboxSession(profile, self._temp_folder() / "layers", self._limits, self._env)
            session.views = not sandbox_sandbox.try_bubblewrap(
                self.sandbox.program, profile, session.shared(network=False)
            )
            self._session = session
        return self._session

    def _temp_folder(self) -> Path:
        if self._folder is None:
            self._folder = sandbox_session.TemporaryFolder()
        return self._folder.path

    def _current_profile(self, *, network: bool) -> Profile:
        temp = self._temp_folder() / "tmp"
        temp.mkdir(exist_ok=True)
        return self._make_profile(temp, network)

    @property
    def profile(self) -> Profile:
        """Return the profile of commands; cached after the first call."""
        if self._first_profile is None:
            self._first_profile = self._current_profile(network=False)
        return self._first_profile

    @property
    def is_active(self) -> bool:
        """True if commands really run in a sandbox."""
        return self.sandbox.kind != "none"

    @property
    def is_boundary(self) -> bool:
        """True if it is safe for unreviewed commands: only bubblewrap protects hooks and settings in the workspace."""
        return self.sandbox.kind == "bubblewrap"

    def prepare(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        *,
        network: bool,
        read_only: bool = False,
        masked: tuple[Path, ...] = (),
    ) -> Wrapped:
        """Wrap a command; close the result afterwards. Raises ToolError if it must not run.

        read_only: it may write to its temporary folder and to caches only.
        masked: more files that are hidden.
        """
        with self._lock:
            session = self.session
            profile = self._current_profile(network=network)
            sandbox = self.sandbox
        if read_only:
            # With nothing writable, nothing needs protection or placeholders.
            shown = (*profile.shown, *profile.writable)
            hidden = (*profile.hidden, *masked)
            profile = profile.replace(writable=(), protected=(), personal=(), shown=shown, hidden=hidden)
        if session is None:
            return sandbox.prepare(argv, cwd, env, profile)
        env = env | session.environment(network=profile.network)
        return sandbox.prepare(argv, cwd, env, profile, session.shared(network=profile.network))

    def hides(self, path: str) -> bool:
        """Return True if a path exists but is invisible to commands."""
        return os.path.lexists(path) and not self.profile.is_readable(Path(path))

    def refused(self) -> tuple[str, ...]:
        """Return the hosts that the proxy has rejected since the last call."""
        return self._session.refused() if self._session is not None else ()

    def closed_ports(self) -> list[int]:
        """Return ports of servers started by commands that are unreachable from this machine."""
        return self._session.closed_ports() if self._session is not None else []

    def show_ports(self, running: Callable[[], bool]) -> None:
        """Make the servers of a background command reachable from this machine while it runs."""
        if self._session is not None:
            self._session.show_ports(running)

    def shortfall(self) -> str:
        """Return a note for the model, once, if there is no sandbox though the prompt says that there is one."""
        expected = self._mode == "require" or self.sandbox.why not in sandbox_sandbox.KNOWN_FROM_START
        if self._shortfall_reported or self.is_active or not expected:
            return ""
        self._shortfall_reported = True
        return f"[sandbox: {self.sandbox.text()}]"

    def close(self) -> None:
        """Close the shared resources, and remove the temporary files."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None
