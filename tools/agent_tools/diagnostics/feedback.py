"""Report to the model the problems that its edits introduce, as found by checkers and language servers.

Each checker has a thread that works through the edited files, checking the latest text of each. What it finds within a
moment is added to the result of the edit, the rest to the next round. Nothing here makes an edit fail.
"""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, TypeVar

from agent_tools.base import ToolContext, ToolError, ToolState
from agent_tools.diagnostics.checkers import (
    KNOWN,
    SYNTAX,
    CheckerRow,
    ServerRow,
    arguments,
    find_marker,
    leaves_out,
    may_run_code,
    rule_arguments,
)
from agent_tools.diagnostics.parsers import Problem, new_problems, problem_lines
from agent_tools.diagnostics.programs import FoundProgram, find_programs, first_permitted
from agent_tools.diagnostics.source import (
    CheckFailedError,
    Launcher,
    ServerNotStartedError,
    Source,
    make_launcher,
)
from agent_tools.edit.change import Change
from agent_tools.fs.paths import compile_glob
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted, shorten

with lazy_imports():
    from agent_tools.diagnostics import commands, language_server

R = TypeVar("R")

MAX_CHARS = 1_000_000
# Failures in a row after which a checker is not run again.
_MAX_FAILURES = 2
_POLL_SECONDS = 0.02
_CLOSE_SECONDS = 3.0


class _FileState:
    """One checker's state of a file.

    text: the text checked last.
    problems: its problems; None if unknown.
    latest: the latest text, to be checked next.
    owner: context of the latest edit.
    """

    def __init__(self, text: str, owner: ToolContext) -> None:
        self.text, self.latest, self.owner = text, text, owner
        self.problems: list[Problem] | None = None if text else []


class _UnreportedProblems:
    """Problems that were found and not yet reported.

    before: the text and problems of the file as of the check before.
    """

    def __init__(self, path: Path, file: _FileState, problems: Sequence[Problem]) -> None:
        self.path, self.file, self.owner, self.problems = path, file, file.owner, problems
        self.before = file.text, file.problems


class _ServerJob:
    """A question to a language server, which its thread asks. error: why there is no result."""

    def __init__(self, run: Callable[[language_server.LanguageServer], Any]) -> None:
        self.run = run
        self.done = Event()
        self.result: Any = None
        self.error: Exception | None = None


