"""HTTP/1.1 for a proxy between an untrusted client and an untrusted server: parse heads, filter what passes.

Heads of requests are parsed strictly, since attacks exploit differences between parsers. Bodies are never buffered.
h11 is no substitute: its version 0.16 accepts lines that end in a bare LF, folded headers, control characters in values
and Content-Length beside Transfer-Encoding, and refuses a CONNECT without Host, which programs send.
"""

from __future__ import annotations

import re
import socket
from http import HTTPStatus
from time import monotonic

from agent_tools.net.connect import Proxy
from agent_tools.net.relay import CHUNK_BYTES, Filter, RefusedError
from agent_tools.net.urls import Url, split_url
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.profile import canonical_host

MAX_HEAD_BYTES = 65536
HEAD_SECONDS = 30.0
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade".split()
)
_FRAMING = frozenset({"content-length", "transfer-encoding", "host"})


class ProxyRequest(Value):
    """The head of a request. headers: as written, in order."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Return all values of a header, by its lower-case name."""
        return [value for n, value in self.headers if n.lower() == name]


class RequestBody(Filter):
    """Passes the body of one request and drops what follows, which would be an unchecked request."""

    def __init__(self, request: ProxyRequest) -> None:
        lengths, coding = set(request.values("content-length")), request.values("transfer-encoding")
        if coding and ([c.lower() for c in coding] != ["chunked"] or lengths or request.version != "HTTP/1.1"):
            raise proxy_answer(HTTPStatus.BAD_REQUEST, "The length of the body is unclear")
        if len(lengths) > 1 or not all(re.fullmatch(r"\d{1,18}", length, re.ASCII) for length in lengths):
            raise proxy_answer(HTTPStatus.BAD_REQUEST, "The length of the body is unclear")
        # Bytes until the next line of a chunked body, or the end of another.
        self._left = int(lengths.pop()) if lengths else 0
        self._state = "size" if coding else "end"
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        forwarded = bytearray()
        buffer = self._buffer
        buffer += data
        while buffer:
            if self._left:
                taken = min(self._left, len(buffer))
                forwarded += buffer[:taken]
                del buffer[:taken]
                self._left -= taken
            elif self._state == "end":
                buffer.clear()
            elif (end := buffer.find(b"\r\n")) >= 0:
                self._check_line(bytes(buffer[:end]))
                forwarded += buffer[: end + 2]
                del buffer[: end + 2]
            elif len(buffer) > MAX_HEAD_BYTES:
                raise RefusedError
            else:
                break
        return bytes(forwarded)

    def end(self) -> bytes:
        if self._left or self._state != "end":
            raise RefusedError
        return b""

    def _check_line(self, line: bytes) -> None:
        if re.search(rb"[\0-\x08\x0a-\x1f\x7f]", line):
            raise RefusedError
        if self._state == "size":
            size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", line)
            if size is None:
                raise RefusedError
            self._left = int(size[1], 16)
            self._state = "after" if self._left else "trailer"
        elif self._state == "after":
            if line:
                raise RefusedError
            self._state = "size"
        elif not line:
            self._state = "end"


