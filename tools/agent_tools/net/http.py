"""The HTTP client for models, web tools and hooks: one request, the response as a stream of bytes.

It uses http.client's response parser, because importing any client library takes longer than a whole one-shot run may.
It adds limits on every wait (connect, silence, total), immediate cancellation, and reuse of connections; one that the
server has closed meanwhile is replaced transparently. Proxies and certificates are taken from the environment.

It does not follow redirects, decompress or interpret the response: see `web_client` for untrusted servers, and
agent_cli/models/http_client.py for models.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic

from agent_tools.cancel import CancelToken
from agent_tools.net.connect import ConnectError, Route, dial, proxy_for, resolve_host, tls_context
from agent_tools.net.http_connection import CHUNK_BYTES, Body, Connection, ConnectionLostError, HttpError
from agent_tools.net.urls import Url
from agent_tools.record import Protocol, Value

MAX_IDLE_CONNECTIONS = 4


class Timeouts(Value):
    """Limits in seconds; 0 means no limit.

    connect: opening the connection.
    idle: silence before or within the response; MAX_KEEP_ALIVE_PERIODS times that if only keep-alives arrive.
    total: the whole exchange.
    idle_per_kb: added to idle for each 1,024 bytes sent, for a server that reads a long prompt in silence.
    """

    connect: float = 10.0
    idle: float = 120.0
    total: float = 600.0
    idle_per_kb: float = 0.0


class AddressGuard(Protocol):
    """Decides which addresses may be connected to; both methods raise for a forbidden one."""

    def check_address(self, host: str, text: str) -> None: ...

    def check_unknown(self, host: str) -> None: ...


class HttpResponse:
    """A response whose head has arrived. `done` makes the connection reusable, `close` drops it."""

    def __init__(self, http: HttpClient, connection: Connection, response: HTTPResponse) -> None:
        self.status = response.status
        self.host = connection.host
        self._http = http
        self._connection: Connection | None = connection
        self._headers = response.headers
        self._body = Body(response)

    @property
    def headers(self) -> dict[str, str]:
        """All headers by lower-case name; of a repeated one, the last."""
        return {name.lower(): value for name, value in self._headers.items()}

    def header(self, name: str) -> str:
        """Return a header's value, or ""."""
        return self._headers.get(name) or ""

    @property
    def content_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    def read(self) -> bytes:
        """Return the bytes that have arrived, waiting for at least one; b"" at the end.

        Raises CancelledError, or HttpError (cut, late, silent) if the response is cut off or takes too long.
        """
        if self._connection is None:
            return b""
        try:
            data = self._body.read()
        except (HTTPException, ConnectionLostError) as error:
            self._connection.check()
            message = f"The connection to {self.host} was lost in the middle of the response."
            raise HttpError("cut", message, retryable=True) from error
        if not data:
            self.done()
        return data

    def progress(self) -> None:
        """Mark the bytes read last as part of the response, not a keep-alive."""
        if self._connection is not None:
            self._connection.progress()

    def read_all(self, limit: int) -> bytes:
        """Read the whole body, but not more than `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while size < limit and (data := self.read()):
            pieces.append(data)
            size += len(data)
            if not data.isspace():
                self.progress()
        return b"".join(pieces)[:limit]

    def done(self) -> None:
        """Finish the exchange: the connection may serve the next request."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._http.reuse(connection, self._body)

    def close(self) -> None:
        """End the exchange. If the response was not read to its end, drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class HttpClient:
    """Sends requests and reuses connections. Thread-safe.

    env: environment with proxies and certificates, read at each request.
    guard: decides which addresses may be connected to; None for any.
    max_idle: maximum number of idle connections.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        env: Mapping[str, str] = os.environ,
        *,
        guard: AddressGuard | None = None,
        max_idle: int = MAX_IDLE_CONNECTIONS,
    ) -> None:
        self._timeouts = timeouts
        self._env = env
        self._guard = guard
        self._max_idle = max_idle
        self._idle: dict[Route, list[tuple[Connection, Body]]] = {}
        self._context: ssl.SSLContext | None = None

    def send(
        self,
        url: Url,
        headers: Mapping[str, str],
        body: bytes | None,
        cancel: CancelToken,
        *,
        no_idle_timeout: bool = False,
        until: float = 0.0,
    ) -> HttpResponse:
        """Send a request, POST if it has a body, and wait for the head of the response, whatever its status.

        no_idle_timeout: apply only the total limit, for responses that arrive in one piece.
        until: deadline that replaces the total limit, for several requests.
        Raises CancelledError or HttpError.
        """
        cancel.check()
        limits = self._timeouts
        until = until or (monotonic() + limits.total if limits.total else float("inf"))
        route = self._route(url)
        head = _head(url, route, headers, body)
        idle = 0.0 if no_idle_timeout or not limits.idle else limits.idle + limits.idle_per_kb * len(body or b"") / 1024
        while True:
            connection = self._take_idle(route)
            reused = connection is not None
            connection = connection or self._connect(route, cancel, until)
            try:
                connection.begin(cancel, idle, limits.total, until)
                return HttpResponse(
                    self, connection, _exchange(connection, head, body or b"", "GET" if body is None else "POST")
                )
            except ConnectionLostError as lost:
                connection.close()
                if not reused or connection.received:
                    message = f"{connection.host} closed the connection before responding."
                    raise HttpError("closed", message, retryable=True) from lost
            except HTTPException as error:
                connection.close()
                cancel.check()
                raise HttpError("not_http", f"{url.authority} did not answer in HTTP.") from error
            except BaseException:  # never reuse a connection in an unknown state; the caller reports the error
                connection.close()
                raise

    def reuse(self, connection: Connection, body: Body) -> None:
        """Keep an idle connection for the next request."""
        connection.end()
        if body.reusable and sum(map(len, self._idle.values())) < self._max_idle:
            self._idle.setdefault(connection.route, []).append((connection, body))
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            for connection, _ in self._idle.popitem()[1]:
                connection.close()

    def _take_idle(self, route: Route) -> Connection | None:
        while kept := self._idle.get(route):
            try:
                connection, body = kept.pop()
            except IndexError:  # another thread took the last one
                return None
            # The last bytes of a response may arrive after its reader has finished.
            if (body.ended or connection.drain(body)) and connection.is_idle():
                return connection
            connection.close()
        return None

    def _route(self, url: Url) -> Route:
        try:
            proxy = proxy_for(url.scheme, url.host, url.port, self._env)
            return Route(url.host, url.port, url.scheme == "https", proxy)
        except ConnectError as error:
            raise _unreachable(error) from error

    def _connect(self, route: Route, cancel: CancelToken, until: float) -> Connection:
        guard = self._guard
        seconds = min(self._timeouts.connect or float("inf"), until - monotonic())
        try:
            if guard is not None and route.proxy is not None:
                _check_behind_proxy(route, until, guard, cancel)
            if route.tls and self._context is None:
                self._context = tls_context(self._env)
            context = self._context if route.tls else None
            check: Callable[[str], None] | None = None
            if guard is not None:
                check = lambda text: guard.check_address(route.host, text)  # noqa: E731
            sock = dial(route, context, 0 if seconds == float("inf") else max(seconds, 0.001), cancel, check)
        except ConnectError as error:
            raise _unreachable(error) from error
        return Connection(sock, route)


