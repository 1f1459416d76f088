"""One reading of a web address: what a permission rule is asked about is what is connected to.

Parsers differ about backslashes, blanks, userinfo, odd spellings of IPv4 and the like, and attacks live in the
difference. Here such addresses are refused, and what is accepted has one spelling.
"""

from __future__ import annotations

import re

from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten

LONGEST = 4_000
PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# RFC 3986: what may stand in a path or query as it is.
_KEPT = frozenset("%-._~!$&'()*+,;=:@/?[]")


class Url(Value):
    """A web address. host: lower case, punycode, no final dot, IPv6 without brackets. path: with the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host, in brackets where it is an IPv6 address, with the port unless it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def split_url(text: str) -> Url:
    """The parts of an http or https address; its fragment is dropped.

    Raises ToolError for anything that two programs could read differently, and for other kinds of addresses.
    """
    text = text.strip()
    if not text.isprintable() or " " in text or "\\" in text:
        raise _wrong(text, "it contains blanks, backslashes or invisible characters; write a blank as %20")
    if len(text) > LONGEST:
        raise _wrong(text, f"it is longer than {LONGEST:,} characters")
    match = re.fullmatch(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", text, re.IGNORECASE)
    if match is None:
        scheme = re.match(r"([A-Za-z][\w+.-]*):(?!\d)", text)
        if scheme is None:
            raise _wrong(text, "it must be whole, as https://host/path")
        if scheme[1].lower() == "file":
            raise _wrong(text, "only http and https can be fetched; files are for Read")
        raise _wrong(text, "only http and https can be fetched, as https://host/path")
    if "@" in match[2]:
        raise _wrong(text, "it contains a user name or password, which are never sent; leave that part out")
    named, port = re.fullmatch(r"(\[.*\]|[^:]*)(?::(\d{1,5}))?", match[2]), 0
    scheme_name = match[1].lower()
    if named is None or (named[2] and not 0 < (port := int(named[2])) < 65536):
        raise _wrong(text, "its host or port is malformed")
    host = _host(named[1], text)
    path = _quoted((match[3] or "/") + (match[4] or ""))
    return Url(scheme_name, host, port or PORTS[scheme_name], path)


def ascii_host(name: str) -> str:
    """A host name in lower case and punycode, without its final dot. Raises UnicodeError where it has none."""
    lowered = name.lower() if name.isascii() else name.encode("idna").decode("ascii").lower()
    return lowered.removesuffix(".")


def domain_covers(pattern: str, host: str) -> bool:
    """Whether a domain covers a host: the domain itself, and every name below it. `*.` before it changes nothing."""
    try:
        domain = ascii_host(pattern.strip().removeprefix("*."))
    except UnicodeError:
        return False
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def same_site(one: Url, other: Url) -> bool:
    """Whether going from one to the other stays at the same server: host (with or without www.), port, no less TLS."""
    usual = one.port == PORTS[one.scheme] and other.port == PORTS[other.scheme]
    same_host = one.host.removeprefix("www.") == other.host.removeprefix("www.")
    return same_host and (one.port == other.port or usual) and (one.scheme, other.scheme) != ("https", "http")


def _host(name: str, text: str) -> str:
    """The one spelling of a host. Raises ToolError."""
    import ipaddress  # only who fetches needs it

    if name.startswith("["):
        try:
            address = ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            raise _wrong(text, "its host is no IPv6 address") from None
        if address.scope_id:
            raise _wrong(text, "its host names a network interface")
        return str(address)
    try:
        host = ascii_host(name)
    except UnicodeError:
        raise _wrong(text, "its host is no valid name") from None
    labels = host.split(".")
    if len(host) > 253 or not all(re.fullmatch(_LABEL, label) for label in labels):
        raise _wrong(text, "its host is no valid name")
    # The URL standard takes a host whose last label is a number for an IPv4 address, in any base and with parts left
    # out (127.1, 0x7f000001, 017700000001). Only the usual spelling means the same to every program.
    if re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise _wrong(text, "write an IPv4 address as four decimal numbers") from None
    return host


def _quoted(path: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in _KEPT) else _percent(c) for c in path)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _wrong(text: str, why: str) -> ToolError:
    return ToolError(f"{shorten(text, 200) or 'An empty text'} cannot be fetched: {why}.")
