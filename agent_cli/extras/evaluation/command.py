"""What `agent eval` does once its options are read: run the evaluation unattended, and print its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agent_cli import Layers, RunEnvironment, UsageError
from agent_cli.console import echo, print_json, print_notice
from agent_cli.extras.evaluation.results import TaskRun, format_progress, format_runs, run_to_json, summarize_runs
from agent_cli.extras.evaluation.runs import Evaluation, EvaluationOptions, Variant
from agent_cli.extras.evaluation.steps import SandboxMaker, check_sandbox_maker
from agent_cli.extras.evaluation.tasks import EvaluationTask
from agent_cli.kernel.runtime.environment import in_container
from agent_tools.record import Value
from agent_tools.text import counted

# Besides editing, a model may run any command in the sandbox, even destructive ones, as the work tree is a copy.
_UNATTENDED_SETTINGS = {"sandbox": {"mode": "require", "auto_allow": True, "auto_allow_destructive": True}}


class Unattended(Value):
    """How runs work without a user. argv: their options. sandbox: makes that of checks. words: for the user."""

    argv: tuple[str, ...]
    sandbox: SandboxMaker | None
    words: str

    @staticmethod
    def find(mode: str | None, layers: Layers, run_env: RunEnvironment) -> Unattended:
        """Return how runs work here. mode: the permission mode that was asked for.

        Raises UsageError if commands would run with the user's rights, which only a mode on the command line allows.
        """
        sandbox = check_sandbox_maker(layers.settings(), run_env)
        if mode is not None:
            return Unattended((), sandbox, f"permission mode {mode}")
        if sandbox is not None:
            argv = ("--permission-mode=acceptEdits", f"--settings={json.dumps(_UNATTENDED_SETTINGS)}")
            return Unattended(argv, sandbox, "commands run in the sandbox")
        if in_container(run_env.env):
            without = ("--permission-mode=bypassPermissions",)
            return Unattended(without, sandbox, "commands run without a sandbox, in this container")
        raise UsageError(
            "There is no sandbox for commands here (agent doctor explains why): run this in a container, or let the "
            "models run any command with your permissions: --permission-mode bypassPermissions."
        )


def run_evaluation(
    tasks: Sequence[EvaluationTask],
    variants: Sequence[Variant],
    options: EvaluationOptions,
    how: str,
    *,
    repeat: int,
    jobs: int,
    output_format: str,
) -> int:
    """Run the tasks under each variant, print the results, and return the exit code.

    how: see `Unattended.words`. output_format: "text", "json" or "jsonl".
    """
    evaluation = Evaluation(tasks, variants, repeat)
    total = counted(len(tasks) * len(variants) * repeat, "run")
    print_notice(f"{total} of {counted(len(tasks), 'task')}, {jobs} at a time; {how}.")

    def on_end(run: TaskRun, count: int, total: int) -> None:
        print_notice(format_progress(run, count, total))
        if output_format == "jsonl":
            echo(json.dumps(run_to_json(run)))

    runs = evaluation.run(options, jobs, on_end)
    if output_format == "json":
        print_json({"runs": [run_to_json(run) for run in runs], "models": summarize_runs(runs)})
    elif output_format == "text" and runs:
        print_notice("")
        echo(format_runs(runs))
    if evaluation.caught:
        print_notice(f"Interrupted after {counted(len(runs), 'run')}.")
        return 128 + evaluation.caught
    return 0 if all(run.verdict == "passed" for run in runs) else 1


def make_keep_folder(name: str) -> Path | None:
    """Make the folder of --keep. Raises UsageError if it cannot be written, or has something in it."""
    if not name:
        return None
    folder = Path(name).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--keep: {folder} is not empty.")
    except OSError as error:
        raise UsageError(f"--keep: {folder} cannot be used: {error.strerror or error}.") from None
    return folder