def _exchange(connection: Connection, head: bytes, body: bytes, method: str) -> HTTPResponse:
    lost: ConnectionLostError | None = None
    try:
        # One packet for a small request; no copy of a large one.
        for part in (head + body,) if len(body) < CHUNK_BYTES else (head, body):
            connection.send(part)
    except ConnectionLostError as error:
        # The server may have responded before it had read the whole request.
        lost = error
    # The parser only needs makefile() of a socket.
    response = HTTPResponse(connection, method=method)  # type: ignore[arg-type]
    try:
        response.begin()
    except (ConnectionLostError, ConnectionError) as error:
        raise lost or ConnectionLostError() from error
    return response


def _head(url: Url, route: Route, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = {"Host": url.authority, "Accept-Encoding": "identity", "User-Agent": "agent-cli", **headers}
    if body is not None:
        lines["Content-Length"] = str(len(body))
    target = url.path
    # In a tunnel, the proxy gets no headers.
    if route.proxy and not route.tls:
        target = url.text
        if route.proxy.authorization:
            lines["Proxy-Authorization"] = route.proxy.authorization
    try:
        for name, value in lines.items():
            if not f"{name}{value}".isprintable():
                raise ValueError(name)
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{'GET' if body is None else 'POST'} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1")
    except ValueError as error:
        message = "The address, the API key or a header has characters that cannot be sent over HTTP."
        raise HttpError("header", message) from error


def _check_behind_proxy(route: Route, until: float, guard: AddressGuard, cancel: CancelToken) -> None:
    """Check the addresses of a host that a proxy will look up, if they can be looked up here too."""
    try:
        for found in resolve_host(route.host, route.port, until, cancel):
            guard.check_address(route.host, str(found[4][0]))
    except ConnectError:
        guard.check_unknown(route.host)


def _unreachable(error: ConnectError) -> HttpError:
    return HttpError("connect", str(error), retryable=error.retryable)
