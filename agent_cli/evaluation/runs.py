"""Run one task once: copy its repository, let `agent -p` work in it, and check what it did.

Each run is a process of its own, with the user's settings and keys, and with a state folder that goes when it is over.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from agent_cli.evaluation.processes import EvaluationStoppedError, ProcessEnd, ProcessPool
from agent_cli.evaluation.results import AgentReport, TaskRun, Verdict, read_report
from agent_cli.evaluation.tasks import EvaluationTask
from agent_cli.evaluation.worktrees import copy_base
from agent_cli.runtime.tools import tool_definitions
from agent_cli.session.export import document
from agent_cli.session.records import SessionNotFoundError
from agent_tools.fs.safe_files import read_regular, write_whole
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import shorten

_LARGEST_OUTPUT = 64 << 20
RESULT_VARIABLE = "AGENT_EVAL_RESULT"
TRANSCRIPT_VARIABLE = "AGENT_EVAL_TRANSCRIPT"
TASK_VARIABLE = "AGENT_EVAL_TASK"
# Makes the sandbox for a check: of a work tree, with folders that may be read.
SandboxMaker = Callable[[Path, tuple[Path, ...]], SandboxRunner | None]


class Variant(Value):
    """What is compared: a model under settings. argv: the flags that say so; settings: their name, "" for none."""

    model: str
    settings: str
    argv: tuple[str, ...]


class RunTerms(Value):
    """What all runs have in common.

    argv: flags of each run.
    timeout: seconds for a turn, instead of the task's own; 0: as the task says.
    budget: the flags of all runs limit their cost, whatever a task says.
    keep: where work trees and transcripts of runs go that did not pass.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    sandbox: SandboxMaker
    timeout: float = 0.0
    budget: bool = False
    keep: Path | None = None


class PlannedRun(Value):
    """A run to come. base: the repository to copy; room: a folder for it alone, which is not there yet."""

    task: EvaluationTask
    variant: Variant
    attempt: int
    base: Path
    room: Path


class TaskRunner:
    """Runs tasks, from any number of threads."""

    def __init__(self, terms: RunTerms, pool: ProcessPool) -> None:
        self._terms = terms
        self._pool = pool

    def run(self, planned: PlannedRun) -> TaskRun:
        """Run a task and return its result. Its folder is removed, or moved to where it is kept."""
        run = _OneRun(planned, self._terms, self._pool)
        try:
            done = run.run()
            if self._terms.keep is not None and done.verdict != "passed" and planned.room.is_dir():
                done = done.replace(kept=self._keep(planned, self._terms.keep))
        finally:
            shutil.rmtree(planned.room, ignore_errors=True)
        return done

    def _keep(self, planned: PlannedRun, folder: Path) -> str:
        """Move the folder of a run to where it is kept, with its trajectory; return where that is."""
        target = folder / planned.room.name
        log = next(planned.room.glob("state/sessions/*/*.jsonl"), None)
        try:
            if log is not None:
                text = document(log, "atif", tool_definitions)
                write_whole(planned.room / "result" / "trajectory.json", text.encode())
            shutil.move(planned.room, target)
        except (OSError, shutil.Error, SessionNotFoundError):
            return ""
        return str(target)


