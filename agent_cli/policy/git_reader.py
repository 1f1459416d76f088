"""Read what git knows of a repository, for the losses of a command, within a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from agent_cli.policy.git_use import NoRepositoryError, NotUsableError, Use, git_to_read
from agent_tools.fs.workspace import real_path
from agent_tools.process.guarded_git import GitError, GitRun
from agent_tools.record import Value

MAX_SECONDS = 0.3


class Changes(Value):
    """Uncommitted changes: the files, absolute, and how many lines were added and removed."""

    files: tuple[str, ...]
    added: int = 0
    removed: int = 0


class GitUnavailableError(OSError):
    """Git was not used or did not answer; the message says why."""


class GitReader:
    """Reads the repository at `root` within the remaining time.

    use: see `git_use`.
    """

    def __init__(self, root: str, env: Mapping[str, str], use: Use, seconds: float | None = None) -> None:
        self._env = env
        self.root = root
        self._use = use
        self._until = time.monotonic() + (MAX_SECONDS if seconds is None else seconds)
        self._run: GitRun | None = None

    @property
    def left(self) -> float:
        return self._until - time.monotonic()

    def ask(self, cwd: str, *words: str, literal: bool = True) -> str:
        """Return what git prints. Raises GitUnavailableError, and LookupError if git fails.

        literal: paths among the words are no patterns.
        """
        if not self._belongs(cwd):
            raise GitUnavailableError("because it is outside this repository")
        if self.left < 0.01:
            raise GitUnavailableError("in time")
        try:
            if self._run is None:
                self._run = git_to_read(Path(self.root), self._env, self._use)
            how = ["--literal-pathspecs"] if literal else []
            out = self._run.run(*how, *words, cwd=cwd, seconds=self.left)
        except NoRepositoryError:
            raise LookupError from None
        except NotUsableError as error:
            raise GitUnavailableError(f"because {error}") from None
        except GitError as error:
            if error.code:
                raise LookupError from None
            raise GitUnavailableError("in time") from None
        return out.decode("utf-8", "surrogateescape")

    def _belongs(self, cwd: str) -> bool:
        """Return True if a directory belongs to the repository and not to a nested one: trust is not inherited."""
        here = real_path(cwd)
        while here != self.root:
            if not here.startswith(f"{self.root.rstrip('/')}/") or os.path.lexists(os.path.join(here, ".git")):
                return False
            here = os.path.dirname(here)  # noqa: PTH120
        return True

    def changed(self, cwd: str, *words: str, literal: bool = True) -> Changes:
        """Return the changes of a `git diff`. Raises as `ask`."""
        text = self.ask(cwd, "diff", "--numstat", "-z", "--no-renames", *words, literal=literal)
        rows = [r.split("\t", 2) for r in text.split("\0") if r.count("\t") >= 2]
        added, removed = (sum(int(r[i]) for r in rows if r[i].isdigit()) for i in (0, 1))
        return Changes(tuple(os.path.join(self.root, r[2]) for r in rows), added, removed)
