"""The HTTP proxy through which sandboxed commands reach the hosts of `sandbox.domains`, and no others.

It runs in this process, outside the sandbox, and serves a socket that listens inside. Commands use it like any proxy:
CONNECT for TLS, complete addresses for plain HTTP. Names are looked up here, once, and the checked address is the one
that is connected to. The server name of a TLS connection (SNI, read from its first bytes) and the Host of a request
must be the allowed host. Requests inside TLS to a shared server, or in a tunnel without TLS, cannot be inspected.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from time import monotonic

from agent_tools.net.connect import ConnectError, Proxy, Route, dial, proxy_for, resolve_host
from agent_tools.net.relay import CONNECT_SECONDS, ConnectionServer, Filter, RefusedError, relay
from agent_tools.net.web_client import describe_private
from agent_tools.sandbox.profile import canonical_host, domain_entry, host_matches, parse_domain
from agent_tools.sandbox.proxy_http import (
    ProxyRequest,
    RequestBody,
    ResponseHead,
    connect_target,
    parse_request,
    plain_url,
    proxy_answer,
    read_head,
    request_head,
)

# RFC 8446, 5.1: maximum length of an unencrypted record.
MAX_RECORD_BYTES = 1 << 14
_CHANGE_CIPHER, _HANDSHAKE, _HEARTBEAT = 20, 22, 24
_SERVER_NAME = 0


def parse_server_name(data: bytes) -> str | None:
    """Return the server name in a ClientHello; "" if there is none or it is not TLS; None if more bytes are needed.

    Raises ValueError for a TLS connection whose first record is not a complete ClientHello: the rest could have a name.
    """
    if data and (not _CHANGE_CIPHER <= data[0] <= _HEARTBEAT or data[1:2] not in (b"", b"\x03")):
        return ""
    if len(data) < 5:
        return None
    size = int.from_bytes(data[3:5], "big")
    if data[0] != _HANDSHAKE or not 4 <= size <= MAX_RECORD_BYTES or data[5:6] not in (b"", b"\x01"):
        raise ValueError("no ClientHello")
    if len(data) < 5 + size:
        return None
    return _parse_client_hello(_Cursor(data[5 : 5 + size]))


def _parse_client_hello(record: _Cursor) -> str:
    record.take(1)
    hello = _Cursor(record.take_sized(3))
    hello.take(2 + 32)
    for width in (1, 2, 1):  # session, cipher suites, compression
        hello.take_sized(width)
    extensions = _Cursor(hello.take_sized(2) if hello.left else b"")
    names = []
    while extensions.left:
        kind, data = extensions.number(2), extensions.take_sized(2)
        if kind == _SERVER_NAME:
            entries = _Cursor(_Cursor(data).take_sized(2))
            while entries.left:
                entries.take(1)
                names.append(entries.take_sized(2).decode("ascii"))
    if len(names) > 1:
        raise ValueError("several server names")
    return names[0] if names else ""


class _Cursor:
    """Reads bytes from the front. Raises ValueError if there are not enough."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def take_sized(self, width: int) -> bytes:
        """Return the bytes after a length of `width` bytes."""
        return self.take(self.number(width))


IDLE_SECONDS = 600.0
# Behind another proxy, a name is looked up only for the check, and the lookup often fails.
LOOKUP_SECONDS = 3.0
MAX_REMEMBERED_NAMES = 100
# A fatal alert: access_denied.
_TLS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"


