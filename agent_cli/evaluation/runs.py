"""Run one task once: copy its repository, let `agent -p` work in it, and check what it did.

Each run is a process of its own, with the user's settings and keys, and with a state folder that goes when it is over.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from agent_cli.evaluation.processes import EvaluationStoppedError, ProcessPool
from agent_cli.evaluation.results import AgentReport, TaskRun, Verdict
from agent_cli.evaluation.steps import AgentTurn, CheckEnd, SandboxMaker, TaskSteps, why_turn_failed
from agent_cli.evaluation.tasks import EvaluationTask
from agent_cli.evaluation.worktrees import copy_base
from agent_cli.runtime.tools import tool_definitions
from agent_cli.session.export import document
from agent_cli.session.records import SessionNotFoundError
from agent_tools.fs.safe_files import write_whole
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten

RESULT_VARIABLE = "AGENT_EVAL_RESULT"
TRANSCRIPT_VARIABLE = "AGENT_EVAL_TRANSCRIPT"
TASK_VARIABLE = "AGENT_EVAL_TASK"


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
    sandbox: SandboxMaker | None
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
        self._steps = TaskSteps(planned.room, terms.env, pool)
        self._turn: AgentTurn | None = None

    def run(self) -> TaskRun:
        steps, task = self._steps, self._task
        try:
            steps.result.mkdir(parents=True)
            copy_base(self._planned.base, steps.work)
            if why := steps.set_up(task.setup, task.check_timeout):
                return self._ended("error", why)
            state = str(self._planned.room / "state")
            self._turn = steps.take_turn(self._flags(), task.prompt, self._seconds, AGENT_STATE_DIR=state)
            if self._pool.is_stopping():
                return self._ended("interrupted", "interrupted")
            if why := steps.not_started(self._turn):
                return self._ended("error", why)
            check = self._check()
        except EvaluationStoppedError:
            return self._ended("interrupted", "interrupted")
        except (OSError, shutil.Error, ToolError) as error:
            return self._ended("error", str(getattr(error, "strerror", None) or error))
        if self._pool.is_stopping() and check.why:
            return self._ended("interrupted", "interrupted")
        before = why_turn_failed(self._turn, self._seconds) if check.code is not None else ""
        why = f"{before}; {check.why}" if before and check.why else check.why
        return self._ended("failed" if check.why else "passed", why)

    @property
    def _seconds(self) -> float:
        return self._terms.timeout or self._task.timeout

    def _flags(self) -> list[str]:
        argv = []
        if self._task.settings:
            argv += ["--settings", json.dumps(self._task.settings, default=str)]
        argv += [*self._terms.argv, *self._planned.variant.argv]
        if self._task.max_cost and not self._terms.budget:
            argv += ["--max-budget-usd", f"{self._task.max_cost:g}"]
        return argv

    def _check(self) -> CheckEnd:
        steps, task = self._steps, self._task
        names = {RESULT_VARIABLE: steps.answer, TRANSCRIPT_VARIABLE: steps.transcript, TASK_VARIABLE: task.name}
        maker = self._terms.sandbox if task.check_sandbox else None
        sandbox = maker(steps.work, (task.folder, steps.result)) if maker is not None else None
        variables = {name: str(value) for name, value in names.items()}
        return steps.check(task.check, task.check_timeout, variables, sandbox)

    def _ended(self, verdict: Verdict, why: str) -> TaskRun:
        planned, turn = self._planned, self._turn
        report = turn.report if turn is not None else AgentReport()
        return TaskRun(
            task=planned.task.name,
            model=planned.variant.model or report.model,
            settings=planned.variant.settings,
            attempt=planned.attempt,
            verdict=verdict,
            outcome=turn.outcome if turn is not None else "",
            reason=shorten(why, 300) if why else "",
            seconds=turn.seconds if turn is not None else 0.0,
            report=report,
        )
