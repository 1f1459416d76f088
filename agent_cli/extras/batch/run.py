"""Run a file of tasks, here or on a cluster, and report on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from agent_cli import Config, UsageError
from agent_cli.console import echo, print_json, print_notice, print_warning
from agent_cli.extras.batch.host import TaskHost
from agent_cli.extras.batch.results import (
    BatchProgress,
    ResultsFile,
    format_batch_table,
    format_summary,
    summarize_batch,
)
from agent_cli.extras.batch.schedule import Batch, BatchOptions, LocalRunner, make_orders
from agent_cli.extras.batch.tasks import BatchTask, read_batch
from agent_tools.fs.safe_files import read_text
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted

with lazy_imports():
    from agent_cli.extras.batch import cluster  # Dask, which only --scheduler needs

_MAX_TASKS_BYTES = 256 << 20


class TaskFile:
    """The tasks of a file, or of standard input for "-". Raises UsageError if it cannot be read."""

    def __init__(self, name: str) -> None:
        self.name = name
        text, folder = self._read()
        self.tasks, self.wrong = read_batch(text, folder, Path.cwd())

    def _read(self) -> tuple[str, Path]:
        """Return the text, and the folder that its paths are relative to."""
        try:
            if self.name == "-":
                return sys.stdin.buffer.read(_MAX_TASKS_BYTES).decode(), Path.cwd()
            path = Path(self.name).expanduser().absolute()
            return read_text(path, _MAX_TASKS_BYTES), path.parent
        except OSError as error:
            raise UsageError(f"{self.name} cannot be read: {error.strerror or error}.") from None
        except UnicodeDecodeError:
            raise UsageError(f"{self.name} is not text in UTF-8.") from None

    @property
    def models(self) -> Collection[str]:
        """The models that tasks name; "" where one names none."""
        return dict.fromkeys(task.model for task in self.tasks)

    def results_path(self, output: str) -> Path:
        """Return the path of the results. output: as the user named it, "" for the usual one. Raises UsageError."""
        if not output and self.name == "-":
            raise UsageError("With tasks from standard input, name a file for the results: --output FILE.")
        return Path(output or f"{Path(self.name).stem}.results.jsonl").expanduser().absolute()


def run_batch(
    found: TaskFile,
    config: Config,
    options: BatchOptions,
    check: Callable[[], None],
    *,
    output: str,
    jobs: int | None,
    scheduler: str,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Run the tasks that have no result, print the results of all, and return the exit code.

    config: what tasks run with. check: raises UsageError if no task could start; called once the tasks are known to be
    valid. scheduler: the address of a Dask cluster; "" to run here. The other arguments are those of `agent batch`.
    """
    host = TaskHost(os.environ, config)
    try:
        orders, unusable = make_orders(found.tasks, host, shipped=bool(scheduler))
        if wrong := found.wrong | unusable:
            for number in sorted(wrong):
                end = "" if wrong[number].endswith("?") else "."
                print_warning(f"{found.name}, line {number}: {wrong[number]}{end}")
            return 2
        if not found.tasks:
            raise UsageError(f"There are no tasks in {found.name}.")
        check()
        file = ResultsFile(found.results_path(output))
        try:
            dropped = file.drop_unfinished(found.tasks, retry_failed=retry_failed)
            missing = sum(task.id not in file.lines for task in found.tasks)
            progress = BatchProgress(len(found.tasks), len(found.tasks) - missing, os.environ)
            work = Batch(found.tasks, orders, options, file, progress)
            before = f"; {len(found.tasks) - missing} ended before" if missing < len(found.tasks) else ""
            where = f" on {scheduler}" if scheduler else f", {jobs or 1} at a time"
            print_notice(f"{counted(missing, 'task')} to run{where}{before}.")
            if not scheduler:
                work.run(LocalRunner(host, jobs or 1), dropped)
            else:
                _run_on_cluster(work, dropped, scheduler, jobs, progress)
            return _report(found.tasks, file, work, progress, as_json=as_json)
        finally:
            file.close()
    finally:
        host.close()


def _run_on_cluster(
    work: Batch, dropped: dict[str, dict[str, Any]], scheduler: str, jobs: int | None, progress: BatchProgress
) -> None:
    runner = cluster.ClusterRunner(scheduler, jobs, progress)
    try:
        work.run(runner, dropped)
    finally:
        runner.close()


def _report(tasks: list[BatchTask], file: ResultsFile, work: Batch, progress: BatchProgress, *, as_json: bool) -> int:
    progress.clear()
    lines = [file.lines[task.id] for task in tasks]
    sums = summarize_batch(lines)
    if as_json:
        print_json({"results": lines, "summary": sums})
    else:
        print_notice("")
        echo(format_batch_table(lines))
        patches = f"; patches: {file.patches}" if any(line["patch"] for line in lines) else ""
        echo(f"\n{format_summary(sums)}\nResults: {file.path}{patches}")
    if work.caught:
        print_notice("Interrupted; run the same command again to continue.")
        return 128 + work.caught
    if work.out_of_budget:
        print_notice("The budget is spent; the same command with a larger --max-budget-usd runs what is missing.")
    return 0 if sums["passed"] == len(lines) else 1
