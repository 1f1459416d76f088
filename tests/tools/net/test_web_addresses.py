"""What is a web address, how it is spelled, and which ones are not reached."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.net.urls import domain_covers, same_site, split_url
from agent_tools.net.web_client import PrivateAddressGuard, describe_private
from tests.support.hypothesis_examples import examples


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("https://example.org", "https://example.org/"),
        (" HTTPS://Example.ORG:443/A?b=C#d ", "https://example.org/A?b=C"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("https://example.org.", "https://example.org/"),
        ("https://example.org?q", "https://example.org/?q"),
        ("https://münchen.example/ä?ö=ü", "https://xn--mnchen-3ya.example/%C3%A4?%C3%B6=%C3%BC"),
        ("https://例え。example/", "https://xn--r8jz45g.example/"),
        ('https://a.example/<"x">|{y}^`', "https://a.example/%3C%22x%22%3E%7C%7By%7D%5E%60"),
        ("https://a.example/%41%2f//b", "https://a.example/%41%2f//b"),
        ("http://[2001:DB8::0:1]:8080/", "http://[2001:db8::1]:8080/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("http://under_score.example/", "http://under_score.example/"),
    ],
)
def test_an_address_has_one_spelling(written: str, spelled: str) -> None:
    assert split_url(written).text == spelled


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "complete"),
        ("example.org/x", "complete"),
        ("//example.org/x", "complete"),
        ("localhost:80", "complete"),
        ("ftp://example.org/", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("file:///etc/passwd", "read a file by its path"),
        ("https:example.org", "only http and https"),
        ("http://", "no valid name"),
        ("http:///etc", "no valid name"),
        ("http://user:pw@example.org/", "user name or password"),
        ("http://example.org@evil.example/", "user name or password"),
        ("http://example.org\\@evil.example/", "backslashes"),
        ("http://example.org\\.evil.example/", "backslashes"),
        ("http://exam ple.org/", "spaces"),
        ("http://example.org/a b", "%20"),
        ("http://example.org/\r\nX: y", "spaces"),
        ("http://example.org/a\u200bb", "invisible"),
        ("http://example.org\t/", "spaces"),
        ("http://exa%6dple.org/", "no valid name"),
        ("http://℀.example/", "no valid name"),
        ("http://a..b/", "no valid name"),
        ("http://-a.example/", "no valid name"),
        (f"http://{'a' * 64}.example/", "no valid name"),
        (f"http://{'a.' * 130}example/", "no valid name"),
        ("http://example.org:0/", "malformed"),
        ("http://example.org:65536/", "malformed"),
        ("http://example.org:80:80/", "malformed"),
        ("http://example.org:8o/", "malformed"),
        ("http://::1/", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://[fe80::1%25eth0]/", "network interface"),
        ("http://[1.2.3.4]/", "not a valid IPv6"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://017700000001/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://127.0.0.0x1/", "four decimal numbers"),
        ("http://127.0.0.01/", "four decimal numbers"),
        ("http://1.2.3.4.5/", "four decimal numbers"),
        ("http://256.1.1.1/", "four decimal numbers"),
        (f"http://example.org/{'a' * 5000}", "longer than"),
    ],
)
def test_what_two_programs_could_read_differently_is_refused(written: str, why: str) -> None:
    with pytest.raises(ToolError, match=why) as caught:
        split_url(written)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


PIECES = st.sampled_from(
    ["http", "https", "://", ":", "/", "//", "\\", "@", "?", "#", "[", "]", "%", "%00", ".", "..", "a", "EXAMPLE",
     "org", "127.0.0.1", "0x7f", "::1", "80", " ", "\t", "\n", "é", "。", "①", "ß", "\u200d", "&", ";", "=", "-", "_"]
)  # fmt: skip


@settings(max_examples=examples(300))
@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map(lambda parts: "http://" + "".join(parts))))
def test_what_is_accepted_is_read_the_same_by_the_standard_library(text: str) -> None:
    try:
        url = split_url(text)
    except ToolError:
        return
    assert split_url(url.text) == url
    parts = urlsplit(url.text)
    assert (parts.scheme, parts.hostname, parts.port or url.port) == (url.scheme, url.host, url.port)
    assert parts.username is None
    assert parts.fragment == ""
    assert (parts.path or "/") + (f"?{parts.query}" if "?" in url.path else "") == url.path
    assert url.text.isascii()
    assert url.text.isprintable()
    assert " " not in url.text


REFUSED = {
    "this machine's own": "127.0.0.1 127.255.0.1 0.0.0.0 0.1.2.3 ::1 ::",
    "the metadata service of a cloud's": "169.254.169.254 168.63.129.16 fd00:ec2::254",
    "a link-local": "169.254.0.1 fe80::1 febf::1",
    "a private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd12::1 fec0::1",
    "a provider's internal": "100.64.0.1 100.100.100.200 100.127.255.255",
    "a multicast": "224.0.0.1 239.255.255.250 ff02::1 ff0e::1",
    "a disguised IPv4": "::ffff:127.0.0.1 ::ffff:8.8.8.8 ::127.0.0.1 ::8.8.8.8 64:ff9b:1::1 2002:7f00:1:: 2001:0:1::1",
    "a reserved": "192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.255 100::1 "
    "2001:db8::1 3fff::1 5f00::1 4000::1 1::1 2001:2::1",
}


@pytest.mark.parametrize(("kind", "address"), [(k, a) for k, text in REFUSED.items() for a in text.split()])
def test_addresses_that_are_refused(kind: str, address: str) -> None:
    assert describe_private(ipaddress.ip_address(address)) == kind
    with pytest.raises(ToolError, match="Only the user can allow it"):
        PrivateAddressGuard().check_address("some.example", address)


@pytest.mark.parametrize(
    "address",
    "8.8.8.8 1.1.1.1 172.15.255.255 172.32.0.1 100.63.0.1 100.128.0.1 169.253.0.1 223.255.255.255 128.0.0.1 "
    "2606:4700:4700::1111 2a00:1450::1 2001:4860:4860::8888 64:ff9b::808:808".split(),
)
def test_public_addresses_are_not(address: str) -> None:
    PrivateAddressGuard().check_address("some.example", address)


def test_behind_nat64_the_address_that_is_meant_decides() -> None:
    for inner in ("127.0.0.1", "10.0.0.1", "169.254.169.254"):
        outer = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | int(ipaddress.IPv4Address(inner)))
        assert describe_private(outer)


@settings(max_examples=examples(200))
@given(st.ip_addresses())
def test_nothing_that_python_knows_to_be_private_is_let_through(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    nat64 = ipaddress.ip_network("64:ff9b::/96")
    inside = address.is_private or address.is_link_local or address.is_multicast or address.is_reserved
    if inside and address not in nat64:
        assert describe_private(address)


@pytest.mark.parametrize(
    ("allowed", "host", "address", "passes"),
    [
        ("10.0.0.0/8", "wiki.example", "10.1.2.3", True),
        ("10.0.0.0/8", "wiki.example", "192.168.1.1", False),
        ("127.0.0.1", "localhost", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", "127.0.0.2", False),
        ("localhost", "localhost", "::1", True),
        ("localhost", "evil.example", "127.0.0.1", False),
        ("*.corp.example", "wiki.corp.example", "10.1.2.3", True),
        ("*.corp.example", "corp.example", "10.1.2.3", False),
        ("*.corp.example", "evilcorp.example", "10.1.2.3", False),
        ("Wiki.Example.", "wiki.example", "fd00::1", True),
        ("fe80::/10", "fe80::1", "fe80::1%eth0", True),
        ("not a network/33", "wiki.example", "10.1.2.3", False),
        ("\ud800", "wiki.example", "10.1.2.3", False),
    ],
)
def test_what_the_user_allows(allowed: str, host: str, address: str, passes: bool) -> None:
    guard = PrivateAddressGuard([allowed])
    if passes:
        guard.check_address(host, address)
    else:
        with pytest.raises(ToolError):
            guard.check_address(host, address)


def test_local_names_are_refused_where_only_a_proxy_could_look_them_up() -> None:
    for host in ("wiki", "printer.local", "metadata.google.internal", "a.localhost", "nas.home.arpa"):
        with pytest.raises(ToolError, match="a name of this machine or its network"):
            PrivateAddressGuard().check_unknown(host)
    PrivateAddressGuard().check_unknown("example.org")
    PrivateAddressGuard(["wiki"]).check_unknown("wiki")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example/", "https://a.example/x", True),
        ("https://a.example/", "https://www.a.example/", True),
        ("https://www.a.example/", "https://a.example/", True),
        ("http://a.example/", "https://a.example/", True),
        ("https://a.example/", "http://a.example/", False),
        ("https://a.example/", "https://b.example/", False),
        ("https://a.example/", "https://sub.a.example/", False),
        ("http://a.example:8080/", "http://a.example:8080/", True),
        ("http://a.example/", "http://a.example:8080/", False),
        ("http://a.example:8080/", "https://a.example/", False),
    ],
)
def test_what_counts_as_the_same_site(one: str, other: str, same: bool) -> None:
    assert same_site(split_url(one), split_url(other)) is same


def test_a_domain_covers_what_is_below_it_and_nothing_beside_it() -> None:
    assert domain_covers("example.org", "example.org")
    assert domain_covers("Example.org.", "docs.example.org")
    assert domain_covers("*.example.org", "example.org")
    assert domain_covers("münchen.example", "www.xn--mnchen-3ya.example")
    assert not domain_covers("example.org", "badexample.org")
    assert not domain_covers("docs.example.org", "example.org")
    assert not domain_covers("", "example.org")
