"""`agent tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.options import RunOptions

tools_app = typer.Typer(help="List the tools, or run one from a script.", no_args_is_help=True)


@tools_app.command("list")
def tools_list(json: Annotated[bool, typer.Option("--json", help="With their JSON schemas.")] = False) -> None:
    """List the tools."""
    from agent_cli.commands.tools import list_tools

    raise typer.Exit(list_tools(as_json=json))


@tools_app.command("run")
def tools_run(
    name: Annotated[str, typer.Argument(help="The tool, e.g. Grep.")],
    arguments: Annotated[str | None, typer.Argument(help="Its arguments as JSON; else read from stdin.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print text and is_error as JSON.")] = False,
    permission_mode: Annotated[str | None, typer.Option("--permission-mode")] = None,
    allowed_tools: Annotated[list[str] | None, typer.Option("--allowedTools", "--allowed-tools")] = None,
    ask_tools: Annotated[list[str] | None, typer.Option("--askTools", "--ask-tools")] = None,
    disallowed_tools: Annotated[list[str] | None, typer.Option("--disallowedTools", "--disallowed-tools")] = None,
    add_dir: Annotated[list[str] | None, typer.Option("--add-dir")] = None,
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
    trust: Annotated[bool, typer.Option("--trust")] = False,
    bare: Annotated[bool, typer.Option("--bare")] = False,
) -> None:
    """Run one tool, under the same permissions as in a session. Exit 0, 1 for an error or a denial, 2 for misuse."""
    from agent_cli.commands.tools import run_tool

    options = RunOptions(
        print=True,
        permission_mode=permission_mode,
        allowed_tools=tuple(allowed_tools or ()),
        ask_tools=tuple(ask_tools or ()),
        disallowed_tools=tuple(disallowed_tools or ()),
        add_dir=tuple(add_dir or ()),
        settings=tuple(settings or ()),
        trust=trust,
        bare=bare,
    )
    raise typer.Exit(run_tool(name, arguments, options, as_json=json))
