"""A login from start to end: an address for the user to open, and what the browser brings back, within bounds."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from agent_cli.config.schema import McpServer
from agent_cli.extensions.mcp.loop import Loop
from agent_cli.extensions.mcp.offers import McpRequestError
from agent_cli.extensions.mcp.redirects import Redirects

if TYPE_CHECKING:
    from agent_cli.extensions.mcp.logins import Login

# So long a user may take to sign in.
LIMIT = 300.0
_REVOCATION = 15.0
_LOOK = 0.1
_LINE = 65_536


def log_in(
    server: McpServer,
    show: Callable[[str], None],
    say: Callable[[str], None],
    typed: int | None = None,
    seconds: float = LIMIT,
) -> Login:
    """Log in to a server whose declaration is filled in. Raises McpRequestError; an interrupt ends it.

    show: takes the address that the user is to open. say: takes a sentence. typed: where a user may paste the
    address that a browser on another machine was sent back to.
    """
    loop = Loop()
    try:
        port = server.oauth.get("callbackPort", 0)
        redirects = Redirects(port if isinstance(port, int) else 0)
    except OSError as error:
        raise McpRequestError(f"port {port} of oauth.callbackPort is not free ({error.strerror or error})") from None
    with redirects:
        address: Future[str] = Future()
        answer: Future[dict[str, str]] = Future()
        work = loop.submit(_authorize(server, redirects.uri, address, answer))
        try:
            end = time.monotonic() + seconds
            shown = False
            while not work.done():
                if time.monotonic() > end:
                    raise McpRequestError(f"nobody signed in within {seconds:.0f} s")
                if not shown and address.done():
                    shown = True
                    redirects.expect(address.result())
                    show(address.result())
                if (came := redirects.answer()) is not None:
                    answer.set_result(came)
                if typed is not None and shown and not answer.done():
                    typed = _read_pasted(typed, redirects, say)
                else:
                    time.sleep(_LOOK)
            return _result(work)
        finally:
            loop.stop(1.0)


async def _authorize(server: McpServer, uri: str, address: Future[str], answer: Future[dict[str, str]]) -> Login:
    # Half a second of imports, on the loop's own thread.
    from agent_cli.extensions.mcp.oauth import authorize

    return await authorize(server, uri, address.set_result, answer)


def _result(work: Future[Login]) -> Login:
    try:
        return work.result()
    except CancelledError:
        raise McpRequestError("it was ended") from None


def _read_pasted(typed: int, redirects: Redirects, say: Callable[[str], None]) -> int | None:
    """Look for a pasted line for a moment; where the next one comes from, None at the end of the input."""
    try:
        if not select.select([typed], [], [], _LOOK)[0]:
            return typed
        line = os.read(typed, _LINE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    if line.strip() and not redirects.take(line):
        say("That is not the address that this sign-in led to; it begins with " + redirects.uri)
    return typed if line else None


def revoke(login: Login) -> bool:
    """Have the authorization server forget the tokens of a login, within bounds; False where that failed."""
    loop = Loop()
    try:
        done: bool = loop.submit(_revoke(login)).result(_REVOCATION)
    except TimeoutError:
        done = False
    finally:
        loop.stop(1.0)
    return done


async def _revoke(login: Login) -> bool:
    from agent_cli.extensions.mcp.oauth import revoke

    return await revoke(login)
