"""Trust a repository, with its current settings, commands, agents and hooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agent_cli import Config, RunEnvironment, UsageError, UserTrust, find_environment, read_settings
from agent_cli.cli.help import examples
from agent_cli.config.prompts import workspace_root
from agent_cli.console import echo, print_warning, table
from agent_cli.kernel.session.store import state_folder
from agent_cli.policy.trust import TrustStore
from agent_tools.text import one_line

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent trust --show", "agent trust", "agent trust --revoke"))
def trust(
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="A folder of the repository; by default the current one.")
    ] = "",
    show: Annotated[bool, typer.Option("--show", help="Only show what needs trust.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting it.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List the trusted repositories.")] = False,
) -> int:
    return list_trusted() if every else trust_folder(folder, show=show, revoke=revoke)


def trust_folder(folder: str, *, show: bool, revoke: bool) -> int:
    """Trust the repository of a directory ("": the current one), or do what the flags say. Raises UsageError."""
    run_env = _find_environment(folder)
    if revoke:
        return _revoke(run_env)
    project = UserTrust(run_env)
    layers = read_settings(Config(), run_env)
    trust = layers.trust
    echo(f"{one_line(str(run_env.root))}: {trust.label}")
    for phrase in layers.trust_phrases():
        echo(f"  {phrase}")
    if show or trust.trusted:
        return 0
    if why := project.remember():
        raise UsageError(f"{run_env.root} is not trusted: {why}.")
    echo("Trusted from now on, until it changes. To stop trusting it: agent trust --revoke")
    return 0


def list_trusted() -> int:
    """Print the repositories stored as trusted."""
    store = TrustStore(state_folder(os.environ))
    if store.problem:
        print_warning(f"{one_line(store.problem)}.")
    rows = [(root, agreed.when, str(len(agreed.files))) for root, agreed in sorted(store.agreed.items())]
    echo("\n".join(table(("REPOSITORY", "SINCE", "FILES"), rows)) if rows else "No repository is trusted.")
    return 0


def _find_environment(folder: str) -> RunEnvironment:
    here = find_environment(os.environ)
    if not folder:
        return here
    cwd = Path(os.path.realpath(os.path.expanduser(folder)))
    if not os.path.isdir(cwd):  # noqa: PTH112 - the method raises where a parent is closed
        raise UsageError(f"{one_line(folder)} is not a folder.")
    return here.replace(cwd=cwd, root=workspace_root(cwd, here.home))


def _revoke(run_env: RunEnvironment) -> int:
    try:
        known = UserTrust.revoke(run_env)
    except OSError as error:
        raise UsageError(f"Trust in {run_env.root} could not be revoked: {error.strerror or error}.") from None
    root = one_line(str(run_env.root))
    echo(f"{root} is no longer trusted." if known else f"{root} was not trusted.")
    return 0
