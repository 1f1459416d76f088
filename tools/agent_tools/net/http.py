"""One HTTP exchange with a server that is not trusted: bounded in time, bytes and redirects, and in where it leads.

It stands on http.client's response parser. Every wait ends at one deadline, so a server that drips gains nothing by
it; cancelling shuts the socket down. No cookies, no credentials, no connection is kept.
"""

from __future__ import annotations

import io
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any
from urllib.parse import urljoin

from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.net.connect import DialError, Proxy, Route, dial, look_up, proxy_for, shut_down, tls_context
from agent_tools.net.private_addresses import Guard
from agent_tools.net.urls import Url, same_site, split_url
from agent_tools.record import Value

PIECE = 65536
# A packed body may become this many times as large as an unpacked one may be.
UNPACKED = 2
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "User-Agent": "agent-cli",
    "Accept": "text/markdown, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


class WebLimits(Value):
    """max_bytes: of a body, as sent. Seconds: for everything together, and for connecting."""

    max_bytes: int = 5_000_000
    timeout: float = 30.0
    connect_timeout: float = 10.0
    max_redirects: int = 5


class WebResponse(Value):
    """What a server said. headers: by lower-case name. cut: why the body is not whole, in words; "" where it is."""

    url: Url
    status: int
    headers: dict[str, str]
    body: bytes
    cut: str = ""


class Moved(Value):
    """A redirect that leads to another server, or with less encryption, and was not followed."""

    status: int
    target: str


class WebClient:
    """What requests are made with. guard: None where any address may be reached, as the user named the server."""

    def __init__(self, limits: WebLimits, env: Mapping[str, str], guard: Guard | None, cancel: CancelToken) -> None:
        self._limits = limits
        self._env = env
        self._guard = guard
        self._cancel = cancel
        self._context: ssl.SSLContext | None = None

    def get(self, url: Url) -> WebResponse | Moved:
        """A page, redirects on the same site followed. Raises ToolError, or Cancelled."""
        until = monotonic() + self._limits.timeout
        seen = [url]
        while True:
            answer = self._exchange(seen[-1], "GET", {}, b"", until)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target = _target(seen[-1], location)
            if not same_site(seen[-1], target):
                return Moved(answer.status, target.text)
            if target in seen:
                raise ToolError(f"{url.text} redirects in a circle, by way of {target.text}.")
            if len(seen) > self._limits.max_redirects:
                raise ToolError(f"{url.text} redirects more than {self._limits.max_redirects} times; the last went to "
                                f"{target.text}.")  # fmt: skip
            seen.append(target)

    def send(self, url: Url, headers: Mapping[str, str], body: bytes | None = None) -> WebResponse:
        """One request, POST where it has a body; no redirect is followed. Raises ToolError, or Cancelled."""
        until = monotonic() + self._limits.timeout
        return self._exchange(url, "GET" if body is None else "POST", headers, body or b"", until)

    def _exchange(self, url: Url, method: str, headers: Mapping[str, str], body: bytes, until: float) -> WebResponse:
        sock, proxy = self._connect(url, until)
        wire = _Wire(sock, until)
        forget = self._cancel.on_cancel(lambda: shut_down(sock))
        try:
            self._cancel.check()
            # Through a tunnel nothing is said to the proxy.
            plain = proxy if url.scheme == "http" else None
            wire.send(_head(url, method, headers, len(body), plain) + body)
            # The parser asks no more of a socket than makefile().
            response = HTTPResponse(wire, method=method)  # type: ignore[arg-type]
            response.begin()
            found = {name.lower(): value for name, value in response.getheaders()}
            data, cut = self._body(response, found.get("content-encoding", ""), url)
            self._cancel.check()
            return WebResponse(url, response.status, found, data, cut)
        except (OSError, HTTPException) as error:
            self._cancel.check()
            if isinstance(error, TimeoutError):
                raise self._late(url) from None
            if isinstance(error, OSError):
                raise ToolError(f"{url.host} closed the connection before it answered. Try once more.") from None
            raise ToolError(f"{url.host}:{url.port} did not answer in HTTP.") from None
        finally:
            forget()
            sock.close()

    def _connect(self, url: Url, until: float) -> tuple[socket.socket, Proxy | None]:
        """A connection, and the proxy that it goes through."""
        tls = url.scheme == "https"
        try:
            proxy = proxy_for(url.scheme, url.host, url.port, self._env)
            if proxy is not None and self._guard is not None:
                self._check_behind_proxy(url, until, self._guard)
            check: Callable[[str], None] | None = None
            if self._guard is not None:
                guard = self._guard
                check = lambda text: guard.check_address(url.host, text)  # noqa: E731
            if tls and self._context is None:
                self._context = tls_context(self._env)
            seconds = max(min(self._limits.connect_timeout, until - monotonic()), 0.001)
            route = Route(url.host, url.port, tls, proxy)
            return dial(route, self._context if tls else None, seconds, self._cancel, check), proxy
        except DialError as error:
            raise ToolError(str(error)) from None

    def _check_behind_proxy(self, url: Url, until: float, guard: Guard) -> None:
        """The proxy looks the name up; what can be known of it here is held against the guard."""
        try:
            for found in look_up(url.host, url.port, until, self._cancel):
                guard.check_address(url.host, str(found[4][0]))
        except DialError:
            guard.check_unknown(url.host)

    def _body(self, response: HTTPResponse, encoding: str, url: Url) -> tuple[bytes, str]:
        """The body as it was before it was packed, and why it is not whole."""
        unpack = _unpacker(encoding, UNPACKED * self._limits.max_bytes, url)
        pieces: list[bytes] = []
        raw = 0
        try:
            while data := response.read1(PIECE):
                raw += len(data)
                pieces.append(unpack(data))
                if raw > self._limits.max_bytes:
                    return b"".join(pieces), f"only the first {self._limits.max_bytes:,} bytes were read"
        except _TooLargeError as error:
            pieces.append(error.data)
            return b"".join(pieces), f"only {UNPACKED * self._limits.max_bytes:,} bytes of it were unpacked"
        except TimeoutError:
            if not pieces:
                raise
            return b"".join(pieces), f"the rest had not come after {self._limits.timeout:g} s"
        except (OSError, HTTPException, ValueError, zlib.error):
            return b"".join(pieces), "the connection broke off, or the data is damaged"
        # With a length, http.client takes any end of the connection for the end of the answer.
        return b"".join(pieces), "the connection broke off" if response.length else ""

    def _late(self, url: Url) -> ToolError:
        return ToolError(f"{url.host} took longer than {self._limits.timeout:g} s. Try later, or another source.")


