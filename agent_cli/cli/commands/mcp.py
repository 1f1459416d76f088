"""Add, list, test and approve MCP servers, or serve tools as one."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_cli import Config, Layers, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, ListingGroup, check_choice, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.config.parsing import SettingsError, decode_json
from agent_cli.config.schema import McpServer
from agent_cli.config.server_keys import read_server
from agent_cli.console import echo, print_ignored, print_json, print_notice, print_warning, table
from agent_cli.kernel.runtime.mcp import approvals_of, logins_folder, make_setup
from agent_cli.kernel.session.store import state_folder
from agent_cli.mcp.approvals import changed_tools, server_state
from agent_cli.mcp.config import (
    PROJECT_FILE,
    DeclaredServer,
    McpEditError,
    MissingVariableError,
    change_json,
    change_toml,
    declaration_problem,
    find_servers,
    substitute_env,
)
from agent_cli.mcp.credentials import LoginStore, LoginStoreError, key_of
from agent_cli.policy.trust import fingerprints, grant_trust, keep_trust
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError
from agent_tools.text import counted, one_line, shorten

if TYPE_CHECKING:
    from agent_cli.mcp.manager import Servers
    from agent_cli.mcp.server import Server

with lazy_imports():
    from agent_cli.cli import (
        mcp_login,  # with an HTTP server for the redirect
        serve_tools,  # the SDK and the engine
    )
    from agent_cli.mcp import manager  # the SDK, half a second

app = typer.Typer(cls=ListingGroup, add_completion=False)
_SCOPES = ("user", "project", "local")
# Of a project, for one user.
_LOCAL_FILE = ".agentrc.local"
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


def load_servers(config: Config | None = None) -> tuple[RunEnvironment, Layers, dict[str, DeclaredServer]]:
    """Return the servers in effect by name, and report problems of declarations. Raises UsageError."""
    config = config or Config()
    run_env = find_environment(os.environ)
    layers = read_settings(config, run_env)
    found, problems = find_servers(config, run_env, layers)
    print_ignored((*layers.ignored, *problems))
    return run_env, layers, {f.name: f for f in found}


def find_server(name: str, found: dict[str, DeclaredServer], layers: Layers) -> DeclaredServer:
    """Return a server by name. Raises UsageError if there is none."""
    if name in found:
        return found[name]
    known = f"The servers are: {', '.join(found)}." if found else "There are none."
    hint = (
        "" if layers.trust.state in ("plain", "trusted") else " The servers of this project are used once you trust it."
    )
    raise UsageError(f"There is no MCP server {shorten(name, 60)}. {known}{hint}")


def _state(found: DeclaredServer, run_env: RunEnvironment, layers: Layers) -> str:
    return server_state(found, layers, approvals_of(run_env), LoginStore(logins_folder(run_env)), run_env.env)


@app.command("list", epilog=examples("agent mcp list"))
def list_servers(as_json: AsJson = False) -> int:
    """List the declared servers, and whether they may start. Starts nothing."""
    run_env, layers, found = load_servers()
    if as_json:
        print_json([
            {"name": f.name, "type": f.kind, "scope": f.scope, "source": f.source,
             "state": _state(f, run_env, layers), "target": f.line}
            for f in found.values()
        ])  # fmt: skip
        return 0
    rows = [(f.name, f.kind, f.scope, _state(f, run_env, layers), shorten(f.line, 80)) for f in found.values()]
    empty = "There are no MCP servers. To add one: agent mcp add NAME -- COMMAND"
    echo("\n".join(table(("NAME", "TYPE", "SCOPE", "STATE", "TARGET"), rows)) if rows else empty)
    return 0


@app.command("get", epilog=examples("agent mcp get github"))
def get_server(name: Name) -> int:
    """Show how a server is declared; values of your environment variables and headers are hidden."""
    run_env, layers, found = load_servers()
    echo("\n".join(declaration_lines(find_server(name, found, layers), run_env, layers)))
    return 0


def declaration_lines(found: DeclaredServer, run_env: RunEnvironment, layers: Layers) -> list[str]:
    """Format a declaration; secrets only by name."""
    server = found.server
    lines = [
        f"{found.name}: {_state(found, run_env, layers)}",
        f"  declared in  {one_line(found.source)}",
        f"  {'reaches' if server.url else 'runs'}  {found.line}",
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
    return _add(name, server, scope)


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
    try:
        server, notes = read_server(name, decode_json(text, "the declaration"))
    except (SettingsError, DecodeError) as error:
        raise UsageError(f"Nothing was changed: {one_line(str(error))}.") from None
    for note in notes:
        print_notice(f"{name}: {note}")
    return _add(name, server, scope)


def _declared(run_env: RunEnvironment, name: str, server: McpServer, scope: str) -> DeclaredServer:
    """Return a server as the file of a scope declares it."""
    files = {"project": run_env.root / PROJECT_FILE, "local": run_env.root / _LOCAL_FILE}
    path = files.get(scope, (run_env.home or run_env.root) / ".agentrc")
    return DeclaredServer(name, server, str(path), "user" if scope == "user" else "project")


def _add(name: str, server: McpServer, scope: str) -> int:
    """Add a server to the file of a scope. Raises UsageError."""
    run_env = find_environment(os.environ)
    found = _declared(run_env, name, server, scope)
    if why := declaration_problem(found):
        raise UsageError(f"{why[0].upper()}{why[1:]}.")
    _change(run_env, found, server)
    echo(f"Added {name} to {found.source}. To try it: agent mcp test {name}")
    return 0


@app.command("remove", epilog=examples("agent mcp remove time"))
def remove_server(name: Name, scope: Scope = "user") -> int:
    """Remove a server and its approval."""
    run_env = find_environment(os.environ)
    found = _declared(run_env, name, McpServer(), scope)
    path = found.source
    declared, _ = find_servers(Config(), run_env, read_settings(Config(), run_env))
    if scope == "user" and [f.source for f in declared if f.name == name] == [str(run_env.root / PROJECT_FILE)]:
        raise UsageError(
            f"Nothing was changed: {path} has no MCP server {name}. This project's .mcp.json has one: "
            f"agent mcp remove {name} --scope project"
        )
    _change(run_env, found, None)
    for gone in declared:
        if (gone.name, gone.scope) == (name, found.scope):
            _forget_login(gone, [f for f in declared if f is not gone], run_env)
    echo(f"Removed {name} from {path}.")
    return 0


def _forget_login(gone: DeclaredServer, others: list[DeclaredServer], run_env: RunEnvironment) -> None:
    """Also remove the stored login, unless another declaration uses the same one."""

    def key(found: DeclaredServer) -> tuple[str, ...]:
        with suppress(MissingVariableError):
            return key_of(substitute_env(found.server, run_env.env))
        return ()

    if key(gone) not in ((), *map(key, others)):
        with suppress(LoginStoreError):
            LoginStore(logins_folder(run_env)).forget(substitute_env(gone.server, run_env.env))


def _change(run_env: RunEnvironment, found: DeclaredServer, server: McpServer | None) -> None:
    """Change the file; renew a project's trust, and approve what the user adds.

    Raises UsageError.
    """
    root, state = run_env.root, state_folder(run_env.env)
    change = change_json if found.source.endswith(".json") else change_toml
    try:
        if found.scope == "user":
            if run_env.home is None:
                raise UsageError("There is no home folder for settings; use --scope project.")
            change_toml(Path(found.source), found.name, server)
        elif run_env.root == run_env.home:
            raise UsageError("Your home folder is not a project; use --scope user.")
        elif read_settings(Config(), run_env).trust.state == "plain":
            change(Path(found.source), found.name, server)
            # The project had no settings before, so trusting it covers only this change.
            grant_trust(root, state, fingerprints(root))
        else:
            keep_trust(root, state, lambda: change(Path(found.source), found.name, server))
    except McpEditError as error:
        raise UsageError(f"Nothing was changed: {error}.") from None
    approvals = approvals_of(run_env)
    why = approvals.approve(found) if server is not None and found.scope == "project" else approvals.forget(found)
    if why:
        print_warning(f"the approval of {found.name}: {why}.")


def _pairs(texts: list[str], separator: str, flag: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, there, value = text.partition(separator)
        if not there or not name.strip():
            raise UsageError(f"{flag}: {shorten(text, 60)!r} is not NAME{separator}VALUE.")
        found[name.strip()] = value.strip() if separator == ":" else value
    return found


def _start_server(
    found: DeclaredServer, run_env: RunEnvironment, layers: Layers, *, trusted: bool
) -> tuple[Servers, Server, float]:
    """Start a server and wait for it; the caller closes it."""
    settings = layers.settings()
    setup = make_setup(Config(trust=trusted), run_env, settings, print_notice)
    # Also if it is disabled.
    servers = manager.Servers([found.replace(server=found.server.replace(disabled=False))], setup)
    started = time.monotonic()
    try:
        servers.wait(setup.start_timeout + 1)
    except BaseException:  # also an interrupt: no server is left running; the error is reported where the command ends
        servers.close()
        raise
    return servers, servers.all[found.name], time.monotonic() - started


@app.command("test", epilog=examples("agent mcp test time"))
def test_server(name: Name, as_json: AsJson = False) -> int:
    """Start a server and list what it offers. Exits with 1 if it does not start."""
    run_env, layers, every = load_servers()
    found = find_server(name, every, layers)
    servers, server, seconds = _start_server(found, run_env, layers, trusted=False)
    try:
        if as_json:
            print_json(_report(server, seconds))
        elif server.status == "ready":
            echo(f"{name}: up after {seconds:.1f} s, {one_line(server.about) or 'without a name'}, {server.protocol}")
            for offer in server.tools.values():
                echo(f"  {offer.full}  {shorten(offer.description, 80)}")
            for what, names in (("resources", server.resources), ("prompts", server.prompts)):
                if names:
                    echo(f"  {what}: {shorten(', '.join(names), 400)}")
        print_ignored(servers.take_notifications())
        return 0 if server.status == "ready" else 1
    finally:
        servers.close()


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
    run_env, layers, every = load_servers()
    found = find_server(name, every, layers)
    echo("\n".join(declaration_lines(found, run_env, layers)))
    approvals = approvals_of(run_env)
    entry = approvals.find(found)
    servers, server, _ = _start_server(found, run_env, layers, trusted=True)
    try:
        marks = server.fingerprints if server.status == "ready" else None
        if marks is None:
            print_warning(f"it did not start ({one_line(server.reason)}); its tools are approved when it does.")
        changes = changed_tools(entry.tools if entry is not None else {}, marks or {})
        for offer in server.all_offers:
            word = changes.get(offer.full, "as before")
            echo(f"  {offer.full} ({word})  {shorten(offer.description, 200)}")
    finally:
        servers.close()
    if why := approvals.approve(found, marks):
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
    run_env, layers, found = load_servers(Config(servers=tuple(mcp_config or ())))
    return mcp_login.log_in_to(find_server(name, found, layers), run_env, browser=browser)


@app.command("logout", epilog=examples("agent mcp logout docs"))
def logout_of_server(name: Name, mcp_config: ServerFiles = None) -> int:
    """Log out of a server and delete the stored login."""
    run_env, layers, found = load_servers(Config(servers=tuple(mcp_config or ())))
    return mcp_login.log_out_of(find_server(name, found, layers), run_env)


@app.command("serve", epilog=examples("agent mcp serve --allowedTools Read,Grep,Glob"))
@with_run_options(
    "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "tools", "add_dir",
    "settings", "trust", "bare", print=True,
)  # fmt: skip
def mcp_serve(config: Config) -> int:
    """Serve the tools of this program over standard input and output. Calls that need approval are refused."""
    return serve_tools.serve_tools(config)
