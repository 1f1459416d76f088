"""Decide the calls of other agents (Claude Code, Codex, ...) by your rules and in your inbox, through their hooks."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agent_cli import find_environment
from agent_cli.cli.app import ListingGroup
from agent_cli.cli.help import examples
from agent_cli.console import echo, table
from agent_cli.extras.gate import install as gate_install
from agent_cli.extras.gate.hosts import HOSTS, find_host
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.extras.gate import client

_WAIT_SECONDS = 600
app = typer.Typer(cls=ListingGroup, add_completion=False)
HostArgument = Annotated[
    str, typer.Argument(metavar="PROGRAM", help=f"One of {', '.join(HOSTS)}.", autocompletion=lambda: list(HOSTS))
]
InProject = Annotated[bool, typer.Option("--project", help="In this repository instead of your own settings.")]


@app.command("install", epilog=examples("agent gate install claude", "agent gate install codex --project"))
def install_hooks(
    program: HostArgument,
    project: InProject = False,
    wait: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="How long a call waits for your answer (600, or what it can).")
    ] = None,
) -> int:
    """Write the hooks of a program, so that its calls are decided here."""
    host = find_host(program)
    seconds = wait if wait is not None else min(_WAIT_SECONDS, host.longest_wait)
    made = gate_install.write_hooks(host, find_environment(os.environ), seconds, project=project)
    echo(f"{host.label} asks agent from now on: {made.path}")
    for line in (f"A call waits {seconds} seconds for your answer, and is refused then.", host.dies, host.trust):
        if line:
            echo(line)
    echo("To see the calls that wait for you: agent pending")
    return 0


@app.command("remove", epilog=examples("agent gate remove claude"))
def take_out_hooks(program: HostArgument, project: InProject = False) -> int:
    """Take the hooks of a program out again."""
    host = find_host(program)
    made = gate_install.remove_hooks(host, find_environment(os.environ), project=project)
    what = "does not ask agent any more" if made.changed else "has no hooks of agent gate here"
    echo(f"{host.label} {what}: {made.path}")
    return 0


@app.command("list", epilog=examples("agent gate list"))
def list_hosts() -> int:
    """List the programs, and what becomes of a call if the hook fails."""
    rows = [(host.name, host.label, host.dies) for host in HOSTS.values()]
    echo("\n".join(table(("PROGRAM", "NAME", "IF THE HOOK FAILS"), rows)))
    return 0


@app.command("decide", epilog=examples("agent gate decide claude < call.json"))
def answer_hook(
    program: HostArgument,
    wait: Annotated[int, typer.Option(metavar="SECONDS", min=0, help="How long to wait for your answer.")] = 600,
    alone: Annotated[
        bool, typer.Option("--alone", help="Start no process that answers the next calls faster.")
    ] = False,
) -> int:
    """Answer a hook: its JSON on standard input, the program's answer on standard output."""
    return client.main([program, "--wait", str(wait), *(["--alone"] if alone else [])])
