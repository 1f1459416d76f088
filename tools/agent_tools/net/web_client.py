"""Requests to untrusted servers, with limits on bytes, redirects, time and addresses.

No cookies, no credentials, no reused connections. Responses are decompressed here, up to a limit.

Private addresses are rejected: this machine, its network, and metadata services of clouds. A page or prompt may direct
the model there (server-side request forgery). The list follows the special-purpose registries (RFC 6890
and its successors for IPv4 and IPv6); the table is our own, as Python's differs between releases.
"""

from __future__ import annotations

import contextlib
import ipaddress
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from time import monotonic
from urllib.parse import urljoin

from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpClient, HttpResponse, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.urls import Url, ascii_host, same_site, split_url
from agent_tools.record import Value
from agent_tools.results import ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PRIVATE_NETWORKS = (
    ("this machine's own", "127.0.0.0/8 ::1/128 0.0.0.0/8 ::/128"),
    # Link-local addresses of clouds, and others: Azure, EC2 over IPv6.
    ("the metadata service of a cloud's", "169.254.169.254/32 168.63.129.16/32 fd00:ec2::254/128"),
    ("a link-local", "169.254.0.0/16 fe80::/10"),
    ("a private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
    ("a provider's internal", "100.64.0.0/10"),
    ("a multicast", "224.0.0.0/4 ff00::/8"),
    # IPv4 addresses in IPv6: every server behind them can be reached without.
    ("a disguised IPv4", "::/96 ::ffff:0:0/96 64:ff9b:1::/48 2002::/16 2001::/32"),
    (
        "a reserved",
        "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
        "100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16",
    ),
)
# IPv6-only networks reach IPv4 through these addresses (RFC 6052), whose last 32 bits are the IPv4 address.
_NAT64 = "64:ff9b::/96"
# Names that no public server has (RFC 6761, 6762, 8375; ICANN reserves `internal` for private use).
_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")


class PrivateAddressGuard:
    """Rejects private addresses. allowed: exceptions: names, addresses and networks."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._names: list[str] = []
        self._networks: list[Network] = []
        for entry in allowed:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                with contextlib.suppress(UnicodeError):  # not a valid name, so it allows nothing
                    self._names.append(ascii_host(entry))

    def check_address(self, host: str, text: str) -> None:
        """Check an address of a host. Raises ToolError if it is private and not allowed."""
        if not self._is_allowed_name(host):
            # Drop the interface of a link-local address.
            self._check(host, ipaddress.ip_address(text.partition("%")[0]))

    def check_unknown(self, host: str) -> None:
        """Check the name of a host that only a proxy can look up. Raises ToolError if it is a local one."""
        local = "." not in host or any(host.endswith(f".{name}") for name in _LOCAL_NAMES)
        if local and not self._is_allowed_name(host):
            raise _not_reachable(f"{host} is a name of this machine or its network")

    def _is_allowed_name(self, host: str) -> bool:
        return any(host == n or (n.startswith("*.") and host.endswith(n[1:])) for n in self._names)

    def _check(self, host: str, address: Address) -> None:
        if any(address in network for network in self._networks):
            return
        if kind := describe_private(address):
            what = f"{host} is" if host == str(address) else f"{host} has the address {address},"
            raise _not_reachable(f"{what} {kind} address")


def describe_private(address: Address) -> str:
    """Describe a private address: "a private", "a link-local"; return "" for a public one."""
    if address.version == 6 and address in _networks()[_NAT64][0]:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    for kind, networks in _PRIVATE_NETWORKS:
        if any(address in network for network in _networks()[networks]):
            return kind
    # Unassigned IPv6.
    return "a reserved" if address.version == 6 and not 0x2 <= int(address) >> 124 <= 0x3 else ""


@cache
def _networks() -> dict[str, tuple[Network, ...]]:
    lists = (*(networks for _, networks in _PRIVATE_NETWORKS), _NAT64)
    return {text: tuple(ipaddress.ip_network(n) for n in text.split()) for text in lists}


def _not_reachable(what: str) -> ToolError:
    return ToolError(
        f"{what}, which WebFetch does not reach. Only the user can allow it, with allow_private under [web] in "
        "their own settings."
    )


# A decompressed body may be this many times as large as an uncompressed one.
MAX_EXPANSION_RATIO = 2
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "Accept": "text/markdown, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
# Advice for the model, appended to an error.
_ADVICE = {"late": " Try later, or another source.", "closed": " Try once more."}


class WebLimits(Value):
    """Limits of a request.

    max_bytes: size of a body before decompression.
    timeout: seconds in all.
    connect_timeout: seconds.
    """

    max_bytes: int = 5_000_000
    timeout: float = 30.0
    connect_timeout: float = 10.0
    max_redirects: int = 5


class WebResponse(Value):
    """A response. headers: by lower-case name. cut: why the body is incomplete; "" if it is complete."""

    url: Url
    status: int
    headers: dict[str, str]
    body: bytes
    cut: str = ""


class CrossSiteRedirect(Value):
    """A redirect to another server, or from https to http, that was not followed."""

    status: int
    target: str


class WebClient:
    """Client for untrusted servers. guard: None if any address is allowed, because the user named the server."""

    def __init__(
        self, limits: WebLimits, env: Mapping[str, str], guard: PrivateAddressGuard | None, cancel: CancelToken
    ) -> None:
        self._limits = limits
        self._cancel = cancel
        # A total time limit replaces the one for silence.
        timeouts = Timeouts(limits.connect_timeout, 0.0, limits.timeout)
        self._http = HttpClient(timeouts, env, guard=guard, max_idle=0)

    def get(self, url: Url) -> WebResponse | CrossSiteRedirect:
        """Fetch a page, following redirects on the same site. Raises ToolError or CancelledError."""
        until = monotonic() + self._limits.timeout
        seen = [url]
        while True:
            answer = self._exchange(seen[-1], {}, None, until)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target = _target(seen[-1], location)
            if not same_site(seen[-1], target):
                return CrossSiteRedirect(answer.status, target.text)
            if target in seen:
                raise ToolError(f"{url.text} redirects in a loop through {target.text}.")
            if len(seen) > self._limits.max_redirects:
                raise ToolError(f"{url.text} redirects more than {self._limits.max_redirects} times; the last went to "
                                f"{target.text}.")  # fmt: skip
            seen.append(target)

    def send(self, url: Url, headers: Mapping[str, str], body: bytes | None = None) -> WebResponse:
        """Send one request, POST if it has a body, without following redirects. Raises ToolError or CancelledError."""
        return self._exchange(url, headers, body, monotonic() + self._limits.timeout)

    def _exchange(self, url: Url, headers: Mapping[str, str], body: bytes | None, until: float) -> WebResponse:
        try:
            reply = self._http.send(url, {**_HEADERS, **headers}, body, self._cancel, until=until)
            try:
                data, cut = self._body(reply, url)
            finally:
                reply.close()
            self._cancel.check()
            return WebResponse(url, reply.status, reply.headers, data, cut)
        except HttpError as error:
            raise ToolError(f"{error}{_ADVICE.get(error.kind, '')}") from None

    def _body(self, reply: HttpResponse, url: Url) -> tuple[bytes, str]:
        """Return the decompressed body, and why it is incomplete."""
        unpack = _decoder(reply.header("content-encoding"), MAX_EXPANSION_RATIO * self._limits.max_bytes, url)
        pieces: list[bytes] = []
        raw = 0
        try:
            while data := reply.read():
                raw += len(data)
                pieces.append(unpack(data))
                if raw > self._limits.max_bytes:
                    return b"".join(pieces), f"only the first {self._limits.max_bytes:,} bytes were read"
        except _TooLargeError as error:
            pieces.append(error.data)
            return b"".join(
                pieces
            ), f"only {MAX_EXPANSION_RATIO * self._limits.max_bytes:,} bytes of it were decompressed"
        except HttpError as error:
            if error.kind == "late" and not pieces:
                raise
            late = f"the rest had not arrived after {self._limits.timeout:g} s"
            return b"".join(pieces), late if error.kind == "late" else "the connection was lost"
        except zlib.error:
            return b"".join(pieces), "the data is damaged"
        return b"".join(pieces), ""


class _TooLargeError(Exception):
    """A decompressed body exceeds its limit. data: the part of the last piece within the limit."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def _target(url: Url, location: str) -> Url:
    """Return the target of a redirect. Raises ToolError."""
    # Header bytes are decoded as Latin-1 but are UTF-8.
    text = location.encode("latin-1", "replace").decode("utf-8", "replace").strip().replace(" ", "%20")
    try:
        return split_url(urljoin(url.text, text))
    except (ToolError, ValueError):
        raise ToolError(f"{url.text} redirects to an invalid web address.") from None


def _decoder(encoding: str, limit: int, url: Url) -> Callable[[bytes], bytes]:
    """Return an incremental decoder of a content encoding, which raises _TooLargeError beyond `limit` bytes."""
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        return lambda data: data
    if name not in ("gzip", "deflate"):
        raise ToolError(f"{url.host} responded in an encoding that was not requested ({name[:20]!r}).")
    produced = 0
    # 47: detect gzip or zlib. A body declared as deflate may be raw.
    stream = zlib.decompressobj(47)
    first = True

    def unpack(data: bytes) -> bytes:
        nonlocal produced, stream, first
        if first and name == "deflate" and data[0] & 0x0F != 8:
            stream = zlib.decompressobj(-15)
        first = False
        pieces = []
        while data:
            pieces.append(stream.decompress(data, limit - produced + 1))
            produced += len(pieces[-1])
            if produced > limit:
                raise _TooLargeError(b"".join(pieces)[: limit - produced])
            data = stream.unconsumed_tail
            if stream.eof:
                # A gzip file may have several members; zeros after the last are padding.
                data = stream.unused_data.lstrip(b"\0") if name == "gzip" else b""
                stream = zlib.decompressobj(47) if data else stream
        return b"".join(pieces)

    return unpack
