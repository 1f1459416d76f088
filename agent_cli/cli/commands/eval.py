"""Run a folder of tasks with one or more models and compare the results."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from agent_cli import RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import check_choice, check_finite, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.cli.run_flags import absolute_file, is_file, to_flags
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.extras.evaluation.command import Unattended, make_keep_folder, run_evaluation
from agent_cli.extras.evaluation.runs import EvaluationOptions, Variant
from agent_cli.extras.evaluation.tasks import read_tasks
from agent_cli.kernel.runtime.models import ChosenModel

app = typer.Typer(add_completion=False)
_FORMATS = ("text", "json", "jsonl")


@app.command(
    epilog="Exit codes:\n0 all passed, 1 some did not, 2 usage or tasks, 130 interrupted.\n\n"
    + examples("agent eval tasks", "agent eval tasks --model openai/gpt-5.6 --model ollama/qwen3:8b --jobs 2")
)
@with_run_options(
    "max_budget_usd", "max_turns", "allow_unknown_cost", "effort", "settings", "bare", "permission_mode",
    "allowed_tools", "disallowed_tools", "tools", "trust", "mcp_config", "strict_mcp_config",
    "system_prompt", "append_system_prompt",
)  # fmt: skip
def evaluate(
    options: RunOptions,
    folder: Annotated[str, typer.Argument(help="A folder of tasks, or one task.", metavar="FOLDER")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Model to use, as provider/model; several are compared.", metavar="MODEL",
                     autocompletion=completion.complete_models),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", help="Settings to compare, as a file or as TOML or JSON text.",
                     metavar="FILE|JSON"),
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Run only this task.", metavar="NAME")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="How many runs at the same time.", min=1)] = 1,
    repeat: Annotated[int, typer.Option("--repeat", help="How many runs of each task with each model.", min=1)] = 1,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds for each run.", show_default="from the tasks", min=0.1,
                            callback=check_finite)
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", help="Folder for the work trees and transcripts of failed runs.", metavar="DIR")
    ] = "",
    output_format: Annotated[
        str, typer.Option("--output-format", help=f"Format of the results: {one_of(_FORMATS)}.", metavar="FORMAT",
                          autocompletion=completion.one_of_choices(_FORMATS),
                          callback=check_choice(_FORMATS))
    ] = "text",
) -> int:  # fmt: skip
    tasks = read_tasks(Path(folder), only or ())
    # Runs happen elsewhere, so settings of the current project do not apply.
    run_env = find_environment(os.environ, tempfile.gettempdir())
    layers = read_settings(session_config(options), run_env)
    variants = _variants(model or [], compare or [], options, run_env)
    unattended = Unattended.find(options.permission_mode, layers, run_env)
    eval_options = EvaluationOptions(
        argv=(*to_flags(options), *unattended.argv),
        env=os.environ,
        sandbox=unattended.sandbox,
        timeout=timeout or 0.0,
        budget=options.max_budget_usd is not None,
        keep=make_keep_folder(keep),
    )
    return run_evaluation(
        tasks, variants, eval_options, unattended.words, repeat=repeat, jobs=jobs, output_format=output_format
    )


def _variants(
    models: list[str], compare: list[str], options: RunOptions, run_env: RunEnvironment
) -> tuple[Variant, ...]:
    """Return each model under each of the settings. Raises UsageError for what no run could start with."""
    found = []
    for name in dict.fromkeys(models) or [""]:
        for text in dict.fromkeys(compare) or [""]:
            settings = (*options.settings, *((text,) if text else ()))
            try:
                asked = read_settings(
                    session_config(options.replace(model=name or None, settings=settings)), run_env
                ).settings()
            except UsageError as error:
                raise UsageError(str(error).replace("--settings", "--compare", 1) if text else str(error)) from None
            chosen = ChosenModel(asked.model, asked, run_env)
            argv = ["--model", absolute_file(name)] if name else []
            argv += ["--settings", absolute_file(text)] if text else []
            found.append(Variant(model=name or chosen.label(), settings=_label(text), argv=tuple(argv)))
    return tuple(found)


def _label(text: str) -> str:
    """Return a label for compared settings: the name of their file, or the text itself."""
    return Path(text).stem if is_file(text) else " ".join(text.split())
