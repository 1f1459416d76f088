"""Checkpoints of a conversation. Most of the code is loaded before the first call that may change files."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.schema import Settings
from agent_cli.kernel.engine.types import ChangeObserver
from agent_cli.kernel.messages import Message, UserMessage, is_user_message
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_tools.base import Effect
from agent_tools.lazy import lazy_imports
from agent_tools.results import Diff

if TYPE_CHECKING:
    from agent_cli.undo.recorder import Recorder
    from agent_cli.undo.store import StoreConfig
    from agent_cli.undo.undo import UndoManager

with lazy_imports():
    from agent_cli.undo import git_store, prune
    from agent_cli.undo import recorder as checkpoints_recorder
    from agent_cli.undo import store as checkpoints_store
    from agent_cli.undo import undo as checkpoints_undo

# After this time, the snapshots of a session are deleted.
KEPT_DAYS = 14.0
_BYTES_PER_MB = 1_000_000


class CheckpointKeeper(ChangeObserver):
    """Saves the state of files around calls."""

    def __init__(self, run_env: RunEnvironment, settings: Settings, session: str) -> None:
        self._run_env = run_env
        self._settings = settings
        self._session = session
        self._model = ""
        self._recorder: Recorder | None = None
        self._turn: tuple[Sequence[Message], bool] = ((), True)
        self._of_agent = False

    @property
    def recorder(self) -> Recorder:
        if self._recorder is None:
            where = store_config(self._run_env, self._settings, self._session)
            self._recorder = checkpoints_recorder.Recorder(where, Redactor(self._run_env.env), lambda: self._model)
            self._recorder.turn(self._turn[0], new=self._turn[1], agent=self._of_agent)
        return self._recorder

    def turn(self, history: Sequence[Message], *, new: bool, model: str) -> None:
        self._turn, self._model = (tuple(history), new), model
        if self._recorder is not None:
            self._recorder.turn(history, new=new)

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        return self.recorder.before(call, tool, summary, effects, cwd)

    def after(self, call: str) -> Sequence[str]:
        return self.recorder.after(call)

    def after_earlier(self, call: str) -> None:
        if store_folder(self._run_env).exists():
            self.recorder.after_earlier(call)

    def facts(self, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        return self.recorder.facts(effects, cwd)

    def revert(self, calls: Sequence[str]) -> str:
        try:
            return checkpoints_undo.UndoManager(self.recorder.store).revert(calls, str(self._run_env.root))
        except (git_store.StoreError, OSError) as error:
            return f"Nothing was restored: {error}."

    def diffs(self, calls: Sequence[str]) -> Sequence[Diff]:
        if self._recorder is None:
            return ()
        with suppress(git_store.StoreError, OSError):
            return checkpoints_undo.UndoManager(self._recorder.store).diffs_of(calls, str(self._run_env.root))
        return ()

    def changed(self, call: str) -> Sequence[Diff]:
        return self._recorder.changed(call) if self._recorder is not None else ()

    def summed(self) -> str:
        if self._recorder is None:
            return ""
        with suppress(UsageError, OSError):
            number = self._recorder.number
            return checkpoints_undo.UndoManager(self._recorder.store).summed([number]) if number is not None else ""
        return ""

    def for_agent(self, history: Sequence[Message], title: str) -> ChangeObserver:
        other = CheckpointKeeper(self._run_env, self._settings, self._session)
        other._of_agent = True
        at = next((n for n, message in reversed([*enumerate(history)]) if is_user_message(message)), 0)
        other.turn((*history[:at], UserMessage(title)), new=True, model=self._model)
        return other

    def close(self) -> None:
        """Prune the store if something was recorded and pruning is due."""
        if self._recorder is None:
            return
        most, now = round(self._settings.undo.max_store_mb * _BYTES_PER_MB), time.time()
        with suppress(git_store.StoreError, OSError):
            store = self._recorder.store
            if prune.is_due(store.where.folder, most, now):
                prune.prune(store, KEPT_DAYS, most, now)


def checkpoint_keeper(run_env: RunEnvironment, settings: Settings, session: str) -> ChangeObserver:
    """Return the observer of a session's calls; it does nothing if checkpoints are turned off."""
    if not settings.undo.keep or not settings.save_sessions:
        return ChangeObserver()
    folder = store_folder(run_env)
    # Usually there are no leftovers, and the module need not be loaded.
    if os.path.lexists(folder / "restoring"):
        checkpoints_store.remove_at_start(folder)
    return CheckpointKeeper(run_env, settings, session)


def store_folder(run_env: RunEnvironment) -> Path:
    """Return the folder of a project's checkpoints."""
    state = state_folder(run_env.env)
    return state / "snapshots" / SessionStore(state, run_env.root).folder.name


def store_config(run_env: RunEnvironment, settings: Settings, session: str) -> StoreConfig:
    extra = (Path(os.path.expanduser(d)) for d in settings.permissions.additional_directories)
    roots = tuple(dict.fromkeys(Path(os.path.realpath(r)) for r in (run_env.root, *extra)))
    path = run_env.env.get("PATH", os.defpath)
    # An outer folder covers those inside it.
    outer = tuple(r for r in roots if not any(r != o and r.is_relative_to(o) for o in roots))
    return checkpoints_store.StoreConfig(store_folder(run_env), outer or roots, path, str(run_env.home or ""), session)


def undo_manager(run_env: RunEnvironment, settings: Settings, session: str) -> UndoManager:
    """Return the undo manager of a session of the project. Raises UsageError if the store cannot be opened."""
    stage = run_env.stage

    def bring(paths: Sequence[str]) -> None:
        """Undo in the project what was undone in its copy."""
        if stage is not None:
            stage.request("bring", paths=list(paths))

    if stage is not None:
        stage.request("follow", turn=False)
    try:
        return checkpoints_undo.UndoManager(checkpoints_store.Store(store_config(run_env, settings, session)), bring)
    except git_store.StoreError as error:
        raise UsageError(f"There are no snapshots for undo: {error}.") from None
