"""How things stand for the model: date, branch, commits, changed files, model and permission mode.

The system prompt describes them when a session begins. From then on, a `<session_change>` tells what is different: one
message before the user's next one, or before the next request of a turn. What the model did itself is not news to it.
Sub-agents get the state of the moment in which they start, and a compaction restates it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.config.prompts import default_branch, git_head
from agent_cli.kernel.modes import Mode
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import escape_controls

with lazy_imports():
    from agent_cli.policy import git_use
    from agent_tools.process import child, guarded_git

# For git to answer, together: a large repository must not delay a request.
_GIT_SECONDS = 1.5
_MAX_OUTPUT_BYTES = 4 << 20
_MAX_STATUS_LINES = 10
_MAX_COMMITS = 5
_MAX_NEW_COMMITS = 8
_MAX_FILES = 20
_MAX_LINE_CHARS = 80
_LOG = ("--no-show-signature", "--format=%h %s")
_MODE_WORDS: dict[Mode, tuple[str, str]] = {
    "default": (
        "reading is free; the user approves changes and most commands",
        "reading is free; changes and most commands are denied unless a rule allows them",
    ),
    "acceptEdits": (
        "edits in the workspace are made at once; the user approves most commands",
        "edits in the workspace are made; most commands are denied unless a rule allows them",
    ),
    "plan": ("nothing is changed until the user approves a plan",) * 2,
    "dontAsk": ("reading is free; everything else is denied unless a rule allows it",) * 2,
    "bypassPermissions": ("nothing needs approval but what rules and protected paths demand",) * 2,
}
_NAME = "# Environment\n"
_NO_REPOSITORY = "There is no git repository."
MODE_AT_START = "The permission mode at the start is "
# Also as earlier versions wrote it.
_DATE = r"^(?:Date: |Today is )(\d{4}-\d\d-\d\d)\.?$"


def describe_mode(mode: Mode, *, answered: bool) -> str:
    """Return a permission mode as the model reads it. answered: somebody can approve calls."""
    return f"{mode}: {_MODE_WORDS[mode][not answered]}"


class Standing(Value):
    """What the model knows; "" for what it was never told."""

    date: str = ""
    branch: str = ""
    commit: str = ""
    model: str = ""
    mode: str = ""


class Environment:
    """How things stand, and what the model was last told of that.

    git: returns git for reading the user's repository; raises as `git_use.git_to_read`.
    answered: somebody can approve calls.
    small: the model is small, and gets only what is pending.
    pending: lines for the next message, such as those of a resumed session; `files` follow all others.
    block: the environment, if a message has it and the system prompt does not.
    """

    def __init__(self, root: Path, git: Callable[[], guarded_git.GitRun], *, answered: bool, small: bool) -> None:
        self.root, self._git = root, git
        self._answered, self._small = answered, small
        self.pending: list[str] = []
        self.block = ""
        self.files: list[str] = []
        self._head = git_head(root)
        self._news = False
        self.told = Standing(time.strftime("%Y-%m-%d"), *self._head)

    def begin(self, model: str, mode: Mode, block: str = "") -> None:
        """Note what the system prompt of a new session tells, or else its first message."""
        self.block = block
        self.pending += [block] if block else []
        self.told = self.told.replace(model=model, mode=mode)

    def resume(self, texts: Sequence[str]) -> None:
        """Note what earlier messages told, the newest first, the system prompt last."""

        def last(pattern: str) -> str:
            found = (re.search(pattern, text, re.MULTILINE) for text in texts)
            return next((match[1] for match in found if match), "")

        self.told = Standing(
            last(_DATE),
            last(
                r"^(?:(?:Git repository: |The git repository is )on|Branch:)"
                r" (detached at \w+|[^\s;]+?)(?=\.?(?:[\s;]|$))"
            ),
            last(r"^(?:Last commits?(?: then)?|The last commits (?:then were|are)):\s([0-9a-f]{7,40}) "),
            last(r"^(?:Model:|The model is now|The model is) (.+?)\.?$"),
            last(r"^(?:Permission mode[^:\n]*:|The permission mode at the start is) (\w+)"),
        )
        self._news = True
        if not environment_of(texts[-1]):
            self.block = next(filter(None, map(environment_of, texts)), "").partition("\n</session_change>")[0]

    def look(self) -> None:
        """Notice a branch or commit that others have changed."""
        if (head := git_head(self.root)) != self._head:
            self._head, self._news = head, True

    def observe(self) -> tuple[str, ...]:
        """Note the branch and commit after a call of the model, which is no news to it.

        Return the commits before and after it if they differ.
        """
        before, self._head = self._head[1], git_head(self.root)
        if not self._news:
            self.told = self.told.replace(branch=self._head[0], commit=self._head[1])
        return (before, self._head[1]) if before != self._head[1] else ()

    def changes(
        self, model: str = "", mode: Mode | None = None, changed: Callable[[], Sequence[str]] = tuple
    ) -> list[str]:
        """Return the message about what is different since the model was last told; [] if nothing is.

        model: the one that the user has chosen; "" within a turn.
        changed: returns the files that the model has seen and that have changed since.
        """
        self.look()
        lines, files = self.pending, self.files
        self.pending, self.files = [], []
        if not self._small:
            known = self.told
            lines += self._news_since(model, mode)
            if not files and (known.branch, known.commit[:7]) != (self.told.branch, self.told.commit[:7]):
                files = changed_line(changed())
        lines += files
        return ["<session_change>\n" + "\n".join(lines) + "\n</session_change>"] if lines else []

    def _news_since(self, model: str, mode: Mode | None) -> list[str]:
        told, (branch, commit), today = self.told, self._head, time.strftime("%Y-%m-%d")
        lines = []
        if model and told.date and today != told.date:
            lines.append(f"Date: {today}")
            told = told.replace(date=today)
        if self._news:
            lines += self._repository_changes()
            told = told.replace(branch=branch or told.branch, commit=commit or told.commit)
            self._news = False
        if model and model != told.model:
            lines += [f"The model is now {model}."] if told.model else []
            told = told.replace(model=model)
        # Plan mode has a message of its own.
        if mode is not None and mode not in ("plan", told.mode):
            lines += [f"Permission mode now: {describe_mode(mode, answered=self._answered)}"] if told.mode else []
            told = told.replace(mode=mode)
        self.told = told
        return lines

    def _repository_changes(self) -> list[str]:
        """Return lines about the branch and the commits since those that the model knows, and changed files."""
        told, (branch, commit) = self.told, self._head
        lines = [f"Branch: {branch} (it was {told.branch})"] if branch and told.branch not in ("", branch) else []
        if told.commit and not commit.startswith(told.commit) and not told.commit.startswith(commit or " "):
            lines += self._new_commits(told.commit)
        if lines:
            first, *files = self._state(("status",))
            _, found, count = first.partition(". ")
            lines += [count, *files] if found else []
        return lines

    def _new_commits(self, last: str) -> list[str]:
        try:
            git = self._git()
            try:
                found = _lines(git.run("log", f"-{_MAX_NEW_COMMITS + 1}", *_LOG, f"{last}..HEAD", seconds=_GIT_SECONDS))
            except guarded_git.GitError:
                found = []  # the commit is gone
            newest = _lines(git.run("log", "-1", *_LOG, seconds=_GIT_SECONDS))
        except (git_use.NotUsableError, guarded_git.GitError):
            return []
        if newest and newest[0].startswith(last[:7]):
            return []
        first = [f"Last commit: {newest[0]}"] if newest else []
        if not found:
            return [*first, f"{last[:7]}, the last commit before, is not in its history, or HEAD is before it"]
        more = [f"... and more since {last[:7]}"] if len(found) > _MAX_NEW_COMMITS else [f"new since {last[:7]}"]
        return [*first, *(f"  {line}" for line in found[1:_MAX_NEW_COMMITS]), *more]

    def _state(self, parts: Sequence[str] = ("status", "log")) -> list[str]:
        if not (self.root / ".git").exists():
            return [_NO_REPOSITORY]
        state = RepositoryState(self.root, self._git, parts)
        return state.text(then=False).split("\n")

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the branch or the commit is another one than the model was told."""
        told, (branch, commit) = self.told, self._head
        return told.branch not in ("", branch) or (told.commit != "" and not commit.startswith(told.commit))

    def committed_texts(self, path: str) -> Iterator[str]:
        """Yield the text that a file has in the commit of which the model was told."""
        if self.told.commit:
            with suppress(git_use.NotUsableError, guarded_git.GitError, UnicodeDecodeError):
                found = self._git().run("cat-file", "blob", f"{self.told.commit}:{path}", seconds=_GIT_SECONDS)
                yield found.decode()

    def now(self, mode: Mode, changed: Sequence[str]) -> str:
        """Return how things stand now, for what replaces the beginning of a conversation. changed: as for `changes`."""
        if self.block:
            return "\n".join([self.for_subagent("", mode), *changed_line(changed)])
        lines = [f"Date: {time.strftime('%Y-%m-%d')}", *self._state()]
        lines.append(f"Permission mode now: {describe_mode(mode, answered=self._answered)}")
        return "\n".join([*lines, *changed_line(changed)])

    def for_subagent(self, system: str, mode: Mode) -> str:
        """Return the environment of a system prompt as things stand now."""
        text = environment_of(system) or self.block
        if not text or self._small:
            return text
        state = (
            r"(?ms)^(?:Git repository: |The git repository is |There is (?:a|no) git repository)"
            r".*?(?=^System: |^The system is )"
        )
        text = re.sub(state, lambda _: "\n".join([*self._state(), ""]), text, count=1)
        now = f"The permission mode is {describe_mode(mode, answered=self._answered)}"
        text = re.sub(rf"(?m)^(?:Permission mode at the start: |{MODE_AT_START}).*$", lambda _: now, text, count=1)
        return re.sub(rf"(?m){_DATE}", f"Today is {time.strftime('%Y-%m-%d')}.", text, count=1)


