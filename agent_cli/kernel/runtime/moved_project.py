"""Continue the sessions of a project whose folder was renamed or moved: its old folder is gone, its history is here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.messages import pending_calls
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session.records import Restored, SessionNotFoundError
from agent_cli.kernel.session.store import SessionStore, StoredSession
from agent_cli.policy import git_use
from agent_tools.process import guarded_git
from agent_tools.text import one_line

_COMMITS = re.compile(r"^(?:Last commits then|The last commits then were):\n((?:[0-9a-f]{7,40} .*\n?)+)", re.MULTILINE)
_SECONDS = 2.0
_NOT_RUN = "Not run: the folder of the project was renamed. Call it again if it is still needed."


def follow_moved_project(
    config: Config, store: SessionStore, run_env: RunEnvironment, layers: Layers, warn: Callable[[str], None]
) -> Config:
    """Return a configuration that continues here, as a copy, a session of this repository from a folder that is gone.

    Any other is returned unchanged: one that resumes nothing, or a session of this project. The copy has neither
    the trust nor the grants of the old folder, and calls that waited for approval are closed.
    """
    wanted = config.resume or ""
    if config.fork or not config.resumes or _is_here(config, store):
        return config
    for old in _candidates(store, wanted):
        header = old.header
        root = str(header.get("root", ""))
        if (
            not root
            or not _is_gone(root, run_env.root)
            or not _has_commits(str(header.get("system", "")), run_env, layers)
        ):
            continue
        copies = (each for each in store.sessions() if each.header.get("forked_from") == old.session_id)
        if copy := next(copies, None):
            return config.replace(latest=False, resume=copy.session_id)
        for call in pending_calls(old.load().history):
            old.close_call(call.id, _NOT_RUN)
        how = "another name of this folder" if Path(root).exists() else "a folder that no longer exists"
        warn(f"Continuing session {old.session_id[:8]} of {one_line(root)}, {how}.")
        return config.replace(latest=False, resume=old.session_id, fork=True)
    return config


def with_new_paths(restored: Restored, root: Path) -> Restored:
    """Return a session of a folder that is gone, with the files that the model saw where they are now."""
    old = restored.header.root
    if old == str(root) or not _is_gone(old, root):
        return restored
    begin = f"{old.rstrip('/')}/"
    seen = {
        os.path.join(root, path.removeprefix(begin)) if path.startswith(begin) else path: mark
        for path, mark in restored.seen.items()
    }
    return restored.replace(seen=seen)


def _is_gone(old: str, root: Path) -> bool:
    """Return True if a project is no longer in its old folder, or that is only another name of the folder here."""
    return not Path(old).exists() or os.path.realpath(old) == os.path.realpath(root)


def _is_here(config: Config, store: SessionStore) -> bool:
    try:
        if config.resume:
            store.find(config.resume)
        else:
            store.latest()
    except SessionNotFoundError as error:
        return bool(error.found)  # several fit
    return True


def _candidates(store: SessionStore, wanted: str) -> list[StoredSession]:
    """Return the sessions of other projects, the latest changed first: those whose ID begins so, or all."""
    if wanted and not store.is_id(wanted):
        return []
    return sorted(store.elsewhere(wanted), key=_changed, reverse=True)


def _changed(session: StoredSession) -> float:
    try:
        return session.path.stat().st_mtime
    except OSError:
        return 0.0


def _has_commits(system: str, run_env: RunEnvironment, layers: Layers) -> bool:
    """Return True if a commit that was the last one when a session began is in the repository here."""
    match = _COMMITS.search(system)
    hashes = [line.split(" ", 1)[0] for line in match[1].splitlines()] if match else []
    if not hashes or not (run_env.root / ".git").exists():
        return False
    try:
        git = git_use.git_to_read(run_env.root, run_env.env, layers.trust.git_use)
        return any(_is_commit(git, commit) for commit in hashes)
    except (git_use.NotUsableError, git_use.NoRepositoryError, guarded_git.GitError):
        return False


def _is_commit(git: guarded_git.GitRun, commit: str) -> bool:
    try:
        git.run("cat-file", "-e", f"{commit}^{{commit}}", seconds=_SECONDS)
    except guarded_git.GitError as error:
        if error.code:
            return False
        raise
    return True
