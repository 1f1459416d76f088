"""A project whose turns work in a copy: make that, and run a program in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.engine.types import ChangeObserver
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.checkpoints import checkpoint_keeper
from agent_cli.kernel.runtime.environment import read_settings
from agent_cli.kernel.session.stages import remove_old, stages_folder
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_cli.stage.changes import staged_changes
from agent_cli.stage.copy import StageCopy, StageError, make_copy, read_copy
from agent_cli.stage.supervisor import Supervisor, visible
from agent_tools.sandbox.bwrap import find_bwrap
from agent_tools.text import counted, utc_stamp

# Of a run that waits for a decision.
_SUSPENDED_EXIT_CODE = 3


class StageEnd:
    """How a program in a stage ended.

    code: its exit code. left: the session to go on with outside the stage, "-" for a new one; "" if the user did not
    leave it. notice: what to tell the user.
    """

    def __init__(self, code: int, left: str, notice: str) -> None:
        self.code, self.left, self.notice = code, left, notice


class StagedProject:
    """A project and the copy in which a program works. notes: for the user, about the copy."""

    def __init__(self, copy: StageCopy, notes: Sequence[str], run_env: RunEnvironment) -> None:
        self.notes, self._copy, self._run_env = notes, copy, run_env

    @staticmethod
    def why_not(run_env: RunEnvironment) -> str:
        """Return why a project cannot be staged; "" if it can, as far as can be told without trying."""
        if sys.platform != "linux" or not find_bwrap(run_env.env, (run_env.root,)):
            return "a staged turn needs bubblewrap, on Linux, and it is not installed"
        if run_env.root in (run_env.home, Path("/")):
            return "it would copy your home folder: work in the folder of a project"
        state = Path(os.path.realpath(state_folder(run_env.env)))
        if state.is_relative_to(run_env.root):
            return f"the state folder {state} is inside the project: set AGENT_STATE_DIR to one outside"
        return ""

    @classmethod
    def begin(cls, run_env: RunEnvironment, layers: Layers) -> StagedProject:
        """Copy the project. Raises UsageError."""
        if why := cls.why_not(run_env):
            raise UsageError(f"The project cannot be staged: {why}.")
        folder = stages_folder(SessionStore.of(run_env).folder)
        remove_old(folder)
        use = layers.trust.git_use
        return cls(*make_copy(folder / os.urandom(6).hex(), run_env.root, run_env.env, use, utc_stamp()), run_env)

    @classmethod
    def of_session(cls, folder: Path, run_env: RunEnvironment) -> StagedProject:
        """Return the project with the copy of a session. Raises UsageError."""
        try:
            copy = read_copy(folder)
            with copy.locked():
                return cls(copy, [copy.mend()] if copy.damage else [], run_env)
        except (StageError, OSError) as error:
            raise UsageError(f"The staged turn cannot go on: {getattr(error, 'strerror', None) or error}.") from None

    def run(self, command: Sequence[str]) -> StageEnd:
        """Run a program in the copy, and remove that if nothing in it is left to decide. Raises UsageError."""
        copy, run_env = self._copy, self._run_env
        bwrap = find_bwrap(run_env.env, (copy.root,))
        if bwrap is None:
            raise UsageError("The staged turn cannot go on: bubblewrap is not installed.")
        supervisor = Supervisor(copy, bwrap, self._recorder)
        cwd = run_env.cwd if run_env.cwd.is_relative_to(copy.root) else copy.root
        try:
            code = supervisor.run(command, cwd)
            changes = visible(staged_changes(copy))
            if not changes and not supervisor.in_turn:
                copy.delete()
                return StageEnd(code, supervisor.left, "")
        except (StageError, OSError) as error:
            raise UsageError(f"The staged turn cannot go on: {getattr(error, 'strerror', None) or error}.") from None
        session = copy.facts.session
        again = f"agent --resume {session[:8]} goes on there" if session else f"they are in {copy.folder}"
        notice = f"{counted(len(changes), 'change')} in the copy, which your project does not have: {again}."
        return StageEnd(code, supervisor.left, notice if changes and code != _SUSPENDED_EXIT_CODE else "")

    def _recorder(self, session: str) -> ChangeObserver:
        """Return what records, for undo, the changes of a session that come out of the copy."""
        return checkpoint_keeper(self._run_env, read_settings(Config(), self._run_env).settings(), session)
