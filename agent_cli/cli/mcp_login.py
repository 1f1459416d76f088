"""`agent mcp login` and `logout`: show the sign-in URL and wait for the browser's answer, with a time limit.

The only place that opens a browser, and only on the user's request. Includes the listener for the redirect: an address
on this machine that only accepts the answer to the pending login.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from agent_cli.config.schema import McpServer
from agent_cli.core.run_environment import RunEnvironment, UsageError
from agent_cli.headless.output import echo, print_notice, print_warning
from agent_cli.mcp.approvals import may_start
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import Login, LoginStore, LoginStoreError, has_auth_header, is_secure_url
from agent_cli.mcp.server import Loop
from agent_cli.runtime.mcp import approvals_of, logins_folder
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.mcp import oauth

PATH = "/callback"
_ANSWER_FIELDS = ("code", "state", "iss", "error", "error_description")
_MAX_PATH_CHARS = 16_384
_SUCCESS_PAGE = "The sign-in has returned to agent. You can close this page; the terminal shows the result."
_UNEXPECTED_PAGE = "This does not belong to the pending login and was not used."


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that closes the connection."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class RedirectListener:
    """Listens for the redirect of a login. port: 0 for any; a fixed one for clients registered with it. Raises OSError.

    uri: redirect address for the authorization server. With a fixed port it says localhost, as manual registrations of
        programs like this one usually do.
    """

    def __init__(self, port: int = 0) -> None:
        self._answers: SimpleQueue[dict[str, str]] = SimpleQueue()
        self._state = ""
        self._guard = threading.Lock()
        self._servers: list[_Server] = [_Server(("127.0.0.1", port), self._handler())]
        if port:
            # localhost may also mean ::1: listen there too, if the machine has it.
            try:
                self._servers.append(_Server6(("::1", port), self._handler()))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    self._servers[0].server_close()
                    raise
        self.uri = f"http://{'localhost' if port else '127.0.0.1'}:{self._servers[0].server_port}{PATH}"
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), name="redirect", daemon=True).start()

    def __enter__(self) -> RedirectListener:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def expect(self, address: str) -> None:
        """Accept only the answer to this sign-in URL."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]

    def accept(self, address: str) -> bool:
        """Return True if a redirected or pasted URL is the expected answer; it is used once."""
        try:
            parts = urlsplit(address.strip())
            answer = {k: v[0] for k, v in parse_qs(parts.query).items() if k in _ANSWER_FIELDS}
        except ValueError:
            return False
        with self._guard:
            if not self._state or parts.path != PATH or not {"code", "error"} & answer.keys():
                return False
            if not secrets.compare_digest(answer.get("state", "").encode(), self._state.encode()):
                return False
            self._state = ""
        self._answers.put(answer)
        return True

    def poll(self) -> dict[str, str] | None:
        """Return the browser's answer; None if it has not come yet."""
        try:
            return self._answers.get_nowait()
        except Empty:
            return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        accept = self.accept

        class Handler(BaseHTTPRequestHandler):
            timeout = 10
            server_version = "agent"
            sys_version = ""

            def do_GET(self) -> None:
                accepted = len(self.path) <= _MAX_PATH_CHARS and accept(self.path)
                text = (_SUCCESS_PAGE if accepted else _UNEXPECTED_PAGE).encode()
                self.send_response(200 if accepted else 400)
                for name, value in (
                    ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text))),
                    ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"), ("Connection", "close"),
                    ("X-Content-Type-Options", "nosniff"),
                ):  # fmt: skip
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: object) -> None:
                """Log nothing: the URL contains the code."""

        return Handler


# Time limit for the user to sign in.
SIGN_IN_SECONDS = 300.0
_REVOKE_SECONDS = 15.0
_POLL_SECONDS = 0.1
_MAX_LINE_BYTES = 65_536


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
                    typed = _read_pasted(typed, listener, say)
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


def _read_pasted(typed: int, listener: RedirectListener, say: Callable[[str], None]) -> int | None:
    """Check briefly for a pasted line; return where to read the next one, None at the end of input."""
    try:
        if not select.select([typed], [], [], _POLL_SECONDS)[0]:
            return typed
        line = os.read(typed, _MAX_LINE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    if line.strip() and not listener.accept(line):
        say("That is not the URL this sign-in was redirected to; it begins with " + listener.uri)
    return typed if line else None


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
        opens = browser and _can_open_browser(run_env)
        where = "in the browser that opens, or here" if opens else "here"
        print_notice(f"To log in to {name} ({found.line}), sign in {where}:")
        print_notice(address)
        if opens:
            # Some browsers block their starter until they exit.
            threading.Thread(target=_open_browser, args=(address,), daemon=True).start()
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


def _can_open_browser(run_env: RunEnvironment) -> bool:
    """Return True if a user seems to be at a display of this machine."""
    env = run_env.env
    if env.get("CI") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY") or env.get("BROWSER"))


def _open_browser(address: str) -> None:
    import webbrowser

    # If no browser can be started, the URL is still printed.
    with suppress(webbrowser.Error, OSError, ValueError):
        webbrowser.open(address)
