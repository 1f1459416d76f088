"""Run the commands of a conversation in the sandbox, which is chosen with the first command."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_tools.base import ToolState
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.conditions import RunConditions, SandboxLimits

if TYPE_CHECKING:
    from agent_tools.sandbox.conditions import Wrapped
    from agent_tools.sandbox.profile import Profile
    from agent_tools.sandbox.sandbox import Sandbox
    from agent_tools.sandbox.session import LoopbackSession, SandboxSession, TemporaryFolder
    from agent_tools.sandbox.temporary import TemporaryFiles, TemporaryMount

with lazy_imports():
    from agent_tools.sandbox import sandbox as sandbox_sandbox  # imports ctypes and subprocess
    from agent_tools.sandbox import session as sandbox_session
    from agent_tools.sandbox import temporary


class SandboxRunner(ToolState):
    """The sandbox of a conversation.

    profile: makes the profile of the next command, given its temporary directories and whether it may use the network.
    project: root of the project, whose sessions share temporary folders; None for temporary files of these commands
        alone.
    """

    def __init__(
        self,
        mode: Literal["auto", "require"],
        profile: Callable[[tuple[TemporaryMount, ...], bool], Profile],
        env: Mapping[str, str],
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - never changed
        project: Path | None = None,
    ) -> None:
        self._mode: Literal["auto", "require"] = mode
        self._make_profile = profile
        self._env = env
        self._limits = limits
        self._project = project
        self._sandbox: Sandbox | None = None
        self._folders: list[TemporaryFolder] = []
        self._temporary: TemporaryFiles | None = None
        self._targets: tuple[Path, ...] | None = None
        self._session: SandboxSession | None = None
        self._loopback: LoopbackSession | None = None
        self._first_profile: Profile | None = None
        self._shortfall_reported = False
        # Commands may be prepared in several threads, which share the session.
        self._lock = _thread.RLock()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox in use; the first access starts a process or two."""
        with self._lock:
            if self._sandbox is None:
                profile = self._current_profile(network=False)
                self._sandbox = self._try_with_session(profile) or sandbox_sandbox.select_sandbox(
                    self._mode, profile, self._env, landlock=self._limits.landlock, seatbelt=self._limits.seatbelt
                )
            return self._sandbox

    def _try_with_session(self, profile: Profile) -> Sandbox | None:
        """Try bubblewrap with all that commands share there, in one trial; None if something does not work."""
        program = sandbox_sandbox.find_bubblewrap(profile, self._env)
        if not program:
            return None
        session = self._new_session(profile, tested=False)
        shared = session.shared(network=False)
        if session.space_error or sandbox_sandbox.try_bubblewrap(program, profile, shared):
            session.close()
            return None
        self._session = session
        return sandbox_sandbox.Sandbox("bubblewrap", self._mode, program)

    def _new_session(self, profile: Profile, *, tested: bool) -> SandboxSession:
        folder = self._session_folder() / "layers"
        return sandbox_session.SandboxSession(profile, folder, self._limits, self._env, tested=tested)

    @property
    def chosen(self) -> Sandbox | None:
        """The sandbox, if it was chosen already."""
        return self._sandbox

    @property
    def session(self) -> SandboxSession | None:
        """The resources that commands share in bubblewrap; created with the first command."""
        if self._session is None and self.is_boundary:
            profile = self._current_profile(network=False)
            session = self._new_session(profile, tested=True)
            session.views = not sandbox_sandbox.try_bubblewrap(
                self.sandbox.program, profile, session.shared(network=False)
            )
            self._session = session
        return self._session

    def _shared(self) -> SandboxSession | LoopbackSession | None:
        """Return what commands share; None for nothing."""
        if self.sandbox.kind != "seatbelt":
            return self.session
        if self._loopback is None:
            self._loopback = sandbox_session.LoopbackSession(self.profile.caches, self._limits, self._env)
        return self._loopback

    def _session_folder(self) -> Path:
        self._temporary_files()
        if not self._folders:
            self._folders.append(sandbox_session.TemporaryFolder())
        return self._folders[0].path

    def _temporary_files(self) -> TemporaryFiles:
        """Return the temporary files of the session; the first call creates its folders."""
        with self._lock:
            if self._temporary is None:
                places, private = [], []
                for target in self._temporary_targets():
                    shared = self._project is not None and os.access(target, os.W_OK | os.X_OK)
                    folder = sandbox_session.TemporaryFolder(target if shared else None)
                    self._folders.append(folder)
                    source = folder.path / sandbox_session.TEMPORARY_NAME
                    source.mkdir()
                    if shared:
                        places.append(temporary.TemporaryPlace(target, source, str(self._project)))
                    else:
                        private.append(temporary.TemporaryMount(target, source))
                self._temporary = temporary.TemporaryFiles(places, private)
            return self._temporary

    def _temporary_targets(self) -> tuple[Path, ...]:
        if self._targets is None:
            self._targets = temporary.temporary_targets(self._env.get("TMPDIR", ""))
        return self._targets

    def temporary_files(self, path: str) -> TemporaryFiles | None:
        """Return the temporary files of the session, if commands run in bubblewrap and a path may be one of them."""
        if not any(path.startswith(f"{target}/") for target in self._temporary_targets()):
            return None
        return self._temporary_files() if self.is_boundary else None

    def temporary_files_for(self, command: str) -> TemporaryFiles | None:
        """Return the temporary files of the session, if commands run in bubblewrap and this one may use them."""
        if self._sandbox is None and not any(f"{target}/" in command for target in self._temporary_targets()):
            return None
        return self._temporary_files() if self.is_boundary else None

    def _current_profile(self, *, network: bool, read_only: bool = False) -> Profile:
        files = self._temporary_files()
        return self._make_profile(files.read_only_mounts() if read_only else files.mounts(), network)

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
        """True if it is safe for unreviewed commands."""
        return self.sandbox.is_boundary

    def prepare(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        conditions: RunConditions = RunConditions(),  # noqa: B008 - never changed
        *,
        keep: bool = False,
    ) -> Wrapped:
        """Wrap a command; close the result afterwards. Raises ToolError if it must not run.

        conditions: the network, and what it must not read or write; files are masked in bubblewrap only.
        keep: see `Sandbox.prepare`.
        """
        with self._lock:
            session = self._shared()
            only = conditions.read_only
            files = self._temporary_files() if self.is_boundary and not only else None
            if files is not None:
                files.enter()
            try:
                profile = _under(self._current_profile(network=conditions.network, read_only=only), conditions)
                wrapped = self._wrap(argv, cwd, env, session, profile, keep=keep)
            except BaseException:  # the caller reports the error
                if files is not None:
                    files.leave()
                raise
            if files is not None:
                wrapped.on_close(files.leave)
            return wrapped

    def _wrap(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        session: SandboxSession | LoopbackSession | None,
        profile: Profile,
        *,
        keep: bool,
    ) -> Wrapped:
        sandbox = self.sandbox
        if session is None:
            return sandbox.prepare(argv, cwd, env, profile, keep=keep)
        env = env | session.environment(network=profile.network)
        return sandbox.prepare(argv, cwd, env, profile, session.shared(network=profile.network), keep=keep)

    def hides(self, path: str) -> bool:
        """Return True if a path exists but is invisible to commands."""
        if not os.path.lexists(path):
            return False
        profile = self.profile
        files = self.temporary_files(os.path.realpath(path))
        if files is not None and temporary.hides(path, files.mounts(), (*profile.writable, *profile.shown)):
            return True
        return not profile.is_readable(Path(path))

    def was_there_before(self, path: str) -> bool:
        """Return True if a path is in a temporary folder, and is not the session's, so that it is read-only."""
        files = self.temporary_files(path)
        return files is not None and not files.owns(path) and os.path.lexists(path)

    def refused(self) -> tuple[str, ...]:
        """Return the hosts that the proxy has rejected since the last call."""
        session = self._session or self._loopback
        return session.refused() if session is not None else ()

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
        if self._loopback is not None:
            self._loopback.close()
            self._loopback = None
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._temporary is not None:
            self._temporary.close()
            self._temporary = None
        for folder in self._folders:
            folder.close()
        self._folders = []


def _under(profile: Profile, conditions: RunConditions) -> Profile:
    """Return the profile of one command: a closed folder is hidden, a closed file cannot be opened."""
    shut = [each.path for each in conditions.masked if each.closed]
    folders = tuple(path for path in shut if path.is_dir())
    closed = tuple(path for path in shut if path not in folders)
    profile = profile.replace(hidden=(*profile.hidden, *folders), closed=closed)
    if conditions.read_only:
        # With nothing writable, nothing needs protection or placeholders.
        shown = (*profile.shown, *profile.writable)
        return profile.replace(writable=(), protected=(), personal=(), watched=(), shown=shown)
    fixed = tuple(each.path for each in conditions.masked if not each.closed and os.path.lexists(each.path))
    return profile.replace(fixed=fixed, watched=(*profile.watched, *conditions.missing))
