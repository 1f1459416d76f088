"""Run the tasks of an evaluation, several at a time, until all have run or a signal ends it.

For each run the task's repository is copied, `agent -p` works in the copy, and then its work is checked. Each run is a
separate process, with the user's settings and keys, and with a state folder that is removed afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent_cli import SessionNotFoundError, UsageError
from agent_cli.extras.evaluation.processes import EvaluationStoppedError, JobThreads, ProcessPool
from agent_cli.extras.evaluation.results import AgentReport, TaskRun, Verdict
from agent_cli.extras.evaluation.steps import AgentTurn, CheckEnd, SandboxMaker, TaskSteps, describe_turn_failure
from agent_cli.extras.evaluation.tasks import EvaluationTask
from agent_cli.kernel.runtime.models import share_keys
from agent_cli.kernel.runtime.tools import tool_definitions
from agent_cli.kernel.session.export import document
from agent_tools.fs.safe_files import write_atomic
from agent_tools.process.child import on_stop_signals
from agent_tools.process.git_tree import store_tree
from agent_tools.process.guarded_git import GitError, GitRun, fetching_git, find_git, store_git
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten


class Evaluation:
    """Runs tasks under each variant, `repeat` times. caught: the signal that ended it; 0 for none."""

    def __init__(self, tasks: Sequence[EvaluationTask], variants: Sequence[Variant], repeat: int) -> None:
        self._tasks, self._variants, self._repeat = tasks, variants, repeat
        self._pool = ProcessPool()
        self.caught = 0

    def run(self, options: EvaluationOptions, jobs: int, ended: Callable[[TaskRun, int, int], None]) -> list[TaskRun]:
        """Run everything, at most `jobs` at a time; return the results in the order of the tasks.

        ended: called with each result, the number of results so far, and the number of all runs.
        Raises UsageError if a repository cannot be made.
        """
        try:
            folder = Path(tempfile.mkdtemp(prefix="agent-eval-")).resolve()
        except OSError as error:
            raise UsageError(f"There is no folder for temporary files: {error.strerror}.") from None
        try:
            with on_stop_signals(self._on_signal):
                return self._run(self._plan(folder, options), TaskRunner(options, self._pool), jobs, ended)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _plan(self, folder: Path, options: EvaluationOptions) -> list[PlannedRun]:
        """Create the repositories, and return the planned runs: task by task, with all variants of each."""
        plan: list[PlannedRun] = []
        for task in self._tasks:
            base = folder / "base" / task.name
            if not self.caught:
                make_base(task, base, options.env)
            for attempt in range(1, self._repeat + 1):
                for variant in self._variants:
                    run_folder = folder / f"{task.name}-{len(plan) + 1}"
                    plan.append(PlannedRun(task=task, variant=variant, attempt=attempt, base=base, folder=run_folder))
        return plan

    def _run(
        self,
        plan: list[PlannedRun],
        runner: TaskRunner,
        jobs: int,
        ended: Callable[[TaskRun, int, int], None],
    ) -> list[TaskRun]:
        def work(number: int) -> TaskRun:
            return runner.run(plan[number])

        threads = JobThreads(work)
        waiting = deque(range(len(plan)))
        found: dict[int, TaskRun] = {}
        while True:
            while waiting and threads.running < jobs and not self._pool.is_stopping():
                threads.start(waiting.popleft())
            if not threads.running:
                return [found[number] for number in sorted(found)]
            try:
                item = threads.next()
            except BaseException:
                self._pool.stop()
                raise
            if item is not None:
                found[item[0]] = item[1]
                ended(item[1], len(found), len(plan))

    def _on_signal(self, number: int) -> None:
        self.caught = self.caught or number
        self._pool.stop()


_FETCH_SECONDS = 900.0
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "agent eval"), ("EMAIL", "eval@localhost"), ("DATE", "2026-01-01T00:00:00Z"))
}
# So that the model can commit, whatever the user's configuration demands.
_LOCAL_CONFIG = {"user.name": "agent eval", "user.email": "eval@localhost", "commit.gpgsign": "false"}


def make_base(task: EvaluationTask, folder: Path, env: Mapping[str, str]) -> None:
    """Make the repository of a task in a new folder: its files in one commit, or one commit of its repository.

    Of a repository that git fetches, later commits and remotes are not there for the model to find. Raises UsageError.
    """
    try:
        folder.mkdir(parents=True)
        program = find_git(env.get("PATH", os.defpath), str(folder))
        git = store_git(program, str(folder / ".git"))
        git.run("init", "-q", "-b", "main")
        for key, value in _LOCAL_CONFIG.items():
            git.run("config", key, value)
        if task.fetched:
            _fetch(task, program, folder, env)
        else:
            _commit(task, git, folder)
    except (OSError, shutil.Error, GitError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The repository of the task {task.name} cannot be made: {reason.rstrip('.')}.") from None


def _commit(task: EvaluationTask, git: GitRun, folder: Path) -> None:
    if task.repo:
        left_out = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(task.repo, folder, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    tree = store_tree(git.on_work_tree(str(folder)), folder / ".git/index")
    commit = git.run("commit-tree", tree, "-m", "Start", env=_AUTHOR).decode().strip()
    git.run("update-ref", "HEAD", commit)


def _fetch(task: EvaluationTask, program: str, folder: Path, env: Mapping[str, str]) -> None:
    """Fetch one commit, with the user's configuration and logins."""
    git = fetching_git(program, str(folder / ".git"), env).on_work_tree(str(folder))
    git = git.with_settings({"transfer.fsckObjects": "false"})  # the user's own history, however old
    try:
        git.run("fetch", "-q", "--depth", "1", "--", task.repo, task.commit, seconds=_FETCH_SECONDS)
        git.run("reset", "-q", "--hard", "FETCH_HEAD", seconds=_FETCH_SECONDS)
    except GitError as error:
        where = f"{task.repo} at {task.commit}"
        raise GitError(f"{where}: {error} (a commit is named by a branch, a tag or its whole hash)") from None


