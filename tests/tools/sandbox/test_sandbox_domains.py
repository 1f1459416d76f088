"""The patterns of sandbox.domains: what they cover, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.sandbox.profile import domain_entry, host_matches, parse_domain


@pytest.mark.parametrize(
    ("pattern", "host", "port", "covered"),
    [
        ("pypi.org", "pypi.org", 443, True),
        ("pypi.org", "pypi.org", 80, True),
        ("pypi.org", "pypi.org", 22, False),
        ("pypi.org", "www.pypi.org", 443, False),
        ("pypi.org", "evilpypi.org", 443, False),
        ("pypi.org", "pypi.org.evil.example", 443, False),
        ("PyPI.org.", "pypi.ORG", 443, True),
        ("pypi.org", "pypi.org.", 443, True),
        ("*.npmjs.org", "registry.npmjs.org", 443, True),
        ("*.npmjs.org", "a.b.npmjs.org", 443, True),
        ("*.npmjs.org", "npmjs.org", 443, False),
        ("*.npmjs.org", "evilnpmjs.org", 443, False),
        ("*.npmjs.org", ".npmjs.org", 443, False),
        ("git.example:8443", "git.example", 8443, True),
        ("git.example:8443", "git.example", 443, False),
        ("*.git.example:22", "a.git.example", 22, True),
        ("münchen.example", "xn--mnchen-3ya.example", 443, True),
        ("xn--mnchen-3ya.example", "MÜNCHEN.example", 443, True),
        ("10.1.2.3", "10.1.2.3", 80, True),
        ("10.1.2.3:5432", "10.1.2.3", 5432, True),
        ("::1", "::1", 443, True),
        ("[0:0::1]:5432", "[::1]", 5432, True),
        ("[::1]", "::1", 443, True),
        ("127.0.0.1", "localhost", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 5432, False),
        ("10.0.0.0/8:5432", "10.1.2.3", 5432, True),
        ("10.0.0.0/8", "fd00::1", 443, False),
        ("0.0.0.0/0", "pypi.org", 443, False),
        ("fd00::/8", "fd12::1", 443, True),
        ("fd00::/8:22", "[fd12::1]", 22, True),
        ("pypi.org", "pypi.org/", 443, False),
        ("pypi.org", "pypi.org\0", 443, False),
        ("pypi.org", "x@pypi.org", 443, False),
        ("pypi.org", "pypi.org:443", 443, False),
        ("pypi.org", "", 443, False),
    ],
)
def test_what_a_pattern_covers(pattern: str, host: str, port: int, covered: bool) -> None:
    assert host_matches(host, ["other.example", pattern], port) is covered
    assert not host_matches(host, [], port)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("https://pypi.org", "has a scheme, a path or a user name"),
        ("pypi.org/simple", "has a scheme, a path or a user name"),
        ("user@pypi.org", "has a scheme, a path or a user name"),
        ("10.0.0.0/33", "is not a network"),
        ("10.0.0/8", "is not a network"),
        ("10.0.0.0/8:99999", "no valid port"),
        ("pypi.org:0", "no valid port"),
        ("pypi.org:65536", "no valid port"),
        ("pypi.org:", "is not a domain"),
        ("pypi.org:http", "is not a domain"),
        ("[::1", "is not a domain"),
        ("[::1]x", "is not a domain"),
        ("*.127.0.0.1", "in front of an address"),
        ("*.[::1]", "in front of an address"),
        ("*.2.3", "is not a domain"),
        ("*", "is not a domain"),
        ("*.", "is not a domain"),
        ("*.*.org", "is not a domain"),
        ("*pypi.org", "is not a domain"),
        ("py*.org", "is not a domain"),
        ("pypi..org", "is not a domain"),
        (" pypi.org", "is not a domain"),
        ("0x7f000001", "is not a domain"),
        ("127.1", "is not a domain"),
        ("", "is not a domain"),
    ],
)
def test_what_is_no_pattern(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match="write a host, as in") as caught:
        parse_domain(pattern)
    assert why in str(caught.value)
    with pytest.raises(ValueError, match="write a host, as in"):
        host_matches("pypi.org", ["pypi.org", pattern])


LABEL = st.text("abcxyz019-", min_size=1, max_size=4).filter(lambda t: t[0] != "-" != t[-1])
NAME = st.lists(LABEL, min_size=1, max_size=4).map(lambda labels: ".".join([*labels, "example"]))


@given(NAME, NAME, st.booleans(), st.sampled_from([0, 80, 443, 8080]), st.sampled_from([80, 443, 8080, 22]), st.data())
def test_a_pattern_covers_a_host_label_by_label(
    pattern: str, host: str, below: bool, port: int, asked: int, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        host = f"{data.draw(LABEL)}.{pattern}"
    if data.draw(st.booleans()):
        host = pattern
    theirs, ours = host.split("."), pattern.split(".")
    same = len(theirs) > len(ours) and theirs[-len(ours) :] == ours if below else theirs == ours
    right_port = asked == port if port else asked in (80, 443)
    written = f"{'*.' * below}{pattern}{f':{port}' if port else ''}"
    spelled = "".join(c.upper() if data.draw(st.booleans()) else c for c in host) + "." * data.draw(st.integers(0, 1))
    assert host_matches(spelled, [written], asked) is (same and right_port)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_a_pattern_or_a_clear_mistake(pattern: str, host: str) -> None:
    assert not host_matches(host, ["pypi.org"]) or "pypi" in host.lower() or not host.isascii()
    try:
        read = parse_domain(pattern)
    except ValueError as error:
        assert "write a host" in str(error)
    else:
        host = str(read.network[0]) if read.network else read.host
        assert host_matches(f"x.{host}" if read.subdomains else read.host, [pattern], read.port or 443)


@pytest.mark.parametrize(
    ("host", "port", "entry"),
    [
        ("pypi.org", 443, "pypi.org"),
        ("pypi.org", 80, "pypi.org"),
        ("pypi.org", 22, "pypi.org:22"),
        ("::1", 443, "::1"),
        ("::1", 22, "[::1]:22"),
    ],
)
def test_the_entry_that_allows_a_host(host: str, port: int, entry: str) -> None:
    assert domain_entry(host, port) == entry
    assert host_matches(host, [entry], port)
