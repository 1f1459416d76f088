"""Run many tasks, each in a separate work tree, here or on a Dask cluster."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli import UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, check_finite, with_run_options
from agent_cli.cli.help import examples
from agent_cli.cli.run_flags import absolute_file, to_flags
from agent_cli.cli.run_options import RunOptions, session_config
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
from agent_cli.kernel.runtime.models import ChosenModel
from agent_tools.fs.safe_files import read_text
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted

with lazy_imports():
    from agent_cli.extras.batch import cluster  # Dask, which only --scheduler needs

app = typer.Typer(add_completion=False)
_MAX_TASKS_BYTES = 256 << 20


@app.command(
    epilog="A task is a line such as\n"
    '{"prompt": "Fix the failing test", "repository": ".", "check": "make test"}\n'
    "The other keys: id, folder, branch, commit, model, mode, setup, check_sandbox, check_timeout, budget, settings."
    "\n\n"
    "Exit codes:\n0 all done and checks passed, 1 some not, 2 usage or tasks, 130 interrupted. The same command again "
    "runs what is missing.\n\n"
    + examples(
        "agent batch tasks.jsonl --permission-mode acceptEdits --jobs 4",
        "agent batch tasks.jsonl --scheduler tcp://10.0.0.1:8786 --max-budget-usd 20",
    )
)
@with_run_options(
    "max_turns", "allow_unknown_cost", "effort", "settings", "bare", "permission_mode",
    "allowed_tools", "disallowed_tools", "tools", "trust", "mcp_config", "strict_mcp_config",
    "system_prompt", "append_system_prompt",
)  # fmt: skip
def batch(
    options: RunOptions,
    tasks: Annotated[str, typer.Argument(help="A file of tasks as JSON lines; - for standard input.",
                                         metavar="TASKS")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model of tasks that name none, as provider/model.", metavar="MODEL",
                     autocompletion=completion.complete_models),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File for the results.", metavar="FILE",
                          show_default="TASKS.results.jsonl in this folder")
    ] = "",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="How many tasks at the same time.", min=1,
                                 show_default="1; of a cluster, all its threads")
    ] = None,
    max_budget_usd: Annotated[
        float | None,
        typer.Option("--max-budget-usd", help="Start no more tasks once all have cost this many dollars.", min=0,
                     metavar="USD", callback=check_finite),
    ] = None,
    retries: Annotated[
        int, typer.Option("--retries", help="How often to rerun a task whose host or provider failed.", min=0)
    ] = 2,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also rerun tasks that failed before.")
    ] = False,
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="Run on the Dask cluster of this scheduler.", metavar="ADDRESS")
    ] = "",
    as_json: AsJson = False,
) -> int:  # fmt: skip
    if scheduler and find_spec("distributed") is None:
        raise UsageError("--scheduler needs the package distributed next to agent: pip install distributed")
    text, folder = _read_tasks(tasks)
    found, wrong = read_batch(text, folder, Path.cwd())
    if options.permission_mode == "plan":
        raise UsageError("--permission-mode plan: nobody would be there to approve the plans; use another mode.")
    common = options.replace(permission_mode=None)
    host = TaskHost(os.environ, session_config(common))
    try:
        orders, unusable = make_orders(found, host, shipped=bool(scheduler))
        if wrong := wrong | unusable:
            for number in sorted(wrong):
                end = "" if wrong[number].endswith("?") else "."
                print_warning(f"{tasks}, line {number}: {wrong[number]}{end}")
            return 2
        if not found:
            raise UsageError(f"There are no tasks in {tasks}.")
        if not scheduler:
            _check_models(found, options.replace(max_budget_usd=max_budget_usd), model)
        batch_options = BatchOptions(
            flags=(*to_flags(common), *([f"--model={absolute_file(model)}"] if model else ())),
            mode=options.permission_mode or "",
            budget=max_budget_usd,
            retries=retries,
            model=absolute_file,
        )
        file = ResultsFile(_results_path(output, tasks))
        try:
            dropped = file.drop_unfinished(found, retry_failed=retry_failed)
            progress = BatchProgress(len(found), len(found) - _count_missing(found, file), os.environ)
            work = Batch(found, orders, batch_options, file, progress)
            print_notice(_first_line(found, file, scheduler, jobs))
            if not scheduler:
                work.run(LocalRunner(host, jobs or 1), dropped)
            else:
                _run_on_cluster(work, dropped, scheduler, jobs, progress)
            return _report(found, file, work, progress, as_json=as_json)
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


def _read_tasks(name: str) -> tuple[str, Path]:
    """Return the text of the tasks, and the folder that their paths are relative to. Raises UsageError."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(_MAX_TASKS_BYTES).decode(), Path.cwd()
        path = Path(name).expanduser().absolute()
        return read_text(path, _MAX_TASKS_BYTES), path.parent
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not text in UTF-8.") from None


def _results_path(output: str, tasks: str) -> Path:
    if not output and tasks == "-":
        raise UsageError("With tasks from standard input, name a file for the results: --output FILE.")
    return Path(output or f"{Path(tasks).stem}.results.jsonl").expanduser().absolute()


def _check_models(tasks: list[BatchTask], options: RunOptions, model: str | None) -> None:
    """Raise UsageError for a model that no task could start with."""
    run_env = find_environment(os.environ)
    for name in dict.fromkeys(task.model or model or "" for task in tasks):
        asked = read_settings(session_config(options.replace(model=absolute_file(name) or None)), run_env).settings()
        ChosenModel(asked.model, asked, run_env)


def _count_missing(tasks: list[BatchTask], file: ResultsFile) -> int:
    return sum(task.id not in file.lines for task in tasks)


def _first_line(tasks: list[BatchTask], file: ResultsFile, scheduler: str, jobs: int | None) -> str:
    missing = _count_missing(tasks, file)
    before = f"; {len(tasks) - missing} ended before" if missing < len(tasks) else ""
    where = f" on {scheduler}" if scheduler else f", {jobs or 1} at a time"
    return f"{counted(missing, 'task')} to run{where}{before}."


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
