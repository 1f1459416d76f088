"""What waits for a user: `agent pending`, `approve`, `reject`, `answer`; and `show`, what happened."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agent_cli.cli.parameters import choice
from agent_cli.config.run_options import FORMATS, RunOptions
from agent_cli.core.modes import MODES

deciding_app = typer.Typer()
Words = Annotated[
    list[str] | None,
    typer.Argument(help="[SESSION] [CALL]...; the session that waits and its one open call by default."),
]
Every = Annotated[bool, typer.Option("--all", help="All open calls of the session.")]
OutputFormat = Annotated[
    str, typer.Option("--output-format", metavar="text|json|stream-json", callback=choice(FORMATS))
]
Verbose = Annotated[bool, typer.Option("--verbose")]


@deciding_app.command()
def pending(
    everywhere: Annotated[bool, typer.Option("--all", help="In all projects.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List what waits for you in this project, and the commands that decide it."""
    from agent_cli.cli.commands.pending import list_pending

    raise typer.Exit(list_pending(everywhere=everywhere, as_json=json))


def _decision(words: list[str] | None, decision: str, output_format: str, verbose: bool, **more: Any) -> None:
    from agent_cli.cli.commands.approvals import PendingDecision, decide_calls

    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    raise typer.Exit(decide_calls(words or [], PendingDecision(decision, **more), options))


@deciding_app.command()
def approve(
    words: Words = None,
    every: Every = False,
    mode: Annotated[str, typer.Option("--mode", help="For a plan: the permission mode to continue in.")] = "",
    text: Annotated[str, typer.Option("--with", help="For a plan or a review: words for the model.")] = "",
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Approve open calls; when the last one is decided, the turn continues as with -p."""
    if mode and mode not in MODES:
        raise typer.BadParameter(f"{mode} is none of {', '.join(MODES)}.")
    _decision(words, "approve", output_format, verbose, every=every, mode=mode, text=text)


@deciding_app.command()
def reject(
    words: Words = None,
    every: Every = False,
    why: Annotated[str, typer.Option("--why", help="Words that go to the model.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="At a review: undo what was changed.")] = False,
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Refuse open calls, or send a plan back with --why; without words a plan is cancelled."""
    _decision(words, "undo" if undo else "reject", output_format, verbose, every=every, text=why)


@deciding_app.command()
def answer(
    words: Annotated[list[str], typer.Argument(help="[SESSION] [CALL] ANSWER...; the number of an option, or words.")],
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Answer a question of the model, or say what to change in a plan; "yes" approves it."""
    _decision(words, "answer", output_format, verbose)


@deciding_app.command("resume")
def resume_command(
    session: Annotated[str, typer.Argument(help="Its ID or the beginning of it; the latest by default.")] = "",
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Continue a turn that was interrupted, or whose calls are all decided, as with -p."""
    from agent_cli.cli.commands.pending import resume_session

    raise typer.Exit(resume_session(session, RunOptions(print=True, output_format=output_format, verbose=verbose)))


@deciding_app.command()
def show(
    session: Annotated[str, typer.Argument(help="Its ID or the beginning of it; the latest by default.")] = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn, from 1; -1 is the last.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what happened in a session: rounds, calls, decisions, durations, tokens, cost."""
    from agent_cli.cli.commands.sessions import show_session

    raise typer.Exit(show_session(session, turn, as_json=json))
