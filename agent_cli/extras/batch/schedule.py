"""Schedule the tasks of a batch: choose the next one within the budget, and the ones to retry."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent_cli.extras.batch.host import TaskHost, TaskResult, WorkOrder
from agent_cli.extras.batch.results import BatchProgress, ResultsFile, result_to_json
from agent_cli.extras.batch.tasks import BatchTask
from agent_cli.extras.evaluation.processes import GRACE_SECONDS, JobThreads
from agent_tools.process.child import on_stop_signals
from agent_tools.process.guarded_git import GitError
from agent_tools.record import Value

_POLL_SECONDS = 1.0
_STOP_SECONDS = GRACE_SECONDS + 5.0
_RETRY_PAUSE_SECONDS = 2.0


class BatchRunner(Protocol):
    """Runs tasks somewhere."""

    @property
    def running(self) -> int:
        """The number of tasks that `next` has not returned."""

    def slots(self) -> int:
        """Return how many tasks may run at the same time."""

    def start(self, order: WorkOrder) -> None:
        """Start a task."""

    def next(self, seconds: float) -> TaskResult | None:
        """Return the result of a task that has ended; None if none has within `seconds`."""

    def stop(self) -> None:
        """Interrupt all tasks; if called again, kill them. Safe in a signal handler."""


class LocalRunner:
    """Runs tasks on this machine."""

    def __init__(self, host: TaskHost, jobs: int) -> None:
        self._host, self._jobs = host, jobs
        self._threads = JobThreads(host.run)

    @property
    def running(self) -> int:
        return self._threads.running

    def slots(self) -> int:
        return self._jobs

    def start(self, order: WorkOrder) -> None:
        self._threads.start(order)

    def next(self, seconds: float) -> TaskResult | None:
        item = self._threads.next(seconds)
        return item[1] if item is not None else None

    def stop(self) -> None:
        self._host.stop()


class BatchOptions(Value):
    """The options that all tasks have in common.

    flags: options of `agent -p`, before those of the task.
    mode: of tasks that name none; "" for that of the settings.
    budget: dollars for all tasks, including those of earlier runs; None for no limit.
    retries: how often a task is retried if its host or provider failed.
    model: maps the name of a model.
    """

    flags: tuple[str, ...]
    mode: str
    budget: float | None
    retries: int
    model: Callable[[str], str]


class Batch:
    """Runs the tasks of a batch.

    caught: the signal that ended it; 0 for none.
    out_of_budget: some tasks could not be started.
    """

    def __init__(
        self,
        tasks: Sequence[BatchTask],
        orders: dict[str, WorkOrder],
        options: BatchOptions,
        file: ResultsFile,
        progress: BatchProgress,
    ) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._orders, self._options, self._file, self._progress = orders, options, file, progress
        self._spent = 0.0
        self._attempts: dict[str, int] = {}
        # Dollars of attempts before the last one.
        self._earlier_cost: dict[str, float] = {}
        self._running: set[str] = set()
        # How long to wait for running tasks after a signal: git may be in the middle of a long clone.
        self._deadline = 0.0
        self.caught = 0
        self.out_of_budget = False

    def run(self, runner: BatchRunner, dropped: dict[str, dict[str, Any]]) -> None:
        """Run all tasks that have no line in the file. dropped: lines of earlier attempts. Raises UsageError."""
        for name, line in dropped.items():
            self._earlier_cost[name] = line.get("cost_usd") or 0.0
        lines = self._file.lines
        self._spent = sum(lines[name].get("cost_usd") or 0.0 for name in self._tasks if name in lines)
        self._spent += sum(self._earlier_cost.values())

        def on_signal(number: int) -> None:
            self._deadline = time.monotonic() + (_RETRY_PAUSE_SECONDS if self.caught else _STOP_SECONDS)
            self.caught = self.caught or number
            runner.stop()

        with on_stop_signals(on_signal):
            waiting = deque(task for name, task in self._tasks.items() if name not in lines)
            self._run(runner, waiting)
            for name in [name for name in self._running if name not in lines]:
                self._record_end(self._tasks[name], TaskResult(id=name, status="interrupted", error="interrupted"))
            for task in waiting:
                why = f"not started: {self._why_not_started()}"
                self._record_end(task, TaskResult(id=task.id, status="skipped", error=why), shown=False)
            self._file.finish(self._tasks)

    def _run(self, runner: BatchRunner, waiting: deque[BatchTask]) -> None:
        reported = False
        try:
            while True:
                while waiting and runner.running < runner.slots() and self._may_start():
                    task = waiting.popleft()
                    self._attempts[task.id] = self._attempts.get(task.id, 0) + 1
                    self._progress.report_start(task.id)
                    self._running.add(task.id)
                    runner.start(self._complete_order(task))
                if not runner.running or (self.caught and time.monotonic() > self._deadline):
                    return
                result = runner.next(_POLL_SECONDS)
                self._progress.tick(self._spent)
                if result is None:
                    if self.caught and not reported:
                        reported = True
                        self._progress.say("Interrupting the tasks; Ctrl-C again stops at once.")
                    continue
                self._running.discard(result.id)
                if self._should_retry(result):
                    waiting.append(self._tasks[result.id])
                else:
                    self._record_end(self._tasks[result.id], result)
        except BaseException:
            runner.stop()
            raise

    def _why_not_started(self) -> str:
        if self.out_of_budget:
            return "the budget of the batch is spent"
        return "the batch was interrupted" if self.caught else "the scheduler was lost"

    def _may_start(self) -> bool:
        if self._options.budget is not None and self._spent >= self._options.budget:
            self.out_of_budget = True
        return not self.caught and not self.out_of_budget

    def _complete_order(self, task: BatchTask) -> WorkOrder:
        """Return the order with all flags; those of the task come last, so that they take precedence."""
        options = self._options
        flags = list(options.flags)
        if task.settings:
            flags.append(f"--settings={json.dumps(task.settings)}")
        if task.model:
            flags.append(f"--model={options.model(task.model)}")
        if mode := task.mode or options.mode:
            flags.append(f"--permission-mode={mode}")
        if task.turns:
            flags.append(f"--max-turns={task.turns}")
        costs = [task.cost] if task.cost else []
        if options.budget is not None:
            costs.append(options.budget - self._spent)
        if costs:
            # Never rounded to 0.
            flags.append(f"--max-budget-usd={max(min(costs), 1e-9):.9f}")
        return self._orders[task.id].replace(flags=tuple(flags))

    def _should_retry(self, result: TaskResult) -> bool:
        """Return True if a task should be retried; then count its cost."""
        if not result.retryable or self.caught or self._attempts[result.id] > self._options.retries:
            return False
        self._count(result)
        self._earlier_cost[result.id] = self._earlier_cost.get(result.id, 0.0) + result.report.cost
        self._progress.report_retry(result.id, result.error)
        return True

    def _count(self, result: TaskResult) -> None:
        self._spent += result.report.cost

    def _record_end(self, task: BatchTask, result: TaskResult, *, shown: bool = True) -> None:
        self._count(result)
        over = self._options.budget is not None and self._spent >= self._options.budget
        if result.outcome == "limit" and over and not (task.cost and result.report.cost >= task.cost):
            # With a larger budget it would continue.
            result = result.replace(status="interrupted", error="the budget of the batch is spent")
            self.out_of_budget = True
        line = result_to_json(task, result, self._attempts.get(task.id, 0), self._earlier_cost.get(task.id, 0.0))
        self._file.add(line, result.patch)
        self._progress.report_end(line, shown=shown)


def make_orders(
    tasks: Sequence[BatchTask], host: TaskHost, *, shipped: bool
) -> tuple[dict[str, WorkOrder], dict[int, str]]:
    """Return an order for each task, and an error for each line whose repository cannot be used.

    shipped: other machines run the tasks, so local repositories are sent along.
    """
    orders: dict[str, WorkOrder] = {}
    wrong: dict[int, str] = {}
    trusted: dict[str, dict[str, str]] = {}
    for task in tasks:
        try:
            order = _order_of(task, host, shipped=shipped)
            if task.kind == "git" and not shipped:
                if task.source not in trusted:
                    trusted[task.source] = host.trusted_files(task.source)
                order = order.replace(trusted=trusted[task.source])
            orders[task.id] = order
        except (GitError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            wrong[task.line] = f"{task.source}: {reason}".removesuffix(".")
    return orders, wrong


def _order_of(task: BatchTask, host: TaskHost, *, shipped: bool) -> WorkOrder:
    sources = host.sources
    fetched, source, commit, bundle = task.kind == "url", task.source, task.revision, (b"", b"")
    if not fetched:
        bare = sources.of_repository(source) if task.kind == "git" else sources.of_folder(source)
        source, commit = str(bare), sources.commit(bare, task.revision)
        bundle = sources.bundle(bare, commit) if shipped else bundle
    return WorkOrder(
        id=task.id,
        prompt=task.prompt,
        source=Path(source).name if shipped and not fetched else source,
        commit=commit,
        flags=(),
        fetched=fetched,
        bundle=bundle[0],
        shallow=bundle[1],
        subfolder=task.subfolder,
        setup=task.setup,
        check=task.check,
        check_sandbox=task.check_sandbox,
        check_seconds=task.check_timeout,
        seconds=task.seconds,
    )
