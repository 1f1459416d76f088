"""Addresses that WebFetch must not reach: this machine, its network, and metadata services of clouds.

A page or prompt that the model read may direct it there (server-side request forgery). The list follows the
special-purpose registries (RFC 6890 and its successors for IPv4 and IPv6); the table is our own, as Python's differs
between releases.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from functools import cache

from agent_tools.net.urls import ascii_host
from agent_tools.results import ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_REFUSED = (
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
# Networks without IPv4 reach it by these addresses (RFC 6052); the last 32 bits are the IPv4 address.
_NAT64 = "64:ff9b::/96"
# Names that no public server has (RFC 6761, 6762, 8375; ICANN reserves `internal` for private use).
_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")


class Guard:
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
        """Check an address of a host. Raises ToolError if it is private."""
        if not self._named(host):
            # Without the interface in a link-local address.
            self._check(host, ipaddress.ip_address(text.partition("%")[0]))

    def check_unknown(self, host: str) -> None:
        """Check the name of a host that only a proxy can look up. Raises ToolError if it is a local one."""
        local = "." not in host or any(host.endswith(f".{name}") for name in _LOCAL_NAMES)
        if local and not self._named(host):
            raise _refusal(f"{host} is a name of this machine or its network")

    def _named(self, host: str) -> bool:
        return any(host == n or (n.startswith("*.") and host.endswith(n[1:])) for n in self._names)

    def _check(self, host: str, address: Address) -> None:
        if any(address in network for network in self._networks):
            return
        if kind := kind_of_address(address):
            what = f"{host} is" if host == str(address) else f"{host} has the address {address},"
            raise _refusal(f"{what} {kind} address")


def kind_of_address(address: Address) -> str:
    """Return why an address is rejected: "a private", "a link-local"; "" for a public one."""
    if address.version == 6 and address in _networks()[_NAT64][0]:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    for kind, networks in _REFUSED:
        if any(address in network for network in _networks()[networks]):
            return kind
    # Unassigned IPv6.
    return "a reserved" if address.version == 6 and not 0x2 <= int(address) >> 124 <= 0x3 else ""


@cache
def _networks() -> dict[str, tuple[Network, ...]]:
    lists = (*(networks for _, networks in _REFUSED), _NAT64)
    return {text: tuple(ipaddress.ip_network(n) for n in text.split()) for text in lists}


def _refusal(what: str) -> ToolError:
    return ToolError(
        f"{what}, which WebFetch does not reach. Only the user can allow it, by allow_private under [web] in their "
        "own settings."
    )
