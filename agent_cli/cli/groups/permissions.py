"""`agent permissions`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.parameters import takes
from agent_cli.config.run_options import RunOptions

permissions_app = typer.Typer(help="The permission rules in force.", no_args_is_help=True)

Rules = Annotated[list[str] | None, typer.Option(metavar="RULE", help="A rule to judge by; repeatable.")]


@permissions_app.command("check")
def permissions_check(
    tool: Annotated[str, typer.Option(help="The tool, e.g. Bash.")] = "",
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="The arguments of the call.")] = "",
    allow: Rules = None,
    ask: Rules = None,
    deny: Rules = None,
    mode: Annotated[str, typer.Option(help="The permission mode.")] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Where the call would be made.")] = "",
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Without your rules and this machine's home.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="Answer JSON lines from stdin, each at once.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Explain what would be decided about a call. Nothing is run, and nothing needs to exist."""
    from agent_cli.cli.commands.permissions import check_batch, check_one

    files = tuple(settings or ())
    if batch:
        raise typer.Exit(check_batch(isolated=isolated, settings=files))
    request = {"tool": tool, "input": given, "allow": allow, "ask": ask, "deny": deny, "mode": mode, "cwd": cwd}
    raise typer.Exit(check_one(request, isolated=isolated, settings=files, as_json=json))


@permissions_app.command("list")
@takes("permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "settings", "trust", "bare")
def permissions_list(
    options: RunOptions,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """List the rules that a run with these flags would have, and where each comes from."""
    from agent_cli.cli.commands.permissions import list_rules

    raise typer.Exit(list_rules(options, as_json=json))


@permissions_app.command("learn")
def permissions_learn(
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    days: Annotated[int, typer.Option(min=1, help="How far to look back.")] = 30,
) -> None:
    """Propose the narrowest rules that would have spared the questions that you answered with yes."""
    from agent_cli.cli.commands.permissions import learn_rules

    raise typer.Exit(learn_rules(days, as_json=json))
