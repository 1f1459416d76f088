"""Approve open calls; when the last one is decided, the turn continues as with -p."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.decide_calls import PendingDecision, decide_calls
from agent_cli.cli.parameters import Calls, EveryCall, OutputFormat, Verbose
from agent_cli.config.run_options import RunOptions
from agent_cli.core.modes import MODES

app = typer.Typer(add_completion=False)


@app.command()
def approve(
    words: Calls = None,
    every: EveryCall = False,
    mode: Annotated[str, typer.Option("--mode", help="For a plan: the permission mode to continue in.")] = "",
    text: Annotated[str, typer.Option("--with", help="For a plan or a review: words for the model.")] = "",
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    if mode and mode not in MODES:
        raise typer.BadParameter(f"{mode} is none of {', '.join(MODES)}.")
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    return decide_calls(words or (), PendingDecision("approve", every=every, mode=mode, text=text), options)
