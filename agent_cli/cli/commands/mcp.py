"""Add, list, test and approve MCP servers, or serve tools as one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_cli import Config, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, ListingGroup, check_choice, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.config.schema import McpServer
from agent_cli.console import echo, print_ignored, print_json, print_notice, print_warning, table
from agent_cli.kernel.runtime.configured_servers import ConfiguredServers
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted, one_line, shorten

if TYPE_CHECKING:
    from agent_cli.mcp.config import DeclaredServer
    from agent_cli.mcp.server import Server

with lazy_imports():
    from agent_cli.cli import serve_tools  # the SDK and the engine

app = typer.Typer(cls=ListingGroup, add_completion=False)
_SCOPES = ("user", "project", "local")
_TRANSPORTS = ("stdio", "http", "sse")
Name = Annotated[
    str, typer.Argument(help="Name of the server.", metavar="NAME", autocompletion=completion.complete_servers)
]
Scope = Annotated[
    str,
    typer.Option("--scope", "-s", metavar="SCOPE", callback=check_choice(_SCOPES),
                 autocompletion=completion.one_of_choices(_SCOPES),
                 help="Where to declare it: user (~/.agentrc), project (.mcp.json), or local (.agentrc.local)."),
]  # fmt: skip
ServerFiles = Annotated[
    list[str] | None,
    typer.Option("--mcp-config", metavar="FILE|JSON", help="Add servers from a file or JSON text."),
]


def load_servers(config: Config | None = None) -> ConfiguredServers:
    """Return the servers in effect, and report problems of declarations. Raises UsageError."""
    config = config or Config()
    run_env = find_environment(os.environ)
    layers = read_settings(config, run_env)
    servers = ConfiguredServers(run_env, layers, config)
    print_ignored((*layers.ignored, *servers.problems))
    return servers


@app.command("list", epilog=examples("agent mcp list"))
def list_servers(as_json: AsJson = False) -> int:
    """List the declared servers, and whether they may start. Starts nothing."""
    servers = load_servers()
    found = [(each, servers.state(each)) for each in servers.all.values()]
    if as_json:
        print_json([
            {"name": f.name, "type": f.kind, "scope": f.scope, "source": f.source, "state": state, "target": f.line}
            for f, state in found
        ])  # fmt: skip
        return 0
    rows = [(f.name, f.kind, f.scope, state, shorten(f.line, 80)) for f, state in found]
    empty = "There are no MCP servers. To add one: agent mcp add NAME -- COMMAND"
    echo("\n".join(table(("NAME", "TYPE", "SCOPE", "STATE", "TARGET"), rows)) if rows else empty)
    return 0


@app.command("get", epilog=examples("agent mcp get github"))
def get_server(name: Name) -> int:
    """Show how a server is declared; values of your environment variables and headers are hidden."""
    servers = load_servers()
    found = servers.find(name)
    echo("\n".join(declaration_lines(found, servers.state(found))))
    return 0


def declaration_lines(found: DeclaredServer, state: str) -> list[str]:
    """Format a declaration; secrets only by name."""
    lines = [
        f"{found.name}: {state}",
        f"  declared in  {one_line(found.source)}",
        f"  {'reaches' if found.server.url else 'runs'}  {found.line}",
    ]
    return lines + [f"  {word}  {value}" for word, value in found.described_inputs.items()]


@app.command(
    "add",
    epilog=examples(
        "agent mcp add docs https://example.org/mcp",
        "agent mcp add time -- uvx mcp-server-time",
        "agent mcp add git --scope project -- uvx mcp-server-git",
    ),
)
def add_server(
    name: Annotated[str, typer.Argument(help="Name of the new server.", metavar="NAME")],
    target: Annotated[
        list[str], typer.Argument(metavar="URL | -- COMMAND [ARGS]...", help="URL to connect to, or command to run.")
    ],
    scope: Scope = "user",
    transport: Annotated[
        str,
        typer.Option("--transport", "-t", metavar="TRANSPORT", callback=check_choice(("", *_TRANSPORTS)),
                     autocompletion=completion.one_of_choices(_TRANSPORTS),
                     help=f"How to connect: {one_of(_TRANSPORTS)}.",
                     show_default="http for a URL, otherwise stdio"),
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment variable for the command."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="HTTP header for the URL.")
    ] = None,
    client_id: Annotated[
        str,
        typer.Option("--client-id", metavar="ID", help="Log in as this client; for servers without registration."),
    ] = "",
    callback_port: Annotated[
        int,
        typer.Option("--callback-port", metavar="PORT", help="Port the client is registered with.",
                     show_default="any free port"),
    ] = 0,
) -> int:  # fmt: skip
    """Add a server. ${NAME} and ${NAME:-default} are replaced by environment variables, as in --env KEY='${KEY}'."""
    oauth = {key: value for key, value in (("clientId", client_id), ("callbackPort", callback_port)) if value}
    url = target[0] if len(target) == 1 and target[0].startswith(("http://", "https://")) else ""
    pairs: dict[str, Any] = {
        "env": _pairs(env or [], "=", "--env"),
        "headers": _pairs(header or [], ":", "--header"),
        "oauth": oauth,
    }
    if url:
        server = McpServer(url=url, type="sse" if transport == "sse" else "", **pairs)
    else:
        if transport in ("http", "sse"):
            raise UsageError(f"--transport {transport} needs a URL.")
        server = McpServer(command=target[0], args=tuple(target[1:]), **pairs)
    return _report_added(name, *ConfiguredServers(find_environment(os.environ)).add(name, server, scope))


@app.command(
    "add-json",
    epilog=examples("""agent mcp add-json time '{"command": "uvx", "args": ["mcp-server-time"]}'"""),
)
def add_from_json(
    name: Annotated[str, typer.Argument(help="Name of the new server.", metavar="NAME")],
    declaration: Annotated[str, typer.Argument(help="Its declaration, as in .mcp.json; - reads it.", metavar="JSON")],
    scope: Scope = "user",
) -> int:
    """Add a server that is declared in JSON, as in .mcp.json."""
    text = sys.stdin.read() if declaration == "-" else declaration
    path, problem, notes = ConfiguredServers(find_environment(os.environ)).add_json(name, text, scope)
    for note in notes:
        print_notice(f"{name}: {note}")
    return _report_added(name, path, problem)


def _report_added(name: str, path: str, problem: str) -> int:
    _warn_of_approval(name, problem)
    echo(f"Added {name} to {path}. To try it: agent mcp test {name}")
    return 0


def _warn_of_approval(name: str, problem: str) -> None:
    if problem:
        print_warning(f"the approval of {name}: {problem}.")


@app.command("remove", epilog=examples("agent mcp remove time"))
def remove_server(name: Name, scope: Scope = "user") -> int:
    """Remove a server and its approval."""
    path, problem = ConfiguredServers(find_environment(os.environ)).remove(name, scope)
    _warn_of_approval(name, problem)
    echo(f"Removed {name} from {path}.")
    return 0


def _pairs(texts: list[str], separator: str, flag: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, there, value = text.partition(separator)
        if not there or not name.strip():
            raise UsageError(f"{flag}: {shorten(text, 60)!r} is not NAME{separator}VALUE.")
        found[name.strip()] = value.strip() if separator == ":" else value
    return found


@app.command("test", epilog=examples("agent mcp test time"))
def test_server(name: Name, as_json: AsJson = False) -> int:
    """Start a server and list what it offers. Exits with 1 if it does not start."""
    servers = load_servers()
    with servers.trying(servers.find(name), print_notice, trusted=False) as tried:
        server = tried.server
        if as_json:
            print_json(_report(server, tried.seconds))
        elif server.status == "ready":
            about = one_line(server.about) or "without a name"
            echo(f"{name}: up after {tried.seconds:.1f} s, {about}, {server.protocol}")
            for offer in server.tools.values():
                echo(f"  {offer.full}  {shorten(offer.description, 80)}")
            for what, names in (("resources", server.resources), ("prompts", server.prompts)):
                if names:
                    echo(f"  {what}: {shorten(', '.join(names), 400)}")
        print_ignored(tried.take_notices())
        return 0 if server.status == "ready" else 1


def _report(server: Server, seconds: float) -> dict[str, Any]:
    return {
        "name": server.name,
        "status": server.status,
        "reason": server.reason,
        "seconds": round(seconds, 2),
        "protocol": server.protocol,
        "tools": list(server.tools),
        "withheld": server.withheld,
        "resources": list(server.resources),
        "prompts": list(server.prompts),
    }


@app.command("approve", epilog=examples("agent mcp approve git"))
def approve_server(name: Name) -> int:
    """Approve the current declaration of a project server, and the current tools of a server."""
    servers = load_servers()
    found = servers.find(name)
    echo("\n".join(declaration_lines(found, servers.state(found))))
    with servers.trying(found, print_notice, trusted=True) as tried:
        marks = tried.fingerprints
        if marks is None:
            reason = one_line(tried.server.reason)
            print_warning(f"it did not start ({reason}); its tools are approved when it does.")
        changes = servers.tool_changes(found, tried)
        for offer in tried.server.all_offers:
            word = changes.get(offer.full, "as before")
            echo(f"  {offer.full} ({word})  {shorten(offer.description, 200)}")
    if why := servers.approve(found, marks):
        raise UsageError(f"{name} is not approved: {why}.")
    echo(f"Approved {name} with {counted(len(marks or ()), 'tool')}, until the declaration or a tool changes.")
    return 0


@app.command("login", epilog=examples("agent mcp login docs", "agent mcp login docs --no-browser"))
def login_to_server(
    name: Name,
    mcp_config: ServerFiles = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
) -> int:
    """Log in to a server with OAuth: sign in in the browser within 5 minutes. The address is also printed."""
    servers = load_servers(Config(servers=tuple(mcp_config or ())))
    found = servers.find(name)
    typed = sys.stdin.fileno() if sys.stdin.isatty() else None

    def show(address: str, opens: bool) -> None:
        where = "in the browser that opens, or here" if opens else "here"
        print_notice(f"To log in to {name} ({found.line}), sign in {where}:")
        print_notice(address)
        if typed is not None:
            print_notice("Ctrl-C cancels. If the browser is on another machine, paste the address it ends at here.")

    if why := servers.sign_in(found, show, print_notice, typed, browser=browser):
        print_warning(why)
        return 1
    echo(f"Logged in to {name}. To list its tools: agent mcp test {name}")
    return 0


@app.command("logout", epilog=examples("agent mcp logout docs"))
def logout_of_server(name: Name, mcp_config: ServerFiles = None) -> int:
    """Log out of a server and delete the stored login."""
    servers = load_servers(Config(servers=tuple(mcp_config or ())))
    existed, stays_valid = servers.sign_out(servers.find(name))
    if stays_valid:
        print_notice("agent: The authorization server could not be reached; the tokens stay valid until they expire.")
    echo(f"Logged out of {name}." if existed else f"You were not logged in to {name}.")
    return 0


@app.command("serve", epilog=examples("agent mcp serve --allowedTools Read,Grep,Glob"))
@with_run_options(
    "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "tools", "add_dir",
    "settings", "trust", "bare", print=True,
)  # fmt: skip
def mcp_serve(config: Config) -> int:
    """Serve the tools of this program over standard input and output. Calls that need approval are refused."""
    return serve_tools.serve_tools(config)
