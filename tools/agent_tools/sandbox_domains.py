"""Which hosts sandboxed commands may reach: the patterns of the setting `sandbox.domains`.

pypi.org            this host, on ports 80 and 443
*.npmjs.org         every name below npmjs.org, and not npmjs.org itself
git.example:8443    this host, on this port only
10.1.2.3, [::1]:80  an address; no pattern of names ever covers one
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from agent_tools.base import ToolError
from agent_tools.urls import split_url
from agent_tools.values import Value

USUAL_PORTS = (80, 443)


class DomainPattern(Value):
    """A pattern as it was read. subdomains: it covers what is below the host, not the host. port: 0 for the usual."""

    host: str
    subdomains: bool = False
    port: int = 0

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, spelled as `spell_host` does, may be reached on a port."""
        if port != self.port if self.port else port not in USUAL_PORTS:
            return False
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


@lru_cache(maxsize=1024)
def parse_domain(text: str) -> DomainPattern:
    """Read one pattern. Raises ValueError with a sentence that says what is wrong and how to write it."""
    how = 'write a host, as in "pypi.org", "*.npmjs.org" or "git.example:8443"'
    if re.search(r"[/?#@\\]", text):
        raise ValueError(f'"{text}" has a scheme, a path or a user name: {how}.')
    name, port = text.removeprefix("*."), ""
    if name.startswith("[") or name.count(":") == 1:
        name, _, port = name.rpartition(":") if re.search(r":\d+$", name) else (name, "", "")
    if port and not 0 < int(port) < 65536:
        raise ValueError(f'"{text}" has no valid port: {how}.')
    try:
        host = spell_host(name)
    except ValueError:
        raise ValueError(f'"{text}" is not a domain: {how}.') from None
    subdomains = text.startswith("*.")
    if subdomains and is_address(host):
        raise ValueError(f'"{text}" has "*." in front of an address: {how}.')
    return DomainPattern(host, subdomains, int(port or 0))


def matches(host: str, domains: Iterable[str], port: int = 443) -> bool:
    """Whether one of the patterns covers a host on a port; False for what is not a host.

    Raises ValueError for a pattern that is none.
    """
    patterns = [parse_domain(text) for text in domains]
    try:
        spelled = spell_host(host)
    except ValueError:
        return False
    return any(pattern.covers(spelled, port) for pattern in patterns)


def domain_entry(host: str, port: int) -> str:
    """What has to be added to the patterns for a host to be reached on a port."""
    if port in USUAL_PORTS:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def spell_host(host: str) -> str:
    """The one spelling of a host: lower case, punycode, no final dot, no brackets. Raises ValueError."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    # Without what a URL may have beside its host, so that nothing of the text is left out.
    if not bare or re.search(r"[/?#@\[\]\s]", bare):
        raise ValueError(host)
    try:
        return split_url(f"https://[{bare}]/" if ":" in bare else f"https://{bare}/").host
    except ToolError:
        raise ValueError(host) from None


def is_address(host: str) -> bool:
    """Whether a host in its one spelling is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdigit()
