"""`agent mcp login` and `logout`: show the sign-in URL and wait for the browser's answer, with a time limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from agent_cli import RunEnvironment, UsageError
from agent_cli.config.schema import McpServer
from agent_cli.console import echo, print_notice, print_warning
from agent_cli.kernel.runtime.browser_login import RedirectListener, can_open_browser, open_browser, read_pasted
from agent_cli.kernel.runtime.mcp import approvals_of, logins_folder
from agent_cli.mcp.approvals import may_start
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import Login, LoginStore, LoginStoreError, has_auth_header, is_secure_url
from agent_cli.mcp.server import Loop
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.mcp import oauth

# Time limit for the user to sign in.
SIGN_IN_SECONDS = 300.0
_REVOKE_SECONDS = 15.0
_POLL_SECONDS = 0.1


def log_in(
    server: McpServer,
    show: Callable[[str], None],
    say: Callable[[str], None],
    typed: int | None = None,
    seconds: float = SIGN_IN_SECONDS,
) -> Login:
    """Log in to a server whose declaration has its variables substituted. Raises McpRequestError; Ctrl-C cancels it.

    show: called with the URL that the user has to open.
    say: called with messages.
    typed: descriptor on which the user may paste the URL that a browser on another machine was redirected to.
    """
    loop = Loop()

    def refuse() -> None:
        say("That is not the URL this sign-in was redirected to; it begins with " + listener.uri)

    try:
        port = server.oauth.get("callbackPort", 0)
        listener = RedirectListener(port if isinstance(port, int) else 0)
    except OSError as error:
        raise McpRequestError(f"port {port} of oauth.callbackPort is not free ({error.strerror or error})") from None
    with listener:
        address: Future[str] = Future()
        answer: Future[dict[str, str]] = Future()
        work = loop.submit(_authorize(server, listener.uri, address, answer))
        try:
            end = time.monotonic() + seconds
            shown = False
            while not work.done():
                if time.monotonic() > end:
                    raise McpRequestError(f"nobody signed in within {seconds:.0f} s")
                if not shown and address.done():
                    shown = True
                    listener.expect(address.result())
                    show(address.result())
                if (received := listener.poll()) is not None:
                    answer.set_result(received)
                if typed is not None and shown and not answer.done():
                    typed = read_pasted(typed, listener.accept, refuse)
                else:
                    time.sleep(_POLL_SECONDS)
            return _result(work)
        finally:
            loop.stop(1.0)


async def _authorize(server: McpServer, uri: str, address: Future[str], answer: Future[dict[str, str]]) -> Login:
    # Runs on the loop's thread: its first use imports for half a second.
    return await oauth.authorize(server, uri, address.set_result, answer)


def _result(work: Future[Login]) -> Login:
    try:
        return work.result()
    except CancelledError:
        raise McpRequestError("it was cancelled") from None


def revoke(login: Login) -> bool:
    """Revoke the tokens of a login at the authorization server, with a time limit; False if that failed."""
    loop = Loop()
    try:
        done: bool = loop.submit(_revoke(login)).result(_REVOKE_SECONDS)
    except TimeoutError:
        done = False
    finally:
        loop.stop(1.0)
    return done


async def _revoke(login: Login) -> bool:
    return await oauth.revoke(login)


def log_in_to(found: DeclaredServer, run_env: RunEnvironment, *, browser: bool) -> int:
    """Log in to a server; return 0, or 1 if that failed. Raises UsageError."""
    name = found.name
    if why := may_start(found, approvals_of(run_env), False):
        raise UsageError(f"The MCP server {name} of this project {why}. First: agent mcp approve {name}")
    server = _resolve_server(found, run_env)
    if has_auth_header(server):
        raise UsageError(f"The MCP server {name} is declared with an Authorization header, which is used instead.")
    if not is_secure_url(server.url, server.url):
        raise UsageError(f"The MCP server {name} does not use https, so no login is sent to it.")
    typed = sys.stdin.fileno() if sys.stdin.isatty() else None

    def show(address: str) -> None:
        opens = browser and can_open_browser(run_env.env)
        where = "in the browser that opens, or here" if opens else "here"
        print_notice(f"To log in to {name} ({found.line}), sign in {where}:")
        print_notice(address)
        if opens:
            open_browser(address)
        if typed is not None:
            print_notice("Ctrl-C cancels. If the browser is on another machine, paste the address it ends at here.")

    try:
        LoginStore(logins_folder(run_env)).save(server, log_in(server, show, print_notice, typed))
    except McpRequestError as refused:
        print_warning(f"The login to {name} failed: {one_line(str(refused))}.")
        return 1
    except LoginStoreError as unkept:
        print_warning(f"The login to {name} cannot be stored: {one_line(str(unkept))}.")
        return 1
    echo(f"Logged in to {name}. To list its tools: agent mcp test {name}")
    return 0


def log_out_of(found: DeclaredServer, run_env: RunEnvironment) -> int:
    """Remove the login to a server; return the exit code. Raises UsageError."""
    name = found.name
    server, logins = _resolve_server(found, run_env), LoginStore(logins_folder(run_env))
    login = logins.find(server)
    try:
        existed = logins.forget(server)
    except LoginStoreError as unkept:
        raise UsageError(f"The login to {name} was not deleted: {unkept}.") from None
    if existed:
        logins.mark(server, wanted=True)
    if login is not None and not revoke(login):
        print_notice("agent: The authorization server could not be reached; the tokens stay valid until they expire.")
    echo(f"Logged out of {name}." if existed else f"You were not logged in to {name}.")
    return 0


def _resolve_server(found: DeclaredServer, run_env: RunEnvironment) -> McpServer:
    if not found.server.url:
        raise UsageError(f"The MCP server {found.name} is a command; a login is for a server with a url.")
    try:
        return substitute_env(found.server, run_env.env)
    except MissingVariableError as error:
        raise UsageError(f"The MCP server {found.name}: {error}.") from None
