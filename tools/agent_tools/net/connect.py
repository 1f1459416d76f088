"""Open a connected socket: proxy selection, name lookup, connect, tunnel, TLS.

All steps share one deadline and end within hundredths of a second once the token is cancelled. Names are looked
up in a daemon thread, because the resolver cannot be interrupted; connecting polls in short intervals; after that,
cancelling shuts the socket down, which ends any blocked call on it.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import errno
import ipaddress
import os
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from urllib.parse import unquote, urlsplit

from agent_tools.cancel import CancelToken
from agent_tools.record import Value

POLL_SECONDS = 0.05
_THE_PROXY = "This is the proxy that the environment sets; NO_PROXY names hosts to reach without it."
# What OpenSSL makes of a first answer that is not TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


class ConnectError(Exception):
    """The connection failed; the message says why. retryable: another try may succeed."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class Proxy(Value):
    """An HTTP proxy. authorization: value of the Proxy-Authorization header, if any."""

    host: str
    port: int
    authorization: str = ""


class Route(Value):
    """How to reach a server. proxy: None for a direct connection."""

    host: str
    port: int
    tls: bool
    proxy: Proxy | None = None


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy that the environment sets for a server. Raises ConnectError for an unusable one."""
    address = _env_value(env, f"{scheme}_proxy")
    # In a CGI program, HTTP_PROXY is the client's "Proxy:" header, not a setting.
    if scheme == "http" and "REQUEST_METHOD" in env:
        address = env.get("http_proxy", "")
    address = address or _env_value(env, "all_proxy")
    if not address or is_bypassed(host, port, _env_value(env, "no_proxy")):
        return None
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        proxy_host, proxy_port = parts.hostname, parts.port
    except ValueError:
        parts, proxy_host, proxy_port = None, None, None
    if parts is None or not proxy_host:
        raise ConnectError("The proxy set in the environment is not a usable address.", retryable=False)
    if parts.scheme != "http":
        message = f"A proxy of type {parts.scheme}:// is not supported; set an http:// proxy or NO_PROXY."
        raise ConnectError(message, retryable=False)
    authorization = ""
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(proxy_host, proxy_port or 80, authorization)


def _env_value(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def is_bypassed(host: str, port: int, no_proxy: str) -> bool:
    """Return True if NO_PROXY covers the host: `*`, a name or domain, with or without a port, an address, a network."""
    number = _parse_address(host)
    for entry in no_proxy.replace(",", " ").lower().split():
        if entry == "*":
            return True
        if number and "/" in entry:
            try:
                if number in ipaddress.ip_network(entry, strict=False):
                    return True
            except ValueError:
                pass
            continue
        name, _, wanted = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if wanted and wanted != str(port):
            continue
        name = name.lstrip("*").lstrip(".")
        if name and (host == name or host.endswith("." + name)):
            return True
    return False


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Make a TLS context with the system's certificates, or those of SSL_CERT_FILE, SSL_CERT_DIR or REQUESTS_CA_BUNDLE.

    Raises ConnectError naming the variable if its file cannot be read.
    """
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        if bundle := env.get(name):
            path = Path(bundle)
            try:
                if path.is_dir():
                    return ssl.create_default_context(capath=bundle)
                return ssl.create_default_context(cafile=bundle)
            except OSError as error:
                reason = error.strerror or "not a certificate bundle"
                raise ConnectError(
                    f"{name} names {bundle}, which cannot be used: {reason}.", retryable=False
                ) from error
    # OpenSSL reads SSL_CERT_DIR by itself.
    return ssl.create_default_context()


def dial(
    route: Route,
    context: ssl.SSLContext | None,
    seconds: float,
    cancel: CancelToken,
    check: Callable[[str], None] | None = None,
) -> socket.socket:
    """Connect to the route's server, with its tunnel and TLS; return the socket.

    seconds: limit for all steps together; 0 means no limit.
    check: called with every address of the host before connecting; raises if one must not be used. Not called with a
    proxy, which looks the host up itself.
    Raises ConnectError or CancelledError.
    """
    until = monotonic() + seconds if seconds else float("inf")
    if route.proxy:
        try:
            sock = _connect(route.proxy.host, route.proxy.port, until, cancel, None)
        except ConnectError as error:
            raise ConnectError(f"{error} {_THE_PROXY}", retryable=error.retryable) from error
    else:
        sock = _connect(route.host, route.port, until, cancel, check)

    # Wrapping moves the descriptor to a new object, so look up the current one when cancelled.
    def wake() -> None:
        shut_down(sock)

    forget = cancel.on_cancel(wake)
    try:
        cancel.check()
        sock.settimeout(_remaining(until))
        if route.proxy and route.tls:
            _open_tunnel(sock, route)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=route.host, do_handshake_on_connect=False)
            cancel.check()
            sock.settimeout(_remaining(until))
            sock.do_handshake()
        return sock
    except BaseException as error:  # also for an interrupt: leave no socket open; the caller reports the error
        sock.close()
        cancel.check()
        if isinstance(error, OSError):
            raise _describe_failure(error, route) from error
        raise
    finally:
        forget()


