"""Make a stage for a project, and run a program in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli.kernel.engine.types import ChangeObserver
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.stages import remove_old, stages_folder
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_cli.policy.git_use import Use
from agent_cli.stage.changes import staged_changes
from agent_cli.stage.copy import StageCopy, StageError, make_copy, read_copy
from agent_cli.stage.supervisor import Supervisor, visible
from agent_tools.sandbox.bwrap import find_bwrap
from agent_tools.text import counted, utc_stamp

# Of a run that waits for a decision.
_SUSPENDED_EXIT_CODE = 3
Watch = Callable[[str], ChangeObserver]


class StageEnd:
    """How a program in a stage ended.

    code: its exit code. left: the session to go on with outside the stage, "-" for a new one; "" if the user did not
    leave it. notice: what to tell the user.
    """

    def __init__(self, code: int, left: str, notice: str) -> None:
        self.code, self.left, self.notice = code, left, notice


def why_not_staged(run_env: RunEnvironment) -> str:
    """Return why a project cannot be staged; "" if it can, as far as can be told without trying."""
    if sys.platform != "linux" or not find_bwrap(run_env.env, (run_env.root,)):
        return "a staged turn needs bubblewrap, on Linux, and it is not installed"
    if run_env.root in (run_env.home, Path("/")):
        return "it would copy your home folder: work in the folder of a project"
    state = Path(os.path.realpath(state_folder(run_env.env)))
    if state.is_relative_to(run_env.root):
        return f"the state folder {state} is inside the project: set AGENT_STATE_DIR to one outside"
    return ""


def new_stage(run_env: RunEnvironment, use: Use) -> tuple[StageCopy, list[str]]:
    """Copy the project; return the copy, and notes for the user. use: of its git. Raises UsageError."""
    if why := why_not_staged(run_env):
        raise UsageError(f"The project cannot be staged: {why}.")
    folder = stages_folder(SessionStore.of(run_env).folder)
    remove_old(folder)
    return make_copy(folder / os.urandom(6).hex(), run_env.root, run_env.env, use, utc_stamp())


def open_stage(folder: Path) -> tuple[StageCopy, list[str]]:
    """Open the stage of a session; return the copy, and notes for the user. Raises UsageError."""
    try:
        copy = read_copy(folder)
        with copy.locked():
            return copy, [copy.mend()] if copy.damage else []
    except (StageError, OSError) as error:
        raise UsageError(f"The staged turn cannot go on: {getattr(error, 'strerror', None) or error}.") from None


def run_program(copy: StageCopy, command: Sequence[str], run_env: RunEnvironment, watch: Watch) -> StageEnd:
    """Run a program in a stage, and remove that if nothing in it is left to decide. Raises UsageError.

    watch: returns the recorder of a session, for undo.
    """
    bwrap = find_bwrap(run_env.env, (copy.root,))
    if bwrap is None:
        raise UsageError("The staged turn cannot go on: bubblewrap is not installed.")
    supervisor = Supervisor(copy, bwrap, watch)
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
