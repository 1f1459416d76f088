"""`--worktree`: run a session in its own git worktree, so that its changes are separate from the user's.

The worktrees are in the state folder, out of reach of the repository's searches, builds and `git status`. Each is on a
branch `agent/NAME` that starts at the checked-out commit. A worktree without changes is removed at the end; for any
other the user learns where it is and how to merge or remove it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from agent_cli.kernel.rules import Trust
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_cli.policy.git_use import NotUsableError, Use, git_to_read, settings_without_filters, usable
from agent_cli.policy.trust import GIT, TrustStore, fingerprints, grant_trust
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.process.guarded_git import GitError
from agent_tools.text import counted, one_line, shorten

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_GIT_SECONDS = 20.0
_MAX_FILE_BYTES = 16 << 20
# Time limit for commands that read or write all files.
_SLOW_GIT_SECONDS = 300.0
_SLOW_COMMANDS = ("worktree", "status")


class WorktreeError(Exception):
    """A git command failed; the message is git's."""


class WorktreeMaker(Protocol):
    """Makes and removes worktrees in git's place, such as hooks."""

    def create(self, name: str) -> Path | None:
        """Return the folder made for a session; None to leave it to git. Raises UsageError."""

    def remove(self, path: Path) -> bool:
        """Remove a folder that it made; return False to leave it to git. Raises UsageError."""


