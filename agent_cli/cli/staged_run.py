"""Run with `--stage`: in a copy of the project, from another process that brings its changes into the project."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli import UsageError, find_environment, read_settings
from agent_cli.cli.run_flags import to_flags
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import print_notice
from agent_cli.kernel.runtime import session_log
from agent_cli.kernel.runtime.staged_project import StagedProject

_BEGUN = "The turns work in a copy; at the end of each you decide what comes into your project. /stage leaves."
_PROGRAM = (sys.executable, "-P", "-m", "agent_cli")


def run_staged(options: RunOptions, go_on: Callable[[RunOptions], int]) -> int:
    """Run in a new stage; return the exit code. Raises UsageError, and StagedSessionError for a session in a stage.

    go_on: runs outside the stage if the user leaves it.
    """
    for name, value in (("--worktree", options.worktree), ("--patch", options.patch), ("--add-dir", options.add_dir)):
        if value:
            raise UsageError(f"--stage works in a copy of this project alone: leave out {name}.")
    run_env, config = find_environment(os.environ), session_config(options)
    session_log.require_stage(config, run_env)  # it has a copy already: the turns work in that one
    layers = read_settings(config, run_env)
    project = StagedProject.begin(run_env, layers)
    for line in [*([] if options.print else [_BEGUN]), *project.notes]:
        print_notice(line)
    flags = to_flags(options.replace(cd=None, prompt=()))
    ended = project.run([*_PROGRAM, *flags, *(["--", *options.prompt] if options.prompt else [])])
    _print_end(ended.notice)
    if ended.left:
        resumed = ended.left if ended.left != "-" else None
        return go_on(options.replace(stage=False, resume=resumed, continue_=False, prompt=()))
    return ended.code


def run_in_stage(folder: os.PathLike[str], argv: Sequence[str]) -> int:
    """Run a command line in the stage of a session; return the exit code. Raises UsageError."""
    project = StagedProject.of_session(Path(folder), find_environment(os.environ))
    for line in project.notes:
        print_notice(line)
    ended = project.run([*_PROGRAM, *argv])
    _print_end(ended.notice)
    return ended.code


def _print_end(notice: str) -> None:
    if notice:
        print_notice(notice)
