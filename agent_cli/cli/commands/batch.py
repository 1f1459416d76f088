"""Run many tasks, each in a separate work tree, here or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.util import find_spec
from typing import Annotated

import typer

from agent_cli import UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, check_finite, with_run_options
from agent_cli.cli.help import examples
from agent_cli.cli.run_flags import absolute_file, to_flags
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.extras.batch.run import TaskFile, run_batch
from agent_cli.extras.batch.schedule import BatchOptions
from agent_cli.kernel.runtime.models import ChosenModel

app = typer.Typer(add_completion=False)


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
    found = TaskFile(tasks)
    if options.permission_mode == "plan":
        raise UsageError("--permission-mode plan: nobody would be there to approve the plans; use another mode.")
    common = options.replace(permission_mode=None)
    batch_options = BatchOptions(
        flags=(*to_flags(common), *([f"--model={absolute_file(model)}"] if model else ())),
        mode=options.permission_mode or "",
        budget=max_budget_usd,
        retries=retries,
        model=absolute_file,
    )

    def check() -> None:
        # A cluster's workers have their own settings and keys.
        if not scheduler:
            _check_models(found.models, options.replace(max_budget_usd=max_budget_usd), model)

    return run_batch(
        found, session_config(common), batch_options, check,
        output=output, jobs=jobs, scheduler=scheduler, retry_failed=retry_failed, as_json=as_json,
    )  # fmt: skip


def _check_models(names: Collection[str], options: RunOptions, model: str | None) -> None:
    """Raise UsageError for a model that no task could start with. names: of the tasks, "" for that of the options."""
    run_env = find_environment(os.environ)
    for name in dict.fromkeys(name or model or "" for name in names):
        asked = read_settings(session_config(options.replace(model=absolute_file(name) or None)), run_env).settings()
        ChosenModel(asked.model, asked, run_env)
