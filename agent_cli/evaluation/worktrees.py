"""The repositories that an evaluation works in: one for each task, of which each run gets a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from agent_cli.core.place import UsageError
from agent_cli.evaluation.tasks import EvaluationTask
from agent_tools.process.guarded_git import ASTRAY, Checkout, GitError, GitRun, as_user, find_git, store

_FETCH_SECONDS = 900.0
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "agent eval"), ("EMAIL", "eval@localhost"), ("DATE", "2026-01-01T00:00:00Z"))
}
# So that the model can commit, whatever its user's own configuration asks for.
_LOCAL = {"user.name": "agent eval", "user.email": "eval@localhost", "commit.gpgsign": "false"}


def make_base(task: EvaluationTask, folder: Path, env: Mapping[str, str]) -> None:
    """Make the repository of a task in a new folder: its files in one commit, or one commit of its repository.

    Of a repository that git fetches, later commits and remotes are not there for the model to find. Raises UsageError.
    """
    try:
        folder.mkdir(parents=True)
        program = find_git(env.get("PATH", os.defpath), str(folder))
        git = store(program, str(folder / ".git"))
        git.run("init", "-q", "-b", "main")
        for key, value in _LOCAL.items():
            git.run("config", key, value)
        if task.fetched:
            _fetch(task, program, folder, env)
        else:
            _commit(task, git, folder)
    except (OSError, shutil.Error, GitError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The repository of the task {task.name} cannot be made: {said.rstrip('.')}.") from None


def copy_base(base: Path, work: Path) -> None:
    """Copy a repository, links as links. Raises OSError, shutil.Error."""
    shutil.copytree(base, work, symlinks=True)


def _commit(task: EvaluationTask, git: GitRun, folder: Path) -> None:
    if task.repo:
        left_out = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(task.repo, folder, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    tree = {"GIT_WORK_TREE": str(folder), **_AUTHOR}
    git.run("add", "-A", cwd=str(folder), env=tree)
    git.run("commit", "-q", "--allow-empty", "-m", "Start", cwd=str(folder), env=tree)


def _fetch(task: EvaluationTask, program: str, folder: Path, env: Mapping[str, str]) -> None:
    """Fetch one commit, with the user's own configuration and logins."""
    own = {name: value for name, value in env.items() if name not in ASTRAY}
    place = Checkout(str(folder), str(folder / ".git"), str(folder / ".git"))
    git = as_user(program, place, own)
    try:
        git.run("fetch", "-q", "--depth", "1", "--", task.repo, task.commit, seconds=_FETCH_SECONDS)
        git.run("reset", "-q", "--hard", "FETCH_HEAD", seconds=_FETCH_SECONDS)
    except GitError as error:
        where = f"{task.repo} at {task.commit}"
        raise GitError(f"{where}: {error} (a commit is named by a branch, a tag or its whole hash)") from None