def changed_line(names: Sequence[str], rest: str = "Read them again before you rely on them.") -> list[str]:
    """Return the line about files that changed since the model saw them; [] for none."""
    more = f" and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
    return [f"Changed since you saw them: {', '.join(names[:_MAX_FILES])}{more}. {rest}"] if names else []


def environment_of(system: str) -> str:
    """Return the environment block of a system prompt, and what follows it."""
    _, found, rest = system.partition(_NAME)
    return f"{_NAME}{rest}" if found else ""


class RepositoryState:
    """Ask git in the background; `text` waits for it. Git runs only where the trust of the workspace allows it."""

    def __init__(
        self, root: Path, git: Callable[[], guarded_git.GitRun], parts: Sequence[str] = ("status", "log")
    ) -> None:
        self._root = root
        self._running: dict[str, child.BriefChild] = {}
        if not (root / ".git").exists():
            return
        words: Mapping[str, tuple[str, ...]] = {
            "status": ("--porcelain", "--no-renames", "--untracked-files=normal"),
            "log": (f"-{_MAX_COMMITS}", *_LOG),
        }
        try:
            run = git()
            for part in parts:
                self._running[part] = run.start_brief(part, *words[part])
        except (git_use.NotUsableError, guarded_git.GitError):
            self._stop()

    def text(self, *, then: bool) -> str:
        """Return the lines about the repository; only its branch where git may not run, fails or is too slow.

        then: they are read long after this, in the system prompt.
        """
        branch = git_head(self._root)[0]
        if not (self._root / ".git").exists():
            return _NO_REPOSITORY
        default = default_branch(self._root)
        beside = f" (its default branch is {default})" if default not in ("", branch) else ""
        first = f"The git repository is on {branch}{beside}" if branch else "There is a git repository"
        if not self._running:
            return f"{first}."
        try:
            found = {part: self._lines(process) for part, process in self._running.items()}
        except ValueError:  # slow
            self._stop()
            return f"{first}."
        status, log = found["status"], found.get("log")
        if status is None:
            return f"{first} (its status could not be read)."
        lines = [f"{first}. {_count(len(status), then=then)}", *_some(status)]
        if log:
            lines += [f"The last commits {'then were' if then else 'are'}:", *log]
        return "\n".join(lines)

    def _lines(self, process: child.BriefChild) -> list[str] | None:
        """Return the lines of git's output, None if it failed. Raises ValueError if it did not come in time."""
        try:
            out, _ = child.collect(process, b"", _GIT_SECONDS, _MAX_OUTPUT_BYTES)
        except (TimeoutError, OverflowError, child.StuckError):
            raise ValueError from None
        return None if process.returncode else _lines(out)

    def _stop(self) -> None:
        for process in self._running.values():
            if process.returncode is None:
                child.read_until_exit(process, b"", 0, _MAX_OUTPUT_BYTES)
        self._running = {}


def _lines(out: bytes) -> list[str]:
    return [escape_controls(line)[:_MAX_LINE_CHARS] for line in out.decode("utf-8", "replace").split("\n") if line]


def _count(files: int, *, then: bool) -> str:
    """Say how many files are changed. then: when the session began."""
    changed = f"{files} changed file{'s' * (files > 1)}" if files else ""
    if not then:
        return f"It has {changed}:" if files else "Its working tree is clean."
    said = f"it had {changed}" if files else "its working tree was clean"
    return f"When the session began, {said} (git status shows it now){':' if files else '.'}"


def _some(status: Sequence[str]) -> list[str]:
    more = [f"... and {len(status) - _MAX_STATUS_LINES} more"] if len(status) > _MAX_STATUS_LINES else []
    return [*status[:_MAX_STATUS_LINES], *more]
