"""Run with `--patch FILE`: in a copy of the repository, whose changes become the patch."""

from __future__ import annotations

import os
from collections.abc import Callable

from agent_cli import UsageError, find_environment, read_settings
from agent_cli.cli.choose_session import layers_of, with_absolute_paths
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import print_notice
from agent_cli.extras.reports.files import check_target
from agent_cli.git.patch import PatchCopy
from agent_cli.shells.headless.output import FAILED


def run_in_copy(options: RunOptions, run: Callable[[RunOptions], int]) -> int:
    """Run in a copy and write the patch, also after a failure; return the exit code. Raises UsageError."""
    file = os.path.abspath(options.patch or "")  # noqa: PTH100
    _check(options)
    check_target("--patch", file)
    run_env = find_environment(os.environ)
    trusted = read_settings(session_config(options), run_env).trust.trusted
    options = with_absolute_paths(options)
    copy = PatchCopy(run_env, trusted)
    try:
        for line in copy.notes(run_env.root):
            print_notice(line)
        trust = layers_of(copy.worktree.repo, options, run_env).trust
        copy.worktree.copy_settings(trust, run_env.env, lasting=not options.trust and not options.bare)
        code = run(options)
        patch, notes = copy.finish()
        try:
            with open(file, "wb") as target:
                target.write(patch)
        except OSError as error:
            print_notice(f"The patch was not written: {file}: {error.strerror or error}")
            return code or FAILED
        for line in notes:
            print_notice(line)
        print_notice(f"Apply it with: git apply {file}" if patch else f"Nothing was changed; {file} is empty.")
        return code
    finally:
        for line in copy.worktree.discard(run_env.env):
            print_notice(line)


def _check(options: RunOptions) -> None:
    """Raise UsageError for options that conflict with a temporary copy."""
    if options.worktree is not None:
        raise UsageError("--patch makes a copy to work in: leave out --worktree.")
    if options.continue_ or options.resume is not None:
        raise UsageError("--patch begins a new session: leave out --continue and --resume.")
    if options.on_ask == "suspend":
        raise UsageError("--patch removes its copy at the end, so nothing can wait there: leave out --on-ask suspend.")
