"""The state of the user's repository when a session begins, for the system prompt: changed files and last commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_cli.config.layers import Layers
from agent_cli.config.prompts import git_branch
from agent_cli.core.place import RunEnvironment
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls

if TYPE_CHECKING:
    import subprocess

with lazy_imports():
    from agent_cli.permissions import git_use
    from agent_tools.process import child, guarded_git

# For git to answer, together: a large repository must not delay the first request.
_SECONDS = 1.5
_LARGEST = 4 << 20
_FILES = 10
_COMMITS = 5
_WIDTH = 80


class RepositoryState:
    """Ask git in the background; `text` waits for it. Git runs only where the trust of the workspace allows it."""

    def __init__(self, place: RunEnvironment, layers: Layers) -> None:
        self._root = place.root
        self._running: list[subprocess.Popen[bytes]] = []
        if not (place.root / ".git").exists():
            return
        try:
            git = git_use.git_to_read(place.root, place.env, layers.trust.git_use)
            for words in (
                ("status", "--porcelain", "--no-renames", "--untracked-files=normal"),
                ("log", f"-{_COMMITS}", "--no-show-signature", "--format=%h %s"),
            ):
                self._running.append(git.start(*words))
        except (git_use.NotUsableError, guarded_git.GitError):
            self._stop()

    def text(self) -> str:
        """Return the lines about the repository; only its branch where git may not run, fails or is too slow."""
        branch = git_branch(self._root)
        if not (self._root / ".git").exists():
            return "Git repository: no"
        first = f"Git repository: {f'on {branch}' if branch else 'yes'}"
        try:
            status, log = [self._lines(process) for process in self._running]
        except ValueError:  # not started, or slow
            self._stop()
            return first
        if status is None:
            return f"{first} (its status could not be read)"
        # A session goes on long after this.
        lines = [f"{first}; when the session began (run git status for now): {_count(len(status))}", *_some(status)]
        if log:
            lines += ["Last commits then:", *log]
        return "\n".join(lines)

    def _lines(self, process: subprocess.Popen[bytes]) -> list[str] | None:
        """Return the lines of git's output, None if it failed. Raises ValueError if it did not come in time."""
        try:
            out, _ = child.collect(process, b"", _SECONDS, _LARGEST)
        except (TimeoutError, OverflowError, child.StuckError):
            raise ValueError from None
        if process.returncode:
            return None
        return [escape_controls(line)[:_WIDTH] for line in out.decode("utf-8", "replace").split("\n") if line]

    def _stop(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self._running = []


def _count(files: int) -> str:
    return "working tree clean" if not files else f"{files} changed file{'s' * (files > 1)}:"


def _some(status: Sequence[str]) -> list[str]:
    more = [f"... and {len(status) - _FILES} more"] if len(status) > _FILES else []
    return [*status[:_FILES], *more]
