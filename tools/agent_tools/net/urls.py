"""Parse web addresses unambiguously: the address that is checked against rules is the one that is connected to.

Parsers differ about backslashes, spaces, userinfo, unusual forms of IPv4 and the like, and attacks use the difference.
Here such addresses are rejected, and accepted ones have a canonical form.
"""

from __future__ import annotations

import re

from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten

MAX_URL_CHARS = 4_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# RFC 3986: characters allowed unescaped in a path or query.
_UNESCAPED = frozenset("%-._~!$&'()*+,;=:@/?[]")


class Url(Value):
    """A web address. host: lower case, punycode, no final dot, IPv6 without brackets. path: includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host, in brackets if it is an IPv6 address, with the port unless it is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def split_url(text: str) -> Url:
    """Split an http or https address into its parts; drop the fragment.

    Raises ToolError for anything that programs could parse differently, and for other schemes.
    """
    text = text.strip()
    if not text.isprintable() or " " in text or "\\" in text:
        raise _invalid(text, "it contains spaces, backslashes or invisible characters; write a space as %20")
    if len(text) > MAX_URL_CHARS:
        raise _invalid(text, f"it is longer than {MAX_URL_CHARS:,} characters")
    match = re.fullmatch(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", text, re.IGNORECASE)
    if match is None:
        scheme = re.match(r"([A-Za-z][\w+.-]*):(?!\d)", text)
        if scheme is None:
            raise _invalid(text, "it must be complete, like https://host/path")
        if scheme[1].lower() == "file":
            raise _invalid(text, "only http and https can be fetched; read a file by its path")
        raise _invalid(text, "only http and https can be fetched, like https://host/path")
    if "@" in match[2]:
        raise _invalid(text, "it contains a user name or password, which are never sent; remove that part")
    named, port = re.fullmatch(r"(\[.*\]|[^:]*)(?::(\d{1,5}))?", match[2]), 0
    scheme_name = match[1].lower()
    if named is None or (named[2] and not 0 < (port := int(named[2])) < 65536):
        raise _invalid(text, "its host or port is malformed")
    host = _host(named[1], text)
    path = _escape_path((match[3] or "/") + (match[4] or ""))
    return Url(scheme_name, host, port or DEFAULT_PORTS[scheme_name], path)


def ascii_host(name: str) -> str:
    """Return a host name in lower case and punycode, without a final dot. Raises UnicodeError if it is invalid."""
    lowered = name.lower() if name.isascii() else name.encode("idna").decode("ascii").lower()
    return lowered.removesuffix(".")


def parse_host_pattern(text: str) -> str:
    """Return the host that a rule names in the form of `Url.host`; a leading `*.` stays.

    Raises ToolError for a text that no `Url.host` can equal, such as one with a port.
    """
    text = text.strip()
    name = text.removeprefix("*.")
    bracketed = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
    if any(c in bracketed for c in "/?#@*") or re.search(r":\d*$", bracketed):
        raise ToolError(f"{shorten(text, 200)!r} is not a host")
    try:
        host = split_url(f"http://{bracketed}/").host
    except ToolError:
        raise ToolError(f"{shorten(text, 200)!r} is not a host") from None
    return f"*.{host}" if name != text else host


def domain_covers(pattern: str, host: str) -> bool:
    """Return True if a host is the domain or a name below it. A leading `*.` makes no difference."""
    try:
        domain = ascii_host(pattern.strip().removeprefix("*."))
    except UnicodeError:
        return False
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def same_site(one: Url, other: Url) -> bool:
    """Return True if a redirect stays on the same server: same host (with or without www.) and port, TLS kept."""
    usual = one.port == DEFAULT_PORTS[one.scheme] and other.port == DEFAULT_PORTS[other.scheme]
    same_host = one.host.removeprefix("www.") == other.host.removeprefix("www.")
    return same_host and (one.port == other.port or usual) and (one.scheme, other.scheme) != ("https", "http")


def _host(name: str, text: str) -> str:
    """Return the canonical form of a host. Raises ToolError."""
    import ipaddress  # only needed for fetching

    if name.startswith("["):
        try:
            address = ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            raise _invalid(text, "its host is not a valid IPv6 address") from None
        if address.scope_id:
            raise _invalid(text, "its host names a network interface")
        return str(address)
    try:
        host = ascii_host(name)
    except UnicodeError:
        raise _invalid(text, "its host is not a valid name") from None
    labels = host.split(".")
    if len(host) > 253 or not all(re.fullmatch(_LABEL, label) for label in labels):
        raise _invalid(text, "its host is no valid name")
    # By the URL standard, a host whose last label is a number is an IPv4 address, in any base and with parts omitted
    # (127.1, 0x7f000001, 017700000001). Only the common form means the same to every program.
    if re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise _invalid(text, "write an IPv4 address as four decimal numbers") from None
    return host


def _escape_path(path: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in _UNESCAPED) else _percent(c) for c in path)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _invalid(text: str, why: str) -> ToolError:
    return ToolError(f"{shorten(text, 200) or 'An empty text'} cannot be fetched: {why}.")