class ResponseHead(Filter):
    """Removes hop-by-hop headers from a response; the body passes unchanged."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._buffer = b""
        self._started = False

    def feed(self, data: bytes) -> bytes:
        if self._started:
            return data
        self._buffer += data
        forwarded = b""
        while not self._started and (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            status = re.match(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r|$)", head)
            if status is None:
                raise proxy_answer(HTTPStatus.BAD_GATEWAY, f"{self._host} did not respond in HTTP")
            self._started = status[1] >= b"200" or status[1] == b"101"
            forwarded += _response_head(head, last=self._started)
        if not self._started and len(self._buffer) > MAX_HEAD_BYTES:
            raise proxy_answer(HTTPStatus.BAD_GATEWAY, f"The response headers of {self._host} are too long")
        return forwarded + self._buffer if self._started else forwarded

    def end(self) -> bytes:
        if not self._started:
            raise proxy_answer(HTTPStatus.BAD_GATEWAY, f"{self._host} closed the connection before responding")
        return b""


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Read the head of a request and the bytes after it; b"" if the client left. One time limit for all of it."""
    until = monotonic() + HEAD_SECONDS
    data = bytearray()
    try:
        while (end := data.find(b"\r\n\r\n", max(len(data) - CHUNK_BYTES - 3, 0))) < 0 and len(data) <= MAX_HEAD_BYTES:
            client.settimeout(max(until - monotonic(), 0.001))
            piece = client.recv(CHUNK_BYTES)
            if not piece:
                return b"", b""
            if monotonic() > until:
                raise TimeoutError
            data += piece
    except TimeoutError:
        raise proxy_answer(HTTPStatus.REQUEST_TIMEOUT, "The headers did not arrive in time") from None
    if not 0 <= end <= MAX_HEAD_BYTES:
        raise proxy_answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too long")
    return bytes(data[:end]), bytes(data[end + 4 :])


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a request head strictly: reject anything that another program could parse differently."""
    first, *lines = head.decode("latin-1").split("\r\n")
    line = re.fullmatch(rf"({_TOKEN}) ([!-~]+) (HTTP/1\.[01])", first)
    headers = [re.fullmatch(rf"({_TOKEN}):[ \t]*([\t -~\x80-\xff]*?)[ \t]*", text) for text in lines]
    if line is None or None in headers:
        raise proxy_answer(HTTPStatus.BAD_REQUEST, "This is an HTTP proxy, and the request is malformed")
    return ProxyRequest(line[1], line[2], line[3], tuple((h[1], h[2]) for h in headers if h))


def connect_target(target: str) -> tuple[str, int]:
    """Return the host and port of CONNECT."""
    named = re.fullmatch(r"(.+):(\d{1,5})", target, re.ASCII)
    try:
        host, port = (canonical_host(named[1]), int(named[2])) if named else ("", 0)
    except ValueError:
        host, port = "", 0
    if not 0 < port < 65536:
        raise proxy_answer(HTTPStatus.BAD_REQUEST, "CONNECT needs a host and a port")
    return host, port


def plain_url(request: ProxyRequest) -> Url:
    """Return the address of a plain HTTP request, which must match its Host header."""
    try:
        url = split_url(request.target)
        hosts = {split_url(f"http://{value}/").authority for value in request.values("host")}
    except ToolError:
        raise proxy_answer(HTTPStatus.BAD_REQUEST, "This is an HTTP proxy: it needs a complete address") from None
    if url.scheme != "http":
        raise proxy_answer(HTTPStatus.BAD_REQUEST, "Use CONNECT for https")
    if hosts != {url.authority} and (hosts or request.version != "HTTP/1.0"):
        raise proxy_answer(HTTPStatus.BAD_REQUEST, f"The Host header is not {url.authority}")
    return url


def request_head(request: ProxyRequest, url: Url, upstream: Proxy | None) -> bytes:
    dropped = _HOP_BY_HOP | _connection_headers(request.values("connection")) | _FRAMING
    lines = [f"{request.method} {url.text if upstream else url.path} {request.version}", f"Host: {url.authority}"]
    lines += [f"{name}: {value}" for name, value in request.headers if name.lower() not in dropped]
    for name in ("Content-Length", "Transfer-Encoding"):
        lines += [f"{name}: {value}" for value in request.values(name.lower())[:1]]
    if upstream is not None and upstream.authorization:
        lines.append(f"Proxy-Authorization: {upstream.authorization}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def _response_head(head: bytes, *, last: bool) -> bytes:
    status, *lines = re.sub(rb"\r\n[ \t]+", b" ", head).split(b"\r\n")
    named = [(line.partition(b":")[0].strip().lower().decode("latin-1"), line) for line in lines]
    values = [line.partition(b":")[2].decode("latin-1") for name, line in named if name == "connection"]
    dropped = _HOP_BY_HOP | _connection_headers(values) - _FRAMING
    made = [status, *(line for name, line in named if name not in dropped), *([b"Connection: close"] if last else [])]
    return b"\r\n".join([*made, b"", b""])


def _connection_headers(values: list[str]) -> frozenset[str]:
    """Return the headers named in Connection headers."""
    return frozenset(word.strip().lower() for value in values for word in value.split(","))


def proxy_answer(status: HTTPStatus, why: str) -> RefusedError:
    """Make a response of this proxy. The status line has the reason too, since programs show only that for a tunnel."""
    reason = re.sub(r"[^ -~]", "?", why)
    body = f"{why}\n".encode()
    head = f"HTTP/1.1 {status.value} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return RefusedError(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