class Worktree:
    """A worktree for a session.

    repo: the main worktree.
    use: how git may be used on it.
    maker: made it in git's place; None for git.
    message: tells the user how it was created or found.
    """

    def __init__(self, name: str, path: Path, repo: Path, use: Use, maker: WorktreeMaker | None = None) -> None:
        self.name, self.path, self.repo, self.use, self._maker = name, path, repo, use, maker
        self.branch = f"agent/{name}"
        self.message = ""
        self._lock_file, self._lock = Path(f"{path}.lock"), -1

    def use_folder(self, made: Path) -> None:
        """Use a folder that the maker made."""
        self.path = made
        self.message = f"In {made}, which a WorktreeCreate hook made."
        with suppress(WorktreeError):
            if branch := run_git(made, self.use, "branch", "--show-current"):
                self.branch = branch

    def lock(self) -> None:
        """Mark the worktree as in use until `release`; several processes may do this at the same time."""
        import fcntl

        self._lock = open_regular(self._lock_file, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _is_unused(self) -> bool:
        import fcntl

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self, env: Mapping[str, str]) -> list[str]:
        """Remove the worktree if it has no work of its own; return messages for the user."""
        try:
            if not (self.path / ".git").exists():
                return [f"{self.path}, which a WorktreeCreate hook made, stays: remove it when you have its changes."]
            commits, files = self._commits(), self._changed()
            if not commits and not files:
                if not self._is_unused():
                    return [f"The worktree {self.path} is in use by another session and stays."]
                self._remove(state_folder(env))
                return ["Removed the worktree: nothing was changed in it."]
        except (WorktreeError, GitError, OSError, UsageError) as error:
            return [f"The worktree {self.path} stays: {one_line(str(error))}"]
        finally:
            os.close(self._lock)
        return self._next_steps(commits, files)

    def discard(self, env: Mapping[str, str]) -> list[str]:
        """Remove the worktree with all its content; return error messages."""
        try:
            self._remove(state_folder(env))
        except (WorktreeError, GitError, OSError, UsageError) as error:
            return [f"The worktree {self.path} stays: {one_line(str(error))}"]
        finally:
            os.close(self._lock)
        return []

    def _next_steps(self, commits: int, files: list[str]) -> list[str]:
        path, branch = shlex.quote(str(self.path)), shlex.quote(self.branch)
        what = [counted(commits, "new commit")] if commits else []
        what += [f"{counted(len(files), 'file')} not committed ({shorten(', '.join(files), 60)})"] if files else []
        commit = f"git -C {path} add -A && git -C {path} commit" if files else ""
        return [
            f"The worktree {self.path} has {' and '.join(what)} on the branch {self.branch}.",
            *([f"  commit: {commit}"] if commit else []),
            f"  merge:  git merge {branch}",
            f"  remove: git worktree remove --force {path} && git branch -D {branch}",
        ]

    def _commits(self) -> int:
        """Count the commits that neither another branch nor the HEAD of the main worktree reaches.

        A pushed copy of this branch is not another branch: a user who returns expects to find the work here.
        """
        here = run_git(self.path, self.use, "rev-parse", "HEAD")
        there = run_git(self.repo, self.use, "rev-parse", "HEAD")
        has_branch = self.has_branch()
        tips = [here, *([f"refs/heads/{self.branch}"] if has_branch else [])]
        pushed = (f"--exclude=*/{self.branch}", "--remotes")
        others = ["--not", there, f"--exclude={self.branch}", "--branches", *pushed]
        return int(run_git(self.path, self.use, "rev-list", "--count", *tips, *others))

    def has_branch(self) -> bool:
        """Return True if its branch exists."""
        try:
            return bool(run_git(self.repo, self.use, "rev-parse", "--verify", "--quiet", f"refs/heads/{self.branch}"))
        except WorktreeError:
            return False

    def _changed(self) -> list[str]:
        """Return changed or new files that are not committed, except ignored ones and unchanged copies of our own."""
        listing = run_git(self.path, self.use, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        names = [entry[3:] for entry in listing.split("\0") if entry]
        changed = [name for name in names if not _same(self.path / name, self.repo / name)]
        # Git says nothing about the files of a submodule; one that was not initialized is an empty folder.
        staged = (row.partition("\t") for row in run_git(self.path, self.use, "ls-files", "-s", "-z").split("\0"))
        inner = [name for mode, _, name in staged if mode.startswith("160000 ")]
        return changed + [name for name in inner if _has_files(self.path / name)]

    def _remove(self, state: Path) -> None:
        has_branch = self._maker is None and self.has_branch()
        # Leave the folder first: it may be the working directory.
        os.chdir(self.repo)
        if self._maker is None or not self._maker.remove(self.path):
            run_git(self.repo, self.use, "worktree", "remove", "--force", str(self.path))
        if has_branch:
            run_git(self.repo, self.use, "branch", "-q", "-D", self.branch)
        with suppress(OSError):
            TrustStore(state).forget(self.path)
        with suppress(OSError):
            self._lock_file.unlink()
            self._lock_file.parent.rmdir()

    def copy_settings(self, trust: Trust, env: Mapping[str, str], *, lasting: bool = True) -> None:
        """Copy the project's untracked settings, such as .agentrc.local, into it; trust it if the project is trusted.

        trust: in the project. It is trusted if its files are exactly those that the user agreed to, or if a setting of
            the user trusts the project with any files.
        lasting: the trust is not only that of this command line.
        """
        theirs = fingerprints(self.repo) or {}
        local_files = [path.name for path in self.repo.glob("*.local.md")]
        for name in (theirs.keys() | set(local_files)) - {GIT}:
            source, target = self.repo / name, self.path / name
            if source.is_file() and not source.is_symlink() and not os.path.lexists(target):
                with suppress(OSError):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(read_regular(source, _MAX_FILE_BYTES))
        ours = fingerprints(self.path)
        # The git configuration is shared, and not part of the worktree's folder.
        same = ours is not None and ours == {name: mark for name, mark in theirs.items() if name != GIT or GIT in ours}
        by_setting = trust.by.startswith("the setting")
        if trust.trusted and lasting and ours is not None and (by_setting or same):
            grant_trust(self.path, state_folder(env), ours)


def run_git(folder: Path, use: Use, *words: str) -> str:
    """Run a git command that may change the repository; return its output. Raises WorktreeError."""
    try:
        run = git_to_read(folder, os.environ, use, locks=True)
        return os.fsdecode(
            run.run(*words, seconds=_SLOW_GIT_SECONDS if words[0] in _SLOW_COMMANDS else _GIT_SECONDS)
        ).strip("\n")
    except (NotUsableError, GitError) as error:
        raise WorktreeError(str(error)) from None


def enter_worktree(wanted: str, run_env: RunEnvironment, trusted: bool, maker: WorktreeMaker | None = None) -> Worktree:
    """Create or find the worktree, and change to the same subfolder in it. Raises UsageError.

    wanted: its name; "" for a new one with a name of ours.
    maker: may make it in git's place.
    trusted: the project is trusted. An untrusted project can have worktrees if its git folder configures nothing that
        runs; filters of the user's own configuration do not run for it.
    """
    name = wanted or f"w{os.urandom(3).hex()}"
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise UsageError(
            f"--worktree: {shorten(name, 60)} is not a valid name: use letters, digits, dots and dashes, 40 at most."
        )
    made = maker.create(name) if maker is not None else None
    if made is None and not os.path.exists(run_env.root / ".git"):  # noqa: PTH110
        raise UsageError(f"--worktree needs a git repository, and {run_env.root} is not one.")
    try:
        use: Use = "trusted" if trusted else "plain"
        repo = run_env.root if made is not None else _main_worktree(run_env, use)
        folder = SessionStore(state_folder(run_env.env), repo).folder
        path = folder.parent.parent / "worktrees" / folder.name / name
        worktree = Worktree(name, path, repo, use, maker if made is not None else None)
        private_folder(path.parent)
        worktree.lock()
        if made is not None:
            worktree.use_folder(made)
        else:
            _make(worktree)
    except NotUsableError as error:
        raise UsageError(f"--worktree: {one_line(str(error))}; see agent trust --show, and agent trust.") from None
    except (WorktreeError, GitError, OSError) as error:
        raise UsageError(f"--worktree: {one_line(str(error))}.") from None
    inside = worktree.path / run_env.cwd.relative_to(run_env.root)
    os.chdir(inside if inside.is_dir() else worktree.path)
    return worktree


def _main_worktree(run_env: RunEnvironment, use: Use) -> Path:
    """Return the folder of the repository's main worktree. Raises NotUsableError, WorktreeError."""
    checkout = usable(run_env.root, use).checkout
    if checkout is None:
        raise WorktreeError(f"{run_env.root} has a .git that git cannot use")
    common = Path(checkout.common)
    return common.parent if common.name == ".git" else run_env.root


def _make(worktree: Worktree) -> None:
    path, repo = worktree.path, worktree.repo
    if (path / ".git").exists():
        worktree.message = f"Back in the worktree {path}, branch {worktree.branch}."
        return
    old = worktree.has_branch()
    how = [str(path), worktree.branch] if old else ["-b", worktree.branch, str(path), "HEAD"]
    try:
        run_git(repo, worktree.use, "rev-parse", "--verify", "--quiet", "HEAD")
    except WorktreeError:
        raise WorktreeError(f"{repo} has no commit yet to start from: commit something first") from None
    try:
        run_git(repo, worktree.use, "worktree", "add", *how)
    except WorktreeError as error:
        if "already registered" not in str(error):
            raise
        # Its folder was deleted manually.
        run_git(repo, worktree.use, "worktree", "add", "--force", *how)
    changed = run_git(repo, worktree.use, "status", "--porcelain", "--untracked-files=no").splitlines()
    left = f" Uncommitted changes ({counted(len(changed), 'file')}) are not copied." if changed else ""
    if (path / ".gitmodules").is_file():
        left += " Its submodules are empty: git submodule update --init --recursive"
    worktree.message = (
        f"In the worktree {path}, {'old' if old else 'new'} branch {worktree.branch}.{left}{_filter_warning(worktree)}"
    )


def _filter_warning(worktree: Worktree) -> str:
    """Return a warning if files were checked out without the filters of the user's own configuration."""
    checkout = usable(worktree.path, worktree.use).checkout
    if worktree.use == "trusted" or checkout is None:
        return ""
    names = sorted({key.split(".", 1)[1].rpartition(".")[0] for key in settings_without_filters(checkout, os.environ)})
    with suppress(WorktreeError):  # a name that no pathspec can have
        for name in names:
            if run_git(worktree.path, worktree.use, "ls-files", "-z", f":(attr:filter={name})"):
                return f" The filter {name} did not run, as the project is not trusted (--trust lets it)."
    return ""


def _has_files(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return os.path.lexists(folder)


def _same(a: Path, b: Path) -> bool:
    """Return True if two files have the same content, and the first is a regular file."""
    try:
        return not a.is_symlink() and read_regular(a, _MAX_FILE_BYTES) == read_regular(b, _MAX_FILE_BYTES)
    except OSError:
        return False
