"""`agent mcp login` and `logout`: the only place that opens a browser, and only on the user's request."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

from agent_cli.config.schema import McpServer
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.headless.printing import echo, print_notice
from agent_cli.mcp.approvals import may_start
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import Logins, TokenStoreError, has_own_key, is_secure_url
from agent_cli.runtime.mcp import approvals_of, logins_folder
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.mcp import login as mcp_login  # the listener, and the SDK


def log_in_to(found: DeclaredServer, place: RunEnvironment, *, browser: bool) -> int:
    """Log in to a server; return 0, or 1 if that failed. Raises UsageError."""
    name = found.name
    if why := may_start(found, approvals_of(place), False):
        raise UsageError(f"The MCP server {name} of this project {why}. First: agent mcp approve {name}")
    server = _reached(found, place)
    if has_own_key(server):
        raise UsageError(f"The MCP server {name} is declared with an Authorization header, which is used instead.")
    if not is_secure_url(server.url, server.url):
        raise UsageError(f"The MCP server {name} is not reached by https, so nothing of a login is sent to it.")
    typed = sys.stdin.fileno() if sys.stdin.isatty() else None

    def show(address: str) -> None:
        opens = browser and _may_open(place)
        where = "in the browser that opens, or here" if opens else "here"
        print_notice(f"To log in to {name} ({found.line}), sign in {where}:")
        print_notice(address)
        if opens:
            # Some browsers block their starter until they exit.
            threading.Thread(target=_open, args=(address,), daemon=True).start()
        if typed is not None:
            print_notice(
                "Ctrl-C ends this. Where the browser is on another machine, paste here the address it ends at."
            )

    try:
        Logins(logins_folder(place)).keep(server, mcp_login.log_in(server, show, print_notice, typed))
    except McpRequestError as refused:
        print_notice(f"agent: The login to {name} did not come about: {one_line(str(refused))}.")
        return 1
    except TokenStoreError as unkept:
        print_notice(f"agent: The login to {name} cannot be kept: {one_line(str(unkept))}.")
        return 1
    echo(f"Logged in to {name}. What it offers: agent mcp test {name}")
    return 0


def log_out_of(found: DeclaredServer, place: RunEnvironment) -> int:
    """Remove the login to a server; return the exit code. Raises UsageError."""
    name = found.name
    server, logins = _reached(found, place), Logins(logins_folder(place))
    login = logins.of(server)
    try:
        there = logins.forget(server)
    except TokenStoreError as unkept:
        raise UsageError(f"The login to {name} is still there: {unkept}.") from None
    if there:
        logins.mark(server, wanted=True)
    if login is not None and not mcp_login.revoke(login):
        print_notice("agent: The authorization server could not be told, and takes the tokens until they run out.")
    echo(f"Logged out of {name}." if there else f"You were not logged in to {name}.")
    return 0


def _reached(found: DeclaredServer, place: RunEnvironment) -> McpServer:
    if not found.server.url:
        raise UsageError(f"The MCP server {found.name} is a command; a login is for a server with a url.")
    try:
        return substitute_env(found.server, place.env)
    except MissingVariableError as error:
        raise UsageError(f"The MCP server {found.name}: {error}.") from None


def _may_open(place: RunEnvironment) -> bool:
    """Return True if a user seems to sit at this machine."""
    env = place.env
    if env.get("CI") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY") or env.get("BROWSER"))


def _open(address: str) -> None:
    import webbrowser

    # If no browser can be started, the URL is still printed.
    with suppress(webbrowser.Error, OSError, ValueError):
        webbrowser.open(address)
