"""Refuse open calls, or send a plan back with --why; without words a plan is cancelled."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.decide_calls import PendingDecision, decide_calls
from agent_cli.cli.parameters import Calls, EveryCall, OutputFormat, Verbose
from agent_cli.config.run_options import RunOptions

app = typer.Typer(add_completion=False)


@app.command()
def reject(
    words: Calls = None,
    every: EveryCall = False,
    why: Annotated[str, typer.Option("--why", help="Words that go to the model.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="At a review: undo what was changed.")] = False,
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    return decide_calls(words or (), PendingDecision("undo" if undo else "reject", every=every, text=why), options)