class _Worker:
    """The thread of one checker."""

    def __init__(self, state: EditDiagnostics, name: str) -> None:
        self.state, self.name = state, name
        self.source: Source
        self.pending: dict[Path, _FileState] = {}
        self.files: dict[Path, _FileState] = {}
        self.jobs: deque[_ServerJob] = deque()
        self.failures = 0
        # It took longer than an edit waits, so the next edits do not wait for it.
        self.slow = False
        self.began: dict[Path, float] = {}
        self.thread: Thread | None = None

    def submit(self, path: Path, change: Change, ctx: ToolContext) -> None:
        """Queue a changed file. The caller holds the lock."""
        known = self.files.get(path)
        if known is None or known.latest != change.old:
            known = self.files[path] = _FileState(change.old, ctx)
        # Unreported problems belong to the text before this edit; the next check finds those that remain.
        for late in [found for found in self.state.unreported if found.file is known]:
            self.state.unreported.remove(late)
            known.text, known.problems = late.before
        known.latest, known.owner = change.new, ctx
        self.pending[path] = known
        self.began[path] = monotonic()
        self.start()

    def start(self) -> None:
        """Start the thread, if it does not run. The caller holds the lock."""
        if self.thread is None:
            self.thread = Thread(target=self._work, name=f"diagnostics-{self.name}", daemon=True)
            self.thread.start()

    def _work(self) -> None:
        state = self.state
        try:
            while True:
                with state.changed:
                    while not (self.pending or self.jobs or state.closing or self.source.is_running):
                        state.changed.wait()
                    if state.closing:
                        return
                    asked = self.jobs.popleft() if self.jobs else None
                    job = next(iter(self.pending.items()), None)
                    latest = job[1].latest if job else ""
                if asked is not None:
                    self._ask(asked)
                elif job is None:
                    self.source.listen()
                else:
                    self._check(*job, latest)
        finally:
            self.source.close()
            for left in self.jobs:
                left.error = CheckFailedError("was ended")
                left.done.set()

    def _ask(self, job: _ServerJob) -> None:
        assert isinstance(self.source, language_server.LanguageServer)
        try:
            job.result = job.run(self.source)
            self.failures = 0
        except language_server.NoAnswerError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001 - the thread must survive
            job.error = error
            self.failures = _MAX_FAILURES if isinstance(error, ServerNotStartedError) else self.failures + 1
        job.done.set()

    def _check(self, path: Path, file: _FileState, latest: str) -> None:
        state, failed = self.state, ""
        found: list[Problem] = []
        try:
            if file.problems is None and self.source.checks_any_text:
                file.problems = self.source.problems(path, file.text)
            found = self.source.problems(path, latest)
        except ServerNotStartedError:
            # From now on, use the next of its group.
            self.failures = _MAX_FAILURES
            failed = "does not start"
        except CheckFailedError as error:
            failed = str(error)
        except Exception as error:  # noqa: BLE001 - the thread must survive
            failed = f"could not be used: {error!r}"
        with state.changed:
            if self.files.get(path) is not file or file.latest != latest:
                # Edited again meanwhile: the new text is pending.
                return
            self.pending.pop(path, None)
            if failed:
                self._record_failure(failed, file)
            else:
                self.failures = 0
                self.slow = monotonic() - self.began[path] > state.wait
                if problems := new_problems(file.problems, file.text, found, latest):
                    state.unreported.append(_UnreportedProblems(path, file, problems))
                file.text, file.problems = latest, found
            state.changed.notify_all()

    def _record_failure(self, why: str, file: _FileState) -> None:
        self.failures += 1
        if self.failures == _MAX_FAILURES and not self.state.closing:
            why = shorten(why, 300)
            self.state.notes.append(
                (file.owner, f"[diagnostics: {self.name} {why}. It will not run again in this session.]")
            )
        if self.failures >= _MAX_FAILURES:
            self.pending.clear()