def proxy_environment(port: int, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables that make common programs use a proxy on a port of 127.0.0.1.

    env: their environment; its options for Java tools are retained. Java has no variable that makes every
    program use a proxy silently (each reports JAVA_TOOL_OPTIONS on stderr), so build tools are configured one by one.
    """
    address, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    variables = {"NO_PROXY": direct, "no_proxy": direct, "NODE_USE_ENV_PROXY": "1"}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        variables[name] = variables[name.lower()] = address
    # These read configuration files first, which may name an unreachable proxy.
    variables |= {"npm_config_proxy": address, "npm_config_https_proxy": address, "npm_config_noproxy": direct}
    variables["CARGO_HTTP_PROXY"] = address
    java = " ".join(f"-D{s}.proxyHost=127.0.0.1 -D{s}.proxyPort={port}" for s in ("http", "https"))
    for name in ("MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS"):
        variables[name] = f"{(env or {}).get(name, '')} {java}".strip()
    return variables


class SandboxProxy(ConnectionServer):
    """Serves a listening socket as a proxy until it is closed.

    domains: patterns as in `profile.py`; raises ValueError for an invalid one.
    env: the user's environment, which may name a proxy to go through.
    on_refused: called with each rejected host, in the thread that rejects it.
    """

    BUSY = proxy_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections at once").reply

    def __init__(
        self,
        listener: socket.socket,
        domains: Collection[str],
        *,
        env: Mapping[str, str],
        on_refused: Callable[[str], None] = lambda entry: None,
    ) -> None:
        self._env = dict(env)
        self._on_refused = on_refused
        self._refused: dict[str, None] = {}
        self._refused_lock = threading.Lock()
        self._unknown: set[str] = set()
        self.set_domains(domains)
        super().__init__(listener, "sandbox-proxy")

    def set_domains(self, domains: Collection[str]) -> None:
        """Replace the patterns for new connections. Raises ValueError for an invalid one."""
        for text in domains:
            parse_domain(text)
        self._domains = tuple(domains)

    @property
    def refused(self) -> tuple[str, ...]:
        """The patterns missing in sandbox.domains, in the order of rejection, each once."""
        with self._refused_lock:
            return tuple(self._refused)

    def take_refused(self) -> tuple[str, ...]:
        """Return `refused` and empty it."""
        with self._refused_lock:
            taken = tuple(self._refused)
            self._refused.clear()
        return taken

    def serve(self, client: socket.socket) -> None:
        head, rest = read_head(client)
        if not head:
            return
        request = parse_request(head)
        try:
            if request.method == "CONNECT":
                self._tunnel(client, request, rest)
            else:
                self._forward(client, request, rest)
        except ConnectError as error:
            raise proxy_answer(HTTPStatus.BAD_GATEWAY, str(error)) from None

    def _tunnel(self, client: socket.socket, request: ProxyRequest, rest: bytes) -> None:
        host, port = connect_target(request.target)
        server, _ = self._connect(host, port, tunnel=True)
        with server:
            client.settimeout(IDLE_SECONDS)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            up = _ServerNameFilter(lambda name: self._check_server_name(name, host, port))
            relay(client, server, self.cancel, up=up, first=rest, idle=IDLE_SECONDS)

    def _forward(self, client: socket.socket, request: ProxyRequest, rest: bytes) -> None:
        url = plain_url(request)
        body = RequestBody(request)
        server, upstream = self._connect(url.host, url.port, tunnel=False)
        with server:
            server.settimeout(IDLE_SECONDS)
            server.sendall(request_head(request, url, upstream))
            relay(client, server, self.cancel, up=body, down=ResponseHead(url.host), first=rest, idle=IDLE_SECONDS)

    def _connect(self, host: str, port: int, *, tunnel: bool) -> tuple[socket.socket, Proxy | None]:
        """Connect to an allowed host; return the socket and the proxy that it goes through."""
        if not host_matches(host, self._domains, port):
            raise self._record_refusal(domain_entry(host, port))
        upstream = proxy_for("https" if tunnel else "http", host, port, self._env)
        if upstream is not None:
            self._check_behind_proxy(host, port)
        # With `tls`, the route is a tunnel through the proxy, if there is one.
        route = Route(host, port, tunnel, upstream)
        check = lambda text: self._check_address(host, port, text)  # noqa: E731
        return dial(route, None, CONNECT_SECONDS, self.cancel, check), upstream

    def _check_behind_proxy(self, host: str, port: int) -> None:
        """Check the addresses of a host that another proxy will look up, if they can be looked up here too."""
        if host in self._unknown:
            return
        try:
            found = resolve_host(host, port, monotonic() + LOOKUP_SECONDS, self.cancel)
        except ConnectError:
            if len(self._unknown) < MAX_REMEMBERED_NAMES:
                self._unknown.add(host)
            return
        for each in found:
            self._check_address(host, port, str(each[4][0]))

    def _check_address(self, host: str, port: int, text: str) -> None:
        """Reject an address in this machine or its network; anyone can make a name resolve to one."""
        address = ip_address(text.partition("%")[0])
        kind = describe_private(address)
        if kind and not host_matches(str(address), self._domains, port):
            entry = domain_entry(str(address), port)
            raise self._record_refusal(
                entry, f"{host} leads to {entry}, {kind} address, which is not in sandbox.domains"
            )

    def _check_server_name(self, name: str, host: str, port: int) -> None:
        try:
            spelled = canonical_host(name)
        except ValueError:
            raise RefusedError(_TLS_DENIED) from None
        if spelled != host and not host_matches(spelled, self._domains, port):
            self._record_refusal(domain_entry(spelled, port))
            raise RefusedError(_TLS_DENIED)

    def _record_refusal(self, entry: str, why: str = "") -> RefusedError:
        """Record a rejected host; return the error."""
        with self._refused_lock:
            new = entry not in self._refused and len(self._refused) < MAX_REMEMBERED_NAMES
            if new:
                self._refused[entry] = None
        if new:
            self._on_refused(entry)
        return proxy_answer(HTTPStatus.FORBIDDEN, why or f"{entry} is not in sandbox.domains")


class _ServerNameFilter(Filter):
    """Buffers a client's first bytes until they show whether it uses TLS, and with which server name."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self._check = check
        self._buffer = b""
        self._decided = False

    def feed(self, data: bytes) -> bytes:
        if self._decided:
            return data
        self._buffer += data
        try:
            name = parse_server_name(self._buffer)
        except ValueError:
            raise RefusedError(_TLS_DENIED) from None
        if name is None:
            return b""
        if name:
            self._check(name)
        self._decided = True
        return self._buffer