RESULT_VARIABLE = "AGENT_EVAL_RESULT"
TRANSCRIPT_VARIABLE = "AGENT_EVAL_TRANSCRIPT"
TASK_VARIABLE = "AGENT_EVAL_TASK"


class Variant(Value):
    """A model with settings, to compare with others.

    settings: their name; "" for none.
    argv: the options for both.
    """

    model: str
    settings: str
    argv: tuple[str, ...]


class EvaluationOptions(Value):
    """The options that all runs have in common.

    argv: options of each run.
    sandbox: makes the sandbox for checks; None for none.
    timeout: seconds for a turn, instead of the task's own limit; 0 for that of the task.
    budget: the options of all runs limit their cost, whatever a task says.
    keep: where to move the work trees and transcripts of runs that did not pass; None to remove them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    sandbox: SandboxMaker | None
    timeout: float = 0.0
    budget: bool = False
    keep: Path | None = None


class PlannedRun(Value):
    """A planned run.

    base: the repository to copy.
    folder: a folder for this run alone, which does not exist yet.
    """

    task: EvaluationTask
    variant: Variant
    attempt: int
    base: Path
    folder: Path


class TaskRunner:
    """Runs tasks, from any number of threads."""

    def __init__(self, options: EvaluationOptions, pool: ProcessPool) -> None:
        self._options = options
        self._pool = pool

    def run(self, planned: PlannedRun) -> TaskRun:
        """Run a task and return its result. Its folder is removed, or moved to the folder to keep."""
        run = _OneRun(planned, self._options, self._pool)
        try:
            done = run.run()
            if self._options.keep is not None and done.verdict != "passed" and planned.folder.is_dir():
                done = done.replace(kept=self._keep(planned, self._options.keep))
        finally:
            shutil.rmtree(planned.folder, ignore_errors=True)
        return done

    def _keep(self, planned: PlannedRun, folder: Path) -> str:
        """Move the folder of a run, with its trajectory, to the folder to keep; return the new path."""
        target = folder / planned.folder.name
        log = next(planned.folder.glob("state/sessions/*/*.jsonl"), None)
        try:
            if log is not None:
                text = document(log, "atif", tool_definitions)
                write_atomic(planned.folder / "result" / "trajectory.json", text.encode())
            shutil.move(planned.folder, target)
        except (OSError, shutil.Error, SessionNotFoundError):
            return ""
        return str(target)


class _OneRun:
    def __init__(self, planned: PlannedRun, options: EvaluationOptions, pool: ProcessPool) -> None:
        self._planned, self._task = planned, planned.task
        self._options, self._pool = options, pool
        self._steps = TaskSteps(planned.folder, options.env, pool)
        self._turn: AgentTurn | None = None

    def run(self) -> TaskRun:
        steps, task = self._steps, self._task
        try:
            steps.result.mkdir(parents=True)
            shutil.copytree(self._planned.base, steps.work, symlinks=True)
            if why := steps.set_up(task.setup, task.check_timeout):
                return self._make_result("error", why)
            state = self._planned.folder / "state"
            share_keys(self._options.env, state)
            self._turn = steps.take_turn(self._flags(), task.prompt, self._seconds, AGENT_STATE_DIR=str(state))
            if self._pool.is_stopping():
                return self._make_result("interrupted", "interrupted")
            if why := steps.startup_error(self._turn):
                return self._make_result("error", why)
            check = self._check()
        except EvaluationStoppedError:
            return self._make_result("interrupted", "interrupted")
        except (OSError, shutil.Error, ToolError) as error:
            return self._make_result("error", str(getattr(error, "strerror", None) or error))
        if self._pool.is_stopping() and check.why:
            return self._make_result("interrupted", "interrupted")
        before = describe_turn_failure(self._turn, self._seconds) if check.code is not None else ""
        why = f"{before}; {check.why}" if before and check.why else check.why
        return self._make_result("failed" if check.why else "passed", why)

    @property
    def _seconds(self) -> float:
        return self._options.timeout or self._task.timeout

    def _flags(self) -> list[str]:
        argv = []
        if self._task.settings:
            argv += ["--settings", json.dumps(self._task.settings, default=str)]
        argv += [*self._options.argv, *self._planned.variant.argv]
        if self._task.max_cost and not self._options.budget:
            argv += ["--max-budget-usd", f"{self._task.max_cost:g}"]
        return argv

    def _check(self) -> CheckEnd:
        steps, task = self._steps, self._task
        names = {RESULT_VARIABLE: steps.answer, TRANSCRIPT_VARIABLE: steps.transcript, TASK_VARIABLE: task.name}
        maker = self._options.sandbox if task.check_sandbox else None
        sandbox = maker(steps.work, (task.folder, steps.result)) if maker is not None else None
        variables = {name: str(value) for name, value in names.items()}
        return steps.check(task.check, task.check_timeout, variables, sandbox)

    def _make_result(self, verdict: Verdict, why: str) -> TaskRun:
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
