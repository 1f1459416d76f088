"""Run the tasks of an evaluation, several at a time, until all have run or a signal ends it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from agent_cli.core.place import UsageError
from agent_cli.evaluation.job_threads import JobThreads
from agent_cli.evaluation.processes import ProcessPool
from agent_cli.evaluation.results import TaskRun
from agent_cli.evaluation.runs import PlannedRun, RunTerms, TaskRunner, Variant
from agent_cli.evaluation.tasks import EvaluationTask
from agent_cli.evaluation.worktrees import make_base

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Evaluation:
    """Tasks to run under each variant, `repeat` times. caught: the signal that ended it; 0 for none."""

    def __init__(self, tasks: Sequence[EvaluationTask], variants: Sequence[Variant], repeat: int) -> None:
        self._tasks, self._variants, self._repeat = tasks, variants, repeat
        self._pool = ProcessPool()
        self.caught = 0

    def run(self, terms: RunTerms, jobs: int, ended: Callable[[TaskRun, int, int], None]) -> list[TaskRun]:
        """Run everything, at most `jobs` at a time; return the results in the order of the tasks.

        ended: called with each result as it comes, how many there are so far, and how many there will be.
        Raises UsageError if a repository cannot be made.
        """
        try:
            folder = Path(tempfile.mkdtemp(prefix="agent-eval-")).resolve()
        except OSError as error:
            raise UsageError(f"There is no folder for temporary files: {error.strerror}.") from None
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            return self._run(self._plan(folder, terms), TaskRunner(terms, self._pool), jobs, ended)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            shutil.rmtree(folder, ignore_errors=True)

    def _plan(self, folder: Path, terms: RunTerms) -> list[PlannedRun]:
        """Make the repositories, and list the runs: task by task, the variants side by side."""
        plan: list[PlannedRun] = []
        for task in self._tasks:
            base = folder / "base" / task.name
            if not self.caught:
                make_base(task, base, terms.env)
            for attempt in range(1, self._repeat + 1):
                for variant in self._variants:
                    room = folder / f"{task.name}-{len(plan) + 1}"
                    plan.append(PlannedRun(task=task, variant=variant, attempt=attempt, base=base, room=room))
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

    def _on_signal(self, number: int, frame: FrameType | None) -> Any:
        self.caught = self.caught or number
        self._pool.stop()
