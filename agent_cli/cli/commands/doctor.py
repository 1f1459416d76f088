"""Say what is configured, found and missing."""

from __future__ import annotations

import typer

from agent_cli.cli.parameters import AsJsonObject
from agent_cli.doctor.report import run_doctor
from agent_cli.terminal.commands import REGISTRY

app = typer.Typer(add_completion=False)


@app.command()
def doctor(as_json: AsJsonObject = False) -> int:
    return run_doctor(as_json=as_json, commands=REGISTRY)