class _OneRun:
    def __init__(self, planned: PlannedRun, terms: RunTerms, pool: ProcessPool) -> None:
        self._planned, self._task = planned, planned.task
        self._terms, self._pool = terms, pool
        self._room = planned.room
        self._work = planned.room / "work"
        self._result = planned.room / "result"
        self._transcript = self._result / "transcript.jsonl"
        self._env = {**terms.env, "AGENT_STATE_DIR": str(planned.room / "state")}
        self._seconds = 0.0
        self._report = AgentReport()
        self._outcome = ""

    def run(self) -> TaskRun:
        try:
            self._result.mkdir(parents=True)
            copy_base(self._planned.base, self._work)
            if why := self._set_up():
                return self._ended("error", why)
            end = self._work_on_it()
            if self._pool.is_stopping():
                return self._ended("interrupted", "interrupted")
            if why := self._not_started(end):
                return self._ended("error", why)
            passed, why = self._check()
        except EvaluationStoppedError:
            return self._ended("interrupted", "interrupted")
        except (OSError, shutil.Error, ToolError) as error:
            return self._ended("error", str(getattr(error, "strerror", None) or error))
        if self._pool.is_stopping() and not passed:
            return self._ended("interrupted", "interrupted")
        return self._ended("passed" if passed else "failed", why)

    def _set_up(self) -> str:
        """Run the setup of the task; return why it failed."""
        if not self._task.setup:
            return ""
        out = self._result / "setup.txt"
        command = ("bash", "-c", self._task.setup)
        end = self._pool.run(command, self._work, self._terms.env, self._task.check_timeout, out=out)
        if end.timed_out:
            return f"the setup took more than {self._task.check_timeout:g} s"
        return f"the setup failed: {_last_line(out) or f'exit {end.code}'}" if end.code else ""

    def _work_on_it(self) -> ProcessEnd:
        """Let the agent take its turn, and note what it says of itself."""
        seconds = self._terms.timeout or self._task.timeout
        started = time.monotonic()
        end = self._pool.run(
            self._argv(),
            self._work,
            self._env,
            seconds,
            feed=self._task.prompt.encode(),
            out=self._transcript,
            err=self._result / "stderr.txt",
        )
        self._seconds = time.monotonic() - started
        self._report = read_report(self._transcript)
        self._outcome = "timeout" if end.timed_out else self._report.outcome or f"exit {end.code}"
        write_whole(self._answer, self._report.answer.encode("utf-8", "replace"))
        return end

    def _argv(self) -> list[str]:
        argv = [sys.executable, "-P", "-m", "agent_cli", "-p", "--output-format", "stream-json"]
        if self._task.settings:
            argv += ["--settings", json.dumps(self._task.settings, default=str)]
        argv += [*self._terms.argv, *self._planned.variant.argv]
        if self._task.max_cost and not self._terms.budget:
            argv += ["--max-budget-usd", f"{self._task.max_cost:g}"]
        return argv

    def _not_started(self, end: ProcessEnd) -> str:
        """Return why the agent could not begin; "" if it did."""
        if end.timed_out or end.code != 2:
            return ""
        return _last_line(self._result / "stderr.txt").removeprefix("agent: ") or "the agent could not start"

    @property
    def _answer(self) -> Path:
        return self._result / "answer.txt"

    def _check(self) -> tuple[bool, str]:
        """Run the check; return whether it passed, and why not."""
        out = self._result / "check.txt"
        names = {RESULT_VARIABLE: self._answer, TRANSCRIPT_VARIABLE: self._transcript, TASK_VARIABLE: self._task.name}
        # It may run what the model wrote.
        env = without_secrets(self._terms.env) | {name: str(value) for name, value in names.items()}
        argv, seconds = list(self._task.check), self._task.check_timeout
        readable = (self._task.folder, self._result)
        sandbox = self._terms.sandbox(self._work, readable) if self._task.check_sandbox else None
        if sandbox is None:
            end = self._pool.run(argv, self._work, env, seconds, out=out)
            code = end.code
        else:
            try:
                with sandbox.prepare(argv, self._work, env, network=False) as wrapped:
                    run = wrapped.argv, self._work, wrapped.env, seconds
                    end = self._pool.run(*run, out=out, pass_fds=wrapped.pass_fds)
                    code = wrapped.code(end.code)
            finally:
                sandbox.close()
        if end.timed_out:
            return False, f"the check took more than {seconds:g} s"
        if code == 0:
            return True, ""
        return False, self._why_failed(_last_line(out) or f"the check failed with exit code {code}")

    def _why_failed(self, said: str) -> str:
        """Return what the check said, after what went wrong before it."""
        words = {
            "timeout": f"took more than {self._terms.timeout or self._task.timeout:g} s",
            "limit": "a limit ended it",
        }
        if self._outcome in ("done", ""):
            return said
        before = words.get(self._outcome, "") or shorten(next(iter(self._report.errors), self._outcome), 160)
        return f"{before}; {said}"

    def _ended(self, verdict: Verdict, why: str) -> TaskRun:
        planned = self._planned
        return TaskRun(
            task=planned.task.name,
            model=planned.variant.model or self._report.model,
            settings=planned.variant.settings,
            attempt=planned.attempt,
            verdict=verdict,
            outcome=self._outcome,
            reason=shorten(why, 300) if why else "",
            seconds=self._seconds,
            report=self._report,
        )


def _last_line(path: Path) -> str:
    """Return the last line of output that is not empty; "" for none."""
    with suppress(OSError):
        text = read_regular(path, _LARGEST_OUTPUT).decode("utf-8", "replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return ""
