"""Watch the agent repair a small broken project. No key and no network needed."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.app import check_finite
from agent_cli.cli.help import examples
from agent_cli.shells.terminal.demo import run_demo

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent demo", "agent demo --yes --keep"))
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the demo's own rules answer.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0, callback=check_finite, help="How fast it plays; 2 is twice as fast, 0 shows all at once."
        ),
    ] = 1,
) -> int:
    return run_demo(yes=yes, keep=keep, slowness=1 / speed if speed else 0)
