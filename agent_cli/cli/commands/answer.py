"""Answer a question of the model, or say what to change in a plan; "yes" approves it."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.decide_calls import PendingDecision, decide_calls
from agent_cli.cli.parameters import OutputFormat, Verbose
from agent_cli.config.run_options import RunOptions

app = typer.Typer(add_completion=False)


@app.command()
def answer(
    words: Annotated[list[str], typer.Argument(help="[SESSION] [CALL] ANSWER...; the number of an option, or words.")],
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    return decide_calls(words, PendingDecision("answer"), options)
