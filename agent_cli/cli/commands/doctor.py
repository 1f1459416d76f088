"""Show what is configured, found and missing."""

from __future__ import annotations

import typer

from agent_cli.cli.app import AsJsonObject
from agent_cli.cli.help import examples
from agent_cli.doctor import report
from agent_cli.shells.terminal.slash import builtin_commands

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent doctor", "agent doctor --json"))
def doctor(as_json: AsJsonObject = False) -> int:
    return report.run_doctor(as_json=as_json, commands=builtin_commands())
