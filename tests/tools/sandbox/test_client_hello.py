"""The server name of a TLS connection, read from what real and hostile clients send first."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.sandbox.proxy import parse_server_name
from tests.support.loopback import client_hello

REAL = client_hello("good.example")


@pytest.mark.parametrize("highest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_of_a_real_client(highest: ssl.TLSVersion) -> None:
    assert parse_server_name(client_hello("files.good.example", highest)) == "files.good.example"
    assert parse_server_name(client_hello(None, highest)) == ""
    assert parse_server_name(client_hello("127.0.0.1", highest)) == ""


def test_nothing_is_decided_before_the_record_is_whole() -> None:
    assert {parse_server_name(REAL[:end]) for end in range(len(REAL))} == {None}
    assert parse_server_name(REAL + b"more") == "good.example"


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n", b"\x80\x2e\x01\x03", b"\x16\x04", b"\0"])
def test_what_is_not_tls_has_no_name(data: bytes) -> None:
    assert parse_server_name(data) == ""


def fragmented() -> bytes:
    """The name in a second record, where no one looks for it."""
    body = REAL[5:]
    at = body.index(b"good.example")
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in (body[:at], body[at:]))


def twice() -> bytes:
    """Two names in one list, with all lengths right."""
    entry = b"\0\0\x0cgood.example"
    one, two = b"\0\x11\0\x0f" + entry, b"\0\x20\0\x1e" + entry * 2
    made = bytearray(REAL.replace(one, two))
    for position, width in ((3, 2), (6, 3), (_extensions(), 2)):
        size = int.from_bytes(made[position : position + width], "big") + len(two) - len(one)
        made[position : position + width] = size.to_bytes(width, "big")
    return bytes(made)


def _extensions() -> int:
    """Where the length of the extensions stands."""
    at = 5 + 4 + 34
    for width in (1, 2, 1):
        at += width + int.from_bytes(REAL[at : at + width], "big")
    return at


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (fragmented, "cut short"),
        (twice, "several server names"),
        # A warning first, which servers pass over.
        (lambda: b"\x15\x03\x01\0\x02\x01\0" + REAL, "no ClientHello"),
        (lambda: b"\x17" + REAL[1:], "no ClientHello"),
        (lambda: b"\x16\x03\x01\0\0" + REAL, "no ClientHello"),
        (lambda: b"\x14\x03\x03\0\x01\x01" + REAL, "no ClientHello"),
        (lambda: b"\x16\x03\x01\x40\x01" + REAL[5:], "no ClientHello"),
        (lambda: REAL[:5] + b"\x02" + REAL[6:], "no ClientHello"),
        (lambda: b"\x16\x03\x01\0\x06\x01\0\0\x02\x03\x03", "cut short"),
    ],
)
def test_where_a_name_could_hide_the_connection_is_refused(make: Callable[[], bytes], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_server_name(make())


@given(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(REAL)))
def test_damage_ends_in_an_answer_or_a_value_error(changes: list[tuple[int, int]], end: int) -> None:
    data = bytearray(REAL)
    for at, value in changes:
        data[at] = value
    with suppress(ValueError):
        parse_server_name(bytes(data[:end]))
