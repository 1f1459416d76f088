"""Sign in to an MCP server: show the address and wait for the browser's answer, with a time limit; and sign out."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from agent_cli.config.schema import McpServer
from agent_cli.kernel.runtime.browser_login import RedirectListener, read_pasted
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.credentials import Login
from agent_cli.mcp.server import Loop
from agent_tools.lazy import lazy_imports

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
