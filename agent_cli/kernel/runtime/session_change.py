"""What a resumed session is told of changes since it was left: files, branch, commits, date, memory, the user, jobs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.config.prompts import git_branch
from agent_cli.kernel.messages import ToolMessage, UserMessage
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session.pending_plans import exact_seconds_of
from agent_cli.kernel.session.records import Header, Restored
from agent_cli.knowledge.memory import Memory
from agent_cli.policy import git_use
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.read_state import KnownVersion
from agent_tools.fs.safe_files import NotRegularFileError, read_regular
from agent_tools.process import guarded_git
from agent_tools.text import escape_controls, one_line

_USER_PRESENT = "The user is present from here on: you may ask if a wrong guess would be costly."
_USER_ABSENT = (
    "Nobody can answer from here on: this runs unattended. Do not ask; take the sensible reading, say which one, and "
    "finish the task. A call that needs approval is denied: continue without it and name it at the end."
)
_JOBS_LOST = "The program was left and started again, which ended the background commands"
_GIT_SECONDS = 1.5
_MAX_COMMITS = 8
_MAX_FILES = 20
_MAX_FILE_BYTES = 50_000_000
_MAX_LINE_CHARS = 80
_BREAK = "The session continues after a break."
_TELLS = re.compile(rf"{_BREAK}|^<session_change>\n# Environment\n")


def notes(
    header: Header, restored: Restored, memory: Memory, run_env: RunEnvironment, layers: Layers, *, answered: bool
) -> list[str]:
    """Return the messages that a resumed session begins with.

    answered: somebody can answer questions.
    """
    return [
        *_changed_memory(header, memory, restored),
        *_changed_presence(header, restored, answered=answered),
        *_lost_jobs(restored),
        *_changed_workspace(header, restored, run_env, layers),
    ]


class _Told:
    """What the model was last told of the workspace: by the system prompt, or by a later message of this kind."""

    def __init__(self, header: Header, restored: Restored) -> None:
        self.texts = [m.text for m in restored.history if isinstance(m, UserMessage) and _TELLS.search(m.text)]
        self._every = (*reversed(self.texts), header.system)

    def _last(self, pattern: str) -> str:
        found = (re.search(pattern, text, re.MULTILINE) for text in self._every)
        return next((match[1] for match in found if match), "")

    @property
    def date(self) -> str:
        return self._last(r"^Date: (\d{4}-\d\d-\d\d)$")

    @property
    def branch(self) -> str:
        return self._last(r"^(?:Git repository: on|Branch:) (detached at \w+|[^\s;]+)")

    @property
    def commit(self) -> str:
        return self._last(r"^Last commits?(?: then)?:\s([0-9a-f]{7,40}) ")


def _changed_workspace(header: Header, restored: Restored, run_env: RunEnvironment, layers: Layers) -> list[str]:
    """Return a message about the date, the branch, new commits, and files that changed since the model saw them."""
    told = _Told(header, restored)
    if header.small or not restored.history:
        return []
    lines = []
    if restored.header.root != header.root:
        lines.append(f"The project's folder is {header.root} now; it was {restored.header.root}.")
    today, branch = time.strftime("%Y-%m-%d"), git_branch(run_env.root)
    if told.date and today != told.date:
        lines.append(f"Date: {today}")
    if branch and told.branch and branch != told.branch:
        lines.append(f"Branch: {branch} (it was {told.branch})")
    lines += _new_commits(told.commit, run_env, layers)
    changed = list(_changed_files(restored, str(run_env.root), told.texts))
    if changed:
        named = ", ".join(changed[:_MAX_FILES])
        more = f" and {len(changed) - _MAX_FILES} more" if len(changed) > _MAX_FILES else ""
        lines.append(f"Changed since you saw them: {named}{more}. Read them again before you rely on them.")
    return [f"<session_change>\n{_BREAK}\n" + "\n".join(lines) + "\n</session_change>"] if lines else []


def _new_commits(last: str, run_env: RunEnvironment, layers: Layers) -> list[str]:
    """Return lines about the commits since the last one that the model knows."""
    if not last or not (run_env.root / ".git").exists():
        return []
    log = ("log", f"-{_MAX_COMMITS + 1}", "--no-show-signature", "--format=%h %s")
    try:
        git = git_use.git_to_read(run_env.root, run_env.env, layers.trust.git_use)
        head = git.run("rev-parse", "HEAD", seconds=_GIT_SECONDS).decode("ascii", "replace").strip()
        if head.startswith(last):
            return []
        try:
            found = _lines(git.run(*log, f"{last}..HEAD", seconds=_GIT_SECONDS))
        except guarded_git.GitError:
            found = []  # the commit is gone
        newest = _lines(git.run("log", "-1", "--no-show-signature", "--format=%h %s", seconds=_GIT_SECONDS))
    except (git_use.NotUsableError, git_use.NoRepositoryError, guarded_git.GitError):
        return []
    first = [f"Last commit: {newest[0]}"] if newest else []
    if not found:
        return [*first, f"{last}, the last commit before, is not in its history, or HEAD is before it"]
    more = [f"... and more since {last}"] if len(found) > _MAX_COMMITS else [f"new since {last}"]
    return [*first, *(f"  {line}" for line in found[1:_MAX_COMMITS]), *more]


def _lines(out: bytes) -> list[str]:
    return [escape_controls(line)[:_MAX_LINE_CHARS] for line in out.decode("utf-8", "replace").split("\n") if line]


def _changed_files(restored: Restored, root: str, told: Sequence[str]) -> Iterator[str]:
    """Yield the files that the model saw and that were changed, or removed, after the last record of the session.

    A file that took the place of another one may be older, so the time of the change of its entry counts once as well.
    """
    left = exact_seconds_of(restored.updated) if restored.updated else 0.0
    for path, mark in restored.seen.items():
        shown = one_line(os.path.relpath(path, root) if _below(path, root) else path)
        try:
            info = Path(path).stat()
            known = any(re.search(rf"(?<!\S){re.escape(shown)}(?![^\s,.])", text) for text in told)
            changed = info.st_mtime >= left or (info.st_ctime >= left and not known)
            data = read_regular(path, _MAX_FILE_BYTES) if changed else None
        except (FileNotFoundError, NotADirectoryError, NotRegularFileError):
            if not any(f"{shown} (removed)" in text for text in told):
                yield f"{shown} (removed)"
            continue
        except OSError:
            continue
        if data is not None and fingerprint(data) != KnownVersion.from_mark(mark).version:
            yield shown


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _changed_memory(header: Header, memory: Memory, restored: Restored) -> list[str]:
    """Return a message for a resumed session about memory files that changed since; it is sent once."""
    block = memory.block()
    if not block or block in header.system:
        return []
    if any(isinstance(m, UserMessage) and block in m.text for m in restored.history):
        return []
    text = "The memory files changed since this session began. They now say:"
    return [f"<memory_change>\n{text}\n\n{block}\n</memory_change>"]


def _changed_presence(header: Header, restored: Restored, *, answered: bool) -> list[str]:
    """Return a message for a resumed session if a user is now present, or no longer is."""
    if header.small:
        return []
    before = header.answered
    for message in restored.history:
        if isinstance(message, UserMessage) and (_USER_PRESENT in message.text or _USER_ABSENT in message.text):
            before = _USER_PRESENT in message.text
    if answered == before:
        return []
    return [f"<session_change>\n{_USER_PRESENT if answered else _USER_ABSENT}\n</session_change>"]


# Not compiled before a session is resumed.
_JOB_STARTED = (
    r"(?m)^\[(b\d+) runs in the background|^\[still running after .{1,20}, now in the background as (b\d+)"
    r"|^\[.*; what it left running .{0,400}is now (b\d+) in the background"
)
_JOB_ENDED = r"(?m)^\[(?:Background command )?(b\d+)(?:: (?!running)| \(| was stopped| had already ended)"


def _lost_jobs(restored: Restored) -> list[str]:
    """Return a message for a resumed session if background commands ended unseen, with the program; it is sent once."""
    left: dict[str, None] = {}
    for message in restored.history:
        if isinstance(message, UserMessage) and _JOBS_LOST in message.text:
            left.clear()
        elif isinstance(message, UserMessage | ToolMessage):
            for found in re.finditer(_JOB_STARTED, message.text):
                left[found[found.lastindex or 1]] = None
            for found in re.finditer(_JOB_ENDED, message.text):
                left.pop(found[1], None)
    return [f"<session_change>\n{_JOBS_LOST} {', '.join(left)}.\n</session_change>"] if left else []