class EditDiagnostics(ToolState):
    """The checkers and language servers of a conversation and its sub-agents."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.closing = False
        self.wait = 2.0
        self.unreported: list[_UnreportedProblems] = []
        self.notes: list[tuple[ToolContext, str]] = []
        # Changes that are checked after the last edit of the answer, each with the context of its call.
        self._held: list[tuple[Change, ToolContext]] = []
        self._workers: dict[tuple[str, ...], _Worker] = {}
        self._found: dict[str, tuple[FoundProgram, ...]] = {}

    def report(self, changes: Sequence[Change], ctx: ToolContext) -> str:
        """Check the changed files; return the new problems found in time, or "".

        The files of several edits of one answer are checked after the last: the next edit may mend what one breaks.
        """
        with self.changed:
            self._held += [(change, ctx.owner) for change in changes]
        if ctx.edits_follow:
            return ""
        several = len(self._held) > len(changes)
        since = "since these edits" if several else "since this edit"
        return "".join(f"\n{line}" for line in self._check_held(ctx, since))

    def notices(self, ctx: ToolContext, *, root: bool) -> list[str]:
        """Return the problems found too late for the result of the edit, as one note."""
        if any(root or owner is ctx for _, owner in self._held):  # the last edit of the answer was not made
            self._check_held(ctx, "")
        lines = self._take_lines(ctx, None, "since your last edit", root=root)
        return ["\n".join(lines)] if lines else []

    def ask(self, path: Path, run: Callable[[language_server.LanguageServer], R], ctx: ToolContext) -> R:
        """Run a job with the language server of a file, on the thread of that server, and return its result.

        A server that does not start is left out from then on, and the next one is asked. Raises ToolError, and
        CancelledError when the turn is interrupted.
        """
        failed = ""
        while (worker := next(self._servers_for(path, ctx), None)) is not None:
            job = _ServerJob(run)
            with self.changed:
                worker.jobs.append(job)
                worker.start()
                self.changed.notify_all()
            worker.source.wake()
            while not job.done.is_set():
                ctx.cancel.check()
                ctx.cancel.wait(_POLL_SECONDS)
            if job.error is None:
                result: R = job.result
                return result
            if isinstance(job.error, ToolError):
                raise job.error
            failed = f"The language server {worker.name} {job.error}."
            if not isinstance(job.error, ServerNotStartedError):
                break
        name = ctx.workspace.spell(path)
        raise ToolError(
            (failed or f"No language server that may run here is installed for {name}.")
            + ctx.workspace.advice("Grep", "Use {} instead.")
        )

    def has_server(self, path: Path, ctx: ToolContext) -> bool:
        """Return True if a language server for this file is installed and may run without asking."""
        return next(self._servers_for(path, ctx), None) is not None

    def _servers_for(self, path: Path, ctx: ToolContext) -> Iterator[_Worker]:
        return self._workers_for(path, ctx, ctx.settings.get("diagnostics") or {}, servers=True)

    def _check_held(self, ctx: ToolContext, since: str) -> list[str]:
        """Check what was edited since the last check; return the new problems found in time, if `since` is given."""
        settings = ctx.settings.get("diagnostics") or {}
        self.wait = settings.get("wait", self.wait)
        with self.changed:
            held, self._held = self._held, []
        merged: dict[Path, tuple[Change, ToolContext]] = {}
        for change, owner in held:
            before = merged.get(change.path)
            whole = change if before is None else change.replace(before=before[0].before, old=before[0].old)
            merged[change.path] = whole, owner
        paths = set()
        for change, owner in merged.values():
            if change.after is None or change.old == change.new or len(change.new) > MAX_CHARS:
                continue
            if not any(change.path.is_relative_to(root) for root in ctx.workspace.roots):
                continue
            for worker in self._workers_for(change.path, ctx, settings):
                with self.changed:
                    worker.submit(change.path, change, owner)
                    self.changed.notify_all()
                worker.source.wake()
                paths.add(change.path)
        if not paths:
            return []
        until = monotonic() + self.wait
        while self._is_pending(paths) and monotonic() < until and not ctx.cancel.cancelled:
            ctx.cancel.wait(_POLL_SECONDS)
        with self.changed:
            for worker in self._workers.values():
                worker.slow = worker.slow or bool(paths & worker.pending.keys())
        return self._take_lines(ctx, paths, since) if since else []

    def _is_pending(self, paths: set[Path]) -> bool:
        with self.changed:
            return any(not w.slow and paths & w.pending.keys() for w in self._workers.values())

    def _take_lines(self, ctx: ToolContext, paths: set[Path] | None, since: str, *, root: bool = False) -> list[str]:
        """Return the unreported problems of these files or all, as lines; each is returned once."""
        by_file: dict[Path, list[Problem]] = {}
        with self.changed:
            mine = [u for u in self.unreported if (u.path in paths if paths is not None else root or u.owner is ctx)]
            for unreported in mine:
                self.unreported.remove(unreported)
                by_file.setdefault(unreported.path, []).extend(unreported.problems)
            notes = [note for owner, note in self.notes if root or owner is ctx]
            self.notes = [n for n in self.notes if n[1] not in notes]
        lines = []
        for path, problems in by_file.items():
            name = ctx.workspace.spell(path)
            found = problem_lines(name, problems)
            thing = counted(len({(p.line, p.message) for p in problems}), "new problem")
            lines += [f"[diagnostics: {thing} in {shorten(name, 300)} {since}:]", *found]
        return [*lines, *notes]

    def _workers_for(
        self, path: Path, ctx: ToolContext, settings: dict[str, Any], *, servers: bool = False
    ) -> Iterator[_Worker]:
        """Yield the usable workers for a file, at most one of each group: installed, permitted and not failing.

        servers: only language servers.
        """
        own = _configured_servers(settings, path, ctx)
        groups = set()
        for row in (*own, *KNOWN):
            if servers and not isinstance(row, ServerRow):
                continue
            if path.suffix not in row.suffixes or row.group in groups or row.name in settings.get("skip", ()):
                continue
            if leaves_out(row, path, ctx.workspace.root):
                continue
            programs = self._programs(row.name, ctx)
            marker = find_marker(row, path, ctx.workspace.root) if programs and row.markers else None
            if not programs or (row.markers and marker is None):
                continue
            trusted = row in own or not may_run_code(row, ctx.workspace.root)
            program = first_permitted(programs, rule_arguments(row, path), ctx, trusted=trusted)
            if program is None:
                continue
            worker = self._worker(row, program, marker, ctx)
            if worker is not None and worker.failures < _MAX_FAILURES:
                groups.add(row.group)
                yield worker
        if (
            not groups
            and not servers
            and path.suffix in SYNTAX.suffixes
            and SYNTAX.name not in settings.get("skip", ())
        ):
            worker = self._worker(SYNTAX, FoundProgram(sys.executable, ()), None, ctx) if sys.executable else None
            if worker is not None and worker.failures < _MAX_FAILURES:
                yield worker

    def _programs(self, name: str, ctx: ToolContext) -> tuple[FoundProgram, ...]:
        if name not in self._found:
            self._found[name] = find_programs(name, ctx)
        return self._found[name]

    def _worker(
        self, row: CheckerRow | ServerRow, program: FoundProgram, marker: Path | None, ctx: ToolContext
    ) -> _Worker | None:
        key = (row.name, program.path, str(marker or ""))
        if key not in self._workers:
            argv = (program.path, *(() if isinstance(row, CheckerRow) else row.args))
            try:
                launcher = Launcher(argv, {}, None) if row is SYNTAX else make_launcher(argv, ctx)
            except (ToolError, OSError):
                return None
            worker = _Worker(self, row.name)
            root = ctx.workspace.root
            stopped = lambda: self.closing  # noqa: E731
            if isinstance(row, CheckerRow):
                command_line = partial(arguments, row, marker=marker, root=root)
                worker.source = commands.CheckerCommand(row, launcher, command_line, stopped)
            else:
                folder = marker.parent if marker is not None and row.at_marker else root
                worker.source = language_server.LanguageServer(row.name, launcher, folder, stopped)
            self._workers[key] = worker
        return self._workers[key]

    def close(self) -> None:
        """End all checkers and servers. Returns within seconds."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        for worker in self._workers.values():
            worker.source.wake()
        until = monotonic() + _CLOSE_SECONDS
        for worker in self._workers.values():
            if worker.thread is not None:
                worker.thread.join(max(0.0, until - monotonic()))


def without_headings(report: str) -> str:
    """Return the lines of a report for the user: each problem names its file."""
    lines = report.strip().split("\n")
    return "\n".join(line for line in lines if not (line.startswith("[diagnostics: ") and line.endswith(":]")))


def _configured_servers(settings: dict[str, Any], path: Path, ctx: ToolContext) -> tuple[ServerRow, ...]:
    """Return the servers in the user's settings whose glob matches a file."""
    found = []
    inside = path.relative_to(ctx.workspace.root).as_posix() if path.is_relative_to(ctx.workspace.root) else str(path)
    for pattern, command in (settings.get("servers") or {}).items():
        try:
            words = shlex.split(command)
            fits = compile_glob(pattern).match(inside)
        except (ToolError, ValueError):
            continue
        if fits and words:
            found.append(ServerRow(words[0], f"own {words[0]}", (path.suffix,), tuple(words[1:])))
    return tuple(found)
