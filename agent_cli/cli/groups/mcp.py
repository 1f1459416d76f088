"""`agent mcp`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_cli.cli.parameters import choice, takes
from agent_cli.config.run_options import RunOptions

mcp_app = typer.Typer(help="MCP servers: add, list, test and approve them, or be one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The server's name.")]
Scope = Annotated[
    str,
    typer.Option("--scope", "-s", metavar="user|project", callback=choice(("user", "project")),
                 help="Whose it is: yours (~/.agentrc), or the project's (.mcp.json)."),
]  # fmt: skip


@mcp_app.command("list")
def mcp_list(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the servers that are declared, and whether they may start. Nothing is started."""
    from agent_cli.cli.commands.mcp import list_servers

    raise typer.Exit(list_servers(as_json=json))


@mcp_app.command("get")
def mcp_get(name: Name) -> None:
    """Show how a server is declared; of yours the values of environment and headers are left out."""
    from agent_cli.cli.commands.mcp import get_server

    raise typer.Exit(get_server(name))


@mcp_app.command("add")
def mcp_add(
    name: Name,
    target: Annotated[list[str], typer.Argument(metavar="URL | -- COMMAND [ARGS]...", help="What to reach or run.")],
    scope: Scope = "user",
    transport: Annotated[
        str,
        typer.Option("--transport", "-t", metavar="stdio|http|sse", callback=choice(("", "stdio", "http", "sse")),
                     help="By default http for a URL, else stdio."),
    ] = "",
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Repeatable.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME: VALUE", help="Repeatable.")
    ] = None,
    client_id: Annotated[
        str, typer.Option("--client-id", metavar="ID", help="Log in as this client, for servers that register none.")
    ] = "",
    callback_port: Annotated[
        int, typer.Option("--callback-port", metavar="PORT", help="The port that the client is registered with.")
    ] = 0,
) -> None:  # fmt: skip
    """Add a server. ${NAME} and ${NAME:-default} stand for variables of the environment, as in --env KEY='${KEY}'."""
    from agent_cli.cli.commands.mcp import add_server

    said: dict[str, str | int] = {"clientId": client_id, "callbackPort": callback_port}
    oauth = {key: value for key, value in said.items() if value}
    raise typer.Exit(add_server(name, target, scope, transport, env or [], header or [], oauth))


@mcp_app.command("remove")
def mcp_remove(name: Name, scope: Scope = "user") -> None:
    """Remove a server, and forget that it was approved."""
    from agent_cli.cli.commands.mcp import remove_server

    raise typer.Exit(remove_server(name, scope))


@mcp_app.command("test")
def mcp_test(name: Name, json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Start a server and list what it offers. Exit 1 where it does not come up."""
    from agent_cli.cli.commands.mcp import test_server

    raise typer.Exit(test_server(name, as_json=json))


@mcp_app.command("approve")
def mcp_approve(name: Name) -> None:
    """Agree to a server of the project as it is declared, and to the tools of a server as they are now."""
    from agent_cli.cli.commands.mcp import approve_server

    raise typer.Exit(approve_server(name))


Config = Annotated[
    list[str] | None,
    typer.Option("--mcp-config", metavar="FILE|JSON", help="Also servers that are declared there. Repeatable."),
]


@mcp_app.command("login")
def mcp_login(
    name: Name,
    mcp_config: Config = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only say where.")
    ] = True,
) -> None:
    """Log in to a server by OAuth: sign in in the browser, within 5 minutes. The address is also printed."""
    from agent_cli.cli.commands.mcp_login import log_in_to

    raise typer.Exit(log_in_to(name, RunOptions(mcp_config=tuple(mcp_config or ())), browser=browser))


@mcp_app.command("logout")
def mcp_logout(name: Name, mcp_config: Config = None) -> None:
    """Forget the login to a server."""
    from agent_cli.cli.commands.mcp_login import log_out_of

    raise typer.Exit(log_out_of(name, RunOptions(mcp_config=tuple(mcp_config or ()))))


@mcp_app.command("serve")
@takes(
    "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "tools", "add_dir",
    "settings", "trust", "bare", print=True,
)  # fmt: skip
def mcp_serve(options: RunOptions) -> None:
    """Offer the tools of this program to another one, over standard input and output. What would ask is refused."""
    from agent_cli.cli.commands.mcp_serve import serve_tools

    raise typer.Exit(serve_tools(options))
