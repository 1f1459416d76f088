"""`--patch FILE`: work in a disposable copy of the repository, and write the changes made there as a patch.

The copy is a git worktree that starts with the files as they are now, including uncommitted changes and new files, but
not ignored files. The user's own tree, index and branches are never written to, so an interrupted run needs no repair.
Working in place and undoing would not do: it cannot undo changes to ignored files, and a kill would leave it half done.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from agent_cli.git.worktree import WorktreeError, enter_worktree
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.policy.git_use import NotUsableError, Use, git_to_review
from agent_tools.process.git_tree import copy_index, store_tree
from agent_tools.process.guarded_git import GitError
from agent_tools.text import counted, one_line, shorten

_PREFIX = "patch-"
_GIT_SECONDS = 300.0
_PLAIN_DIFF = ("--binary", "--full-index", "--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
_MAX_LISTED_CHARS = 200


class PatchCopy:
    """A copy of the repository to work in. `finish` returns the patch, `worktree.discard` removes the copy."""

    def __init__(self, run_env: RunEnvironment, trusted: bool) -> None:
        """Make the copy and enter it. Raises UsageError."""
        if not os.path.exists(run_env.root / ".git"):  # noqa: PTH110
            raise UsageError(
                f"--patch works in a copy that git makes, and {run_env.root} is not a git repository: "
                "make it one (git init, and a first commit)."
            )
        try:
            self.worktree = enter_worktree(f"{_PREFIX}{os.urandom(4).hex()}", run_env, trusted)
        except UsageError as error:
            raise UsageError(str(error).replace("--worktree", "--patch", 1)) from None
        self._use: Use = self.worktree.use
        try:
            self._before = snapshot(run_env.root, self._use)
            # Check out the files, but unstage the changes.
            _git(self.path, self._use, "read-tree", "--reset", "-u", self._before)
            _git(self.path, self._use, "reset", "-q")
        except (WorktreeError, NotUsableError, GitError, OSError) as error:
            self.worktree.discard(run_env.env)
            raise UsageError(f"--patch: {one_line(str(error))}.") from None

    @property
    def path(self) -> Path:
        """The folder of the copy."""
        return self.worktree.path

    def notes(self, source: Path) -> list[str]:
        """Return notes for the user at the start of the run. source: the tree that was copied."""
        try:
            ignored = _ignored(source, self._use)
        except (WorktreeError, GitError, NotUsableError):
            ignored = []
        lines = [f"Working in a copy for the patch; {source} is not changed."]
        if ignored:
            lines.append(f"Not in the copy, as git ignores it: {shorten(', '.join(ignored), _MAX_LISTED_CHARS)}")
        return lines

    def finish(self) -> tuple[bytes, list[str]]:
        """Return the patch, and notes for the user about it. Raises UsageError."""
        try:
            after = snapshot(self.path, self._use)
            patch = _git(self.path, self._use, "diff", *_PLAIN_DIFF, self._before, after)
            names = _git(self.path, self._use, "diff", "--name-only", "-z", "--no-renames", self._before, after)
            ignored = _ignored(self.path, self._use)
        except (WorktreeError, NotUsableError, GitError, OSError) as error:
            raise UsageError(f"--patch: the changes could not be read: {one_line(str(error))}.") from None
        changed = [name for name in names.split(b"\0") if name]
        notes = [f"The patch has {counted(len(changed), 'file')}."]
        if ignored:
            notes.append(f"Not in the patch, as git ignores it: {shorten(', '.join(ignored), _MAX_LISTED_CHARS)}")
        return patch, notes


def snapshot(root: Path, use: Use) -> str:
    """Return the ID of a tree with the files as they are now, except ignored ones; the index is not written to.

    Submodules are in it as in the index, and other repositories inside are not. Its objects are added to the
    repository; git's garbage collection removes them. Raises GitError, NotUsableError, OSError.
    """
    git = git_to_review(root, os.environ, use, locks=True)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        with suppress(FileNotFoundError):
            copy_index(Path(git.env["GIT_DIR"]) / "index", index)
        return store_tree(git, index)


def _ignored(root: Path, use: Use) -> list[str]:
    """Return the ignored files and folders of a work tree."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    found: list[str] = []
    for name in sorted(os.fsdecode(name) for name in _git(root, use, *words).split(b"\0") if name):
        # A folder with its own ignore file is listed together with its content.
        if not (found and found[-1].endswith("/") and name.startswith(found[-1])):
            found.append(name)
    return found


def _git(root: Path, use: Use, *words: str) -> bytes:
    """Run git, if the repository's trust allows it. Raises NotUsableError, GitError."""
    return git_to_review(root, os.environ, use, locks=True).run(*words, seconds=_GIT_SECONDS)