def shut_down(sock: socket.socket) -> None:
    """Shut down both directions, so that a call blocked on the socket returns. Closing alone does not do that."""
    with contextlib.suppress(OSError):
        # Not SSLSocket.shutdown: that drops the TLS state while another thread is reading.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _remaining(until: float) -> float | None:
    return None if until == float("inf") else max(until - monotonic(), 0.001)


def _describe_failure(error: OSError, route: Route) -> ConnectError:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = (error.verify_message or "not trusted").rstrip(".")
        message = (
            f"The certificate of {route.host} was not accepted ({reason}). "
            "If your network has its own certificate authority, point SSL_CERT_FILE to its bundle."
        )
        return ConnectError(message, retryable=False)
    if isinstance(error, TimeoutError):
        return ConnectError(f"{route.host} did not finish the connection in time.")
    reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
    if reason in _NOT_TLS:
        message = f"{route.host}:{route.port} does not speak TLS; if that is meant, its address begins with http://."
        return ConnectError(message, retryable=False)
    return ConnectError(f"The connection to {route.host} failed: {reason}.")


def _connect(
    host: str, port: int, until: float, cancel: CancelToken, check: Callable[[str], None] | None
) -> socket.socket:
    addresses = resolve_host(host, port, until, cancel)
    if check is not None:
        for found in addresses:
            check(str(found[4][0]))
    reason = "no address"
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        # A dead address must not use up the time for the others.
        share = monotonic() + (until - monotonic()) / (len(addresses) - position)
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            reason = error.strerror or str(error)
            continue
        try:
            code = _connect_one(sock, address, share, cancel)
        except BaseException:  # as above
            sock.close()
            raise
        if not code:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock.close()
        reason = "no answer in time" if code == errno.ETIMEDOUT else os.strerror(code).lower()
    raise ConnectError(f"Could not connect to {host}:{port}: {reason}.")


def _connect_one(sock: socket.socket, address: tuple[object, ...], until: float, cancel: CancelToken) -> int:
    """Connect; return 0 or an errno."""
    cancel.check()
    sock.setblocking(False)
    code = sock.connect_ex(address)
    if code not in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR):
        return code
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while not poll.poll(POLL_SECONDS * 1000):
        cancel.check()
        if monotonic() >= until:
            return errno.ETIMEDOUT
    cancel.check()
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


Addresses = list[tuple[int, int, int, str, tuple[object, ...]]]


def resolve_host(host: str, port: int, until: float, cancel: CancelToken) -> Addresses:
    """Look up the addresses of a host, as `getaddrinfo` returns them. Raises ConnectError or CancelledError."""
    found: Addresses = []
    problem: list[Exception] = []

    def ask() -> None:
        try:
            # As bytes: a str makes Python load its IDNA tables.
            name = host.encode("ascii") if host.isascii() else host
            found.extend(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            problem.append(error)

    if host == "localhost" or _parse_address(host):
        ask()
    else:
        # Not the module threading, which nothing else needs before the first request.
        ended = _thread.allocate_lock()
        ended.acquire()

        def look_up() -> None:
            try:
                ask()
            finally:
                ended.release()

        _thread.start_new_thread(look_up, ())
        while not ended.acquire(timeout=POLL_SECONDS):
            cancel.check()
            if monotonic() >= until:
                raise ConnectError(f"Looking up {host} took too long.")
    if problem:
        error = problem[0]
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a valid name"
        raise ConnectError(f"Could not find the host {host}: {reason}.") from error
    return found


def _open_tunnel(sock: socket.socket, route: Route) -> None:
    assert route.proxy is not None
    host = f"[{route.host}]" if ":" in route.host else route.host
    head = f"CONNECT {host}:{route.port} HTTP/1.1\r\nHost: {host}:{route.port}\r\n"
    if route.proxy.authorization:
        head += f"Proxy-Authorization: {route.proxy.authorization}\r\n"
    sock.sendall((head + "\r\n").encode("latin-1", "replace"))
    answer = bytearray()
    # Byte by byte: what follows the blank line belongs to TLS.
    while not answer.endswith(b"\r\n\r\n") and len(answer) < 65536:
        byte = sock.recv(1)
        if not byte:
            break
        answer += byte
    status = bytes(answer).split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(None, 2)
    if len(words) < 2 or words[1] != "200":
        reason = " ".join(words[1:]) or "no answer"
        proxy = f"{route.proxy.host}:{route.proxy.port}"
        raise ConnectError(f"The proxy {proxy} refused to connect to {route.host}: {reason}.", retryable=False)
