"""A sign-in in the user's browser: the listener for its redirect, opening the browser, and pasting the answer instead.

The only place that opens a browser, and only on the user's request. The listener is an address on this machine that
accepts only the answer to the pending sign-in. A browser on another machine ends at that address without reaching it:
the user pastes the address.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

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

    secret_path: the answer is known by the path of the address, as the server sends no state back.

    uri: redirect address for the authorization server. With a fixed port it says localhost, as manual registrations of
        programs like this one usually do, and with a secret path, as OpenRouter documents it.
    """

    def __init__(self, port: int = 0, *, secret_path: bool = False) -> None:
        self._answers: SimpleQueue[dict[str, str]] = SimpleQueue()
        self._state = ""
        self._path = f"{PATH}/{secrets.token_urlsafe(24)}" if secret_path else PATH
        self._by_path = secret_path
        self._open = secret_path
        self._guard = threading.Lock()
        self._servers: list[_Server] = [_Server(("127.0.0.1", port), self._handler())]
        bound = self._servers[0].server_port
        if port or secret_path:
            # localhost may also mean ::1: listen there too, if the machine has it.
            try:
                self._servers.append(_Server6(("::1", bound), self._handler()))
            except OSError as error:
                if error.errno == errno.EADDRINUSE and port:
                    self._servers[0].server_close()
                    raise
        self.uri = f"http://{'localhost' if port or secret_path else '127.0.0.1'}:{bound}{self._path}"
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
        self._open = bool(self._state)

    def accept(self, address: str) -> bool:
        """Return True if a redirected or pasted URL is the expected answer; it is used once."""
        try:
            parts = urlsplit(address.strip())
            answer = {k: v[0] for k, v in parse_qs(parts.query).items() if k in _ANSWER_FIELDS}
        except ValueError:
            return False
        with self._guard:
            same_path = secrets.compare_digest(parts.path.encode(), self._path.encode())
            if not self._open or not same_path or not {"code", "error"} & answer.keys():
                return False
            state = answer.get("state", "")
            if not self._by_path and not secrets.compare_digest(state.encode(), self._state.encode()):
                return False
            self._open = False
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


_POLL_SECONDS = 0.1
_MAX_LINE_BYTES = 65_536


def read_pasted(typed: int, accept: Callable[[str], bool], refuse: Callable[[], None]) -> int | None:
    """Check briefly for a pasted line; return where to read the next one, None at the end of input.

    accept: takes a line; returns False if it is not the answer. refuse: called then.
    """
    try:
        if not select.select([typed], [], [], _POLL_SECONDS)[0]:
            return typed
        line = os.read(typed, _MAX_LINE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    if line.strip() and not accept(line):
        refuse()
    return typed if line else None


def can_open_browser(env: Mapping[str, str]) -> bool:
    """Return True if a user seems to be at a display of this machine."""
    if env.get("CI") or not (os.isatty(0) and os.isatty(2)):
        return False
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY") or env.get("BROWSER"))


def open_browser(address: str) -> None:
    """Open an address in the user's browser; returns at once."""
    # Some browsers block their starter until they exit.
    threading.Thread(target=_open, args=(address,), daemon=True).start()


def _open(address: str) -> None:
    import webbrowser

    # If no browser can be started, the URL is still printed.
    with suppress(webbrowser.Error, OSError, ValueError):
        webbrowser.open(address)
