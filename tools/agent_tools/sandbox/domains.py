"""Patterns of the setting `sandbox.domains`: hosts that sandboxed commands may reach.

pypi.org            this host, on ports 80 and 443
*.npmjs.org         every name below npmjs.org, and not npmjs.org itself
git.example:8443    this host, on this port only
10.1.2.3, [::1]:80  an address; no pattern of names ever covers one
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from agent_tools.net.urls import split_url
from agent_tools.record import Value
from agent_tools.results import ToolError

USUAL_PORTS = (80, 443)
_HOW = 'write a host, as in "pypi.org", "*.npmjs.org" or "git.example:8443"'


class DomainPattern(Value):
    """A parsed pattern.

    port: 0 for the default ports.
    subdomains: covers names below the host, not the host itself.
    network: covered addresses, if it is not a host name.
    """

    host: str
    port: int = 0
    subdomains: bool = False
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None

    def covers(self, host: str, port: int) -> bool:
        """Return True if a host, in the form of `spell_host`, may be reached on a port."""
        if port != self.port if self.port else port not in USUAL_PORTS:
            return False
        if self.network is not None:
            return is_address(host) and ipaddress.ip_address(host) in self.network
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


@lru_cache(maxsize=1024)
def parse_domain(text: str) -> DomainPattern:
    """Parse a pattern. Raises ValueError with a message for the user."""
    if network := re.fullmatch(r"([0-9A-Fa-f.:]+/\d{1,3})(?::(\d{1,5}))?", text, re.ASCII):
        number = _port(network[2], text)
        try:
            return DomainPattern(network[1], number, network=ipaddress.ip_network(network[1], False))
        except ValueError:
            raise ValueError(f'"{text}" is not a network: {_HOW}.') from None
    if re.search(r"[/?#@\\]", text):
        raise ValueError(f'"{text}" has a scheme, a path or a user name: {_HOW}.')
    name, port = text.removeprefix("*."), ""
    if name.startswith("[") or name.count(":") == 1:
        name, _, port = name.rpartition(":") if re.search(r":\d{1,5}$", name, re.ASCII) else (name, "", "")
    try:
        host = spell_host(name)
    except ValueError:
        raise ValueError(f'"{text}" is not a domain: {_HOW}.') from None
    subdomains = text.startswith("*.")
    if subdomains and is_address(host):
        raise ValueError(f'"{text}" has "*." in front of an address: {_HOW}.')
    return DomainPattern(host, _port(port, text), subdomains)


def _port(written: str | None, text: str) -> int:
    if written and not 0 < int(written) < 65536:
        raise ValueError(f'"{text}" has no valid port: {_HOW}.')
    return int(written or 0)


def host_matches(host: str, domains: Iterable[str], port: int = 443) -> bool:
    """Return True if one of the patterns covers a host on a port; False for an invalid host.

    Raises ValueError for an invalid pattern.
    """
    patterns = [parse_domain(text) for text in domains]
    try:
        spelled = spell_host(host)
    except ValueError:
        return False
    return any(pattern.covers(spelled, port) for pattern in patterns)


def domain_entry(host: str, port: int) -> str:
    """Return the pattern that allows a host on a port."""
    if port in USUAL_PORTS:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def spell_host(host: str) -> str:
    """Return the canonical form of a host: lower case, punycode, no final dot or brackets. Raises ValueError."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    # Reject other parts of a URL, so that no part of the text is ignored.
    if not bare or re.search(r"[/?#@\[\]\s]", bare):
        raise ValueError(host)
    try:
        return split_url(f"https://[{bare}]/" if ":" in bare else f"https://{bare}/").host
    except ToolError:
        raise ValueError(host) from None


def is_address(host: str) -> bool:
    """Return True if a host in canonical form is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdigit()