class _TooLargeError(Exception):
    """A packed body grows beyond its bound. data: what of the last piece still fits."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Wire(io.RawIOBase):
    """A socket as http.client's parser sees it, with one deadline for everything."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock = sock
        self._until = until

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self, PIECE)

    def readable(self) -> bool:
        return True

    def send(self, data: bytes) -> None:
        self._limit()
        self._sock.sendall(data)

    def readinto(self, buffer: Any) -> int:
        self._limit()
        return self._sock.recv_into(buffer)

    def _limit(self) -> None:
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)


def _head(url: Url, method: str, headers: Mapping[str, str], size: int, proxy: Proxy | None) -> bytes:
    lines = {"Host": url.authority, **_HEADERS, **headers}
    if method == "POST":
        lines["Content-Length"] = str(size)
    if proxy is not None and proxy.authorization:
        lines["Proxy-Authorization"] = proxy.authorization
    if not all(value.isascii() and value.isprintable() for value in lines.values()):
        raise ToolError("A key has characters that cannot be sent over HTTP.")
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {url.path if proxy is None else url.text} HTTP/1.1\r\n{head}\r\n".encode("ascii")


def _target(url: Url, location: str) -> Url:
    """Where a redirect leads. Raises ToolError."""
    # Header bytes arrive as Latin-1; what is meant is UTF-8.
    text = location.encode("latin-1", "replace").decode("utf-8", "replace").strip().replace(" ", "%20")
    try:
        return split_url(urljoin(url.text, text))
    except (ToolError, ValueError):
        raise ToolError(f"{url.text} redirects to something that is no web address.") from None


def _unpacker(encoding: str, most: int, url: Url) -> Callable[[bytes], bytes]:
    """What undoes a content encoding piece by piece, and raises _TooLarge where more than `most` bytes come of it."""
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        return lambda data: data
    if name not in ("gzip", "deflate"):
        raise ToolError(f"{url.host} sent its answer in an encoding that was not asked for ({name[:20]!r}).")
    made = 0
    # 47: zlib finds out by itself whether it is gzip or zlib; what calls itself deflate may also be neither.
    stream = zlib.decompressobj(47)
    first = True

    def unpack(data: bytes) -> bytes:
        nonlocal made, stream, first
        if first and name == "deflate" and data[0] & 0x0F != 8:
            stream = zlib.decompressobj(-15)
        first = False
        pieces = []
        while data:
            pieces.append(stream.decompress(data, most - made + 1))
            made += len(pieces[-1])
            if made > most:
                raise _TooLargeError(b"".join(pieces)[: most - made])
            data = stream.unconsumed_tail
            if stream.eof:
                # A gzip file may have several members; zeros behind the last are padding.
                data = stream.unused_data.lstrip(b"\0") if name == "gzip" else b""
                stream = zlib.decompressobj(47) if data else stream
        return b"".join(pieces)

    return unpack
