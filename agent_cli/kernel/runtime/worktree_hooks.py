"""Worktrees that hooks make and remove: WorktreeCreate and WorktreeRemove run before a session and after it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.git.worktree import Worktree, enter_worktree
from agent_cli.hooks import HookResult, events
from agent_cli.hooks.events import HookStep
from agent_cli.kernel.engine import session_hooks
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.events import HookFinished
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.hooks import LoneHooks
from agent_tools.base import ToolContext
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.fs.workspace import Workspace
from agent_tools.text import shorten


class WorktreeHooks:
    """The hooks of the settings that make and remove worktrees.

    warn: shows what a hook says to the user.
    """

    def __init__(self, layers: Layers, run_env: RunEnvironment, warn: Callable[[str], None]) -> None:
        self._run_env, self._warn, self._trusted = run_env, warn, layers.trust.trusted
        context = ToolContext(Workspace(run_env.root, (), run_env.cwd), env=dict(run_env.env))
        self._hooks = LoneHooks(layers, run_env, context)

    def enter(self, wanted: str) -> Worktree:
        """Create or find the worktree, and change to it. wanted: its name; "" for a new one. Raises UsageError."""
        return enter_worktree(wanted, self._run_env, self._trusted, self)

    def create(self, name: str) -> Path | None:
        """Return the folder that a hook made for a session; None if there is no hook. Raises UsageError."""
        step = events.worktree_create(name)
        if not self._hooks.wants(step.event):
            return None
        result, failure = self._run(step)
        if (why := result.refusal) is not None:
            raise UsageError(f"--worktree: a WorktreeCreate hook refuses it: {why or 'it gave no reason'}")
        if failure or not isinstance(result.output, str):
            raise UsageError(f"--worktree: a WorktreeCreate hook made no folder: {failure or 'it printed no path'}")
        found = Path(os.path.realpath(self._run_env.root / result.output))
        above = found == self._run_env.home or self._run_env.root.is_relative_to(found)
        if above or not found.is_dir():
            what = "is the project, or a folder above it" if above else "is not a folder"
            raise UsageError(f"--worktree: {shorten(str(found), 200)}, which a WorktreeCreate hook named, {what}.")
        return found

    def remove(self, path: Path) -> bool:
        """Let a hook remove the folder; return False if there is none. Raises UsageError."""
        step = events.worktree_remove(str(path))
        if not self._hooks.wants(step.event):
            return False
        if failure := self._run(step)[1]:
            raise UsageError(f"a WorktreeRemove hook failed: {failure}")
        return True

    def _run(self, step: HookStep) -> tuple[HookResult, str]:
        """Run the hooks of a step; return their answer, and how one failed. Raises UsageError."""
        failed: list[str] = []

        def note(ran: HookFinished) -> None:
            if ran.outcome in ("error", "cancelled"):
                failed.append(ran.note or "it was ended")

        try:
            steps = self._hooks.run(step.event, step.fields, CancelToken())
            result = consume(steps, session_hooks.listener(note, self._warn))
        except CancelledError:
            raise UsageError(f"--worktree: the {step.event} hook was interrupted.") from None
        return result, "; ".join(failed)
