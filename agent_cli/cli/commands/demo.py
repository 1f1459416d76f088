"""Watch the agent repair a small broken project. No key and no network needed."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.demo.run import run_demo

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the demo's own rules answer.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
) -> int:
    return run_demo(yes=yes, keep=keep)
