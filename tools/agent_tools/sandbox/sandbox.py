"""Choose the sandbox that works on this machine, and wrap commands for it.

Bubblewrap if it works, else Landlock with seccomp if the user wants that, else none; on macOS Seatbelt if the user
wants that. Each is tested by running `true` in it, which starts a process: choose when the first command runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox import bwrap
from agent_tools.sandbox import landlock as sandbox_landlock
from agent_tools.sandbox.conditions import Kind, Wrapped
from agent_tools.sandbox.profile import Profile
from agent_tools.text import one_line

with lazy_imports():
    from agent_tools.sandbox import seatbelt as sandbox_seatbelt

Mode = Literal["auto", "require", "off"]
_TRIAL_SECONDS = 10
_LINUX_ONLY, _NOT_INSTALLED = "there is one for Linux only", "it is not installed"
_NOT_ENABLED = "the one for macOS, Seatbelt, is experimental and used only with sandbox.seatbelt = true"
# What can be seen without trying a sandbox, for the prompt.
KNOWN_FROM_START = ((_LINUX_ONLY,), (_NOT_ENABLED,), (f"bubblewrap: {_NOT_INSTALLED}",))
_LABELS = {
    "bubblewrap": "bubblewrap",
    "landlock": "Landlock and seccomp",
    "seatbelt": "Seatbelt (experimental)",
    "none": "none",
}


class Sandbox(Value):
    """The sandbox that commands run in.

    program: path of bubblewrap.
    why: why better sandboxes are not used.
    limits: protection that it lacks compared to bubblewrap.
    """

    kind: Kind
    mode: Mode = "auto"
    program: str = ""
    why: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def is_boundary(self) -> bool:
        """True if it is safe for unreviewed commands: only bubblewrap protects hooks and settings for certain."""
        return self.kind == "bubblewrap"

    def text(self) -> str:
        """The sandbox in one line: "Landlock and seccomp, not bubblewrap: it is not installed"."""
        if self.mode == "off":
            return "off: commands run with your permissions"
        if self.kind == "none":
            so = "no command will run" if self.mode == "require" else "commands run with your permissions"
            return f"none, so {so}: {'; '.join(self.why)}"
        return "; ".join((_LABELS[self.kind], *(f"not {reason}" for reason in self.why)))

    def obstacle(self, profile: Profile) -> str:
        """Return why nothing can run in the sandbox with this profile; "" if it can, or if there is no sandbox."""
        return bwrap.obstacle(profile) if self.kind in ("bubblewrap", "seatbelt") else ""

    def prepare(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        profile: Profile,
        shared: bwrap.Shared = bwrap.NOTHING_SHARED,
        *,
        keep: bool = False,
    ) -> Wrapped:
        """Wrap `argv`; close the result afterwards. Without a sandbox, it runs `argv` itself.

        shared: resources shared with other commands in bubblewrap or Seatbelt.
        keep: in bubblewrap, keep processes that `argv`, a bash, leaves running.
        Raises ToolError if a required sandbox is missing, or it cannot protect what it must.
        """
        if self.kind == "bubblewrap":
            return bwrap.prepare_bubblewrap(self.program, argv, cwd, env, profile, shared, keep=keep)
        if self.kind == "landlock":
            return sandbox_landlock.prepare_landlock(argv, env, profile)
        if self.kind == "seatbelt":
            return sandbox_seatbelt.prepare_seatbelt(argv, env, profile, shared)
        if self.mode == "require":
            raise ToolError(
                f"Commands run in a sandbox only (sandbox.mode is require), and there is none: {'; '.join(self.why)}."
            )
        return Wrapped("none", argv, env)


def select_sandbox(
    mode: Mode, profile: Profile, env: Mapping[str, str], *, landlock: bool = False, seatbelt: bool = False
) -> Sandbox:
    """Return the best sandbox that works here with this profile. Starts up to two processes.

    landlock: allow Landlock, which protects less.
    seatbelt: allow Seatbelt, which is experimental.
    """
    if mode == "off":
        return Sandbox("none", mode)
    if sys.platform == "darwin":
        if not seatbelt:
            return Sandbox("none", mode, why=(_NOT_ENABLED,))
        if reason := try_seatbelt(profile):
            return Sandbox("none", mode, why=(f"Seatbelt: {reason}",))
        return Sandbox("seatbelt", mode, limits=sandbox_seatbelt.LIMITS)
    if sys.platform != "linux":
        return Sandbox("none", mode, why=(_LINUX_ONLY,))
    program = find_bubblewrap(profile, env)
    reason = try_bubblewrap(program, profile) if program else _NOT_INSTALLED
    if program and not reason:
        return Sandbox("bubblewrap", mode, program)
    why = f"bubblewrap: {reason}"
    if not landlock:
        return Sandbox("none", mode, why=(why,))
    if reason := try_landlock(profile):
        return Sandbox("none", mode, why=(why, f"Landlock: {reason}"))
    return Sandbox("landlock", mode, why=(why,), limits=sandbox_landlock.LIMITS)


def find_bubblewrap(profile: Profile, env: Mapping[str, str]) -> str:
    """Return the path of bubblewrap; "" if there is none."""
    return (sys.platform == "linux" and bwrap.find_bwrap(env, profile.writable)) or ""


def try_bubblewrap(program: str, profile: Profile, shared: bwrap.Shared = bwrap.NOTHING_SHARED) -> str:
    """Return why bubblewrap does not work here with the shared resources; "" if it does."""
    bare = _without_protection(profile)
    return _try_sandbox(lambda: bwrap.prepare_bubblewrap(program, [_true_program()], Path("/"), {}, bare, shared))


def try_landlock(profile: Profile) -> str:
    """Return why Landlock with seccomp does not work here; "" if it does."""
    if not sandbox_landlock.is_supported():
        return f"there is no filter of system calls for {os.uname().machine}"
    return _try_sandbox(lambda: sandbox_landlock.prepare_landlock([_true_program()], {}, _without_protection(profile)))


def try_seatbelt(profile: Profile) -> str:
    """Return why Seatbelt does not work here; "" if it does."""
    return _try_sandbox(lambda: sandbox_seatbelt.prepare_seatbelt([_true_program()], {}, _without_protection(profile)))


def trial_profile() -> Profile:
    """Return a profile for testing sandboxes before there is a workspace."""
    return Profile(())


def _without_protection(profile: Profile) -> Profile:
    """Return the profile without protected paths: a trial must not create placeholders in the workspace."""
    return profile.replace(protected=(), personal=(), watched=())


def _true_program() -> str:
    return next((t for t in ("/usr/bin/true", "/bin/true") if os.access(t, os.X_OK)), "true")


def _try_sandbox(make: Callable[[], Wrapped]) -> str:
    """Run `true` in it; return "" if that works, else the error."""
    try:
        with make() as wrapped:
            done = subprocess.run(
                wrapped.argv,
                cwd="/",
                env=wrapped.env,
                pass_fds=wrapped.pass_fds,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                check=False,
            )
    except (OSError, ToolError, subprocess.TimeoutExpired) as error:
        return one_line(str(error))
    if done.returncode == 0:
        return ""
    error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return one_line(error_lines[-1]) if error_lines else f"it ends with {done.returncode}"
