"""One exchange with a server that may be broken or hostile: forms of bodies, limits, redirects, cancelling."""

from __future__ import annotations

import gzip
import socket
import time
import zlib

import pytest

from agent_tools.net.urls import split_url
from agent_tools.net.web_client import CrossSiteRedirect, WebLimits
from tests.support.stalled_ports import PROMPT, cancelled_within, full_port, silent_port
from tests.support.web_server import WebServer, fails, get, moved, packed, page, web

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


# What is sent and received.


def test_a_request_says_nothing_about_the_person() -> None:
    with WebServer({"/a?b=c": page("hello")}) as server:
        assert get(server.url("/a?b=c#d")).body == b"hello"
        ((line, headers),) = server.seen
    assert line == "GET /a?b=c HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["user-agent"] == "agent-cli"
    assert headers["accept-encoding"] == "gzip, deflate"
    assert not {"cookie", "authorization", "referer", "proxy-authorization"} & set(headers)


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"\r\nuntil the end", b"until the end"),
        (OK + b"Content-Length: 3\r\n\r\nabcdef", b"abc"),
        (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: t\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
    ],
)
def test_bodies_of_every_form(raw: bytes, body: bytes) -> None:
    with WebServer({"/": raw}) as server:
        answer = get(server.url("/"))
    assert (answer.body, answer.cut) == (body, "")


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"Content-Length: 30\r\n\r\nonly this", b"only this"),
        (CHUNKED + b"9\r\nonly this\r\n", b"only this"),
        (CHUNKED + b"9\r\nonly this\r\nzz\r\n", b"only this"),
    ],
)
def test_a_body_that_breaks_off_is_used_and_reported(raw: bytes, body: bytes) -> None:
    with WebServer({"/": raw}) as server:
        answer = get(server.url("/"))
    assert answer.body == body
    assert "was lost" in answer.cut


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "closed the connection before responding"),
        (b"220 smtp.example ESMTP\r\n", "did not answer in HTTP"),
        (b"\x16\x03\x01\x02\x00", "did not answer in HTTP"),
        (OK + b"X: " + b"a" * 70_000 + b"\r\n\r\n", "did not answer in HTTP"),
        (OK + b"X: a\r\n" * 200 + b"\r\n", "did not answer in HTTP"),
        (page("x", Content_Encoding="br"), "not requested"),
    ],
)
def test_what_is_no_answer(raw: bytes, words: str) -> None:
    with WebServer({"/": raw}) as server:
        assert words in fails(server.url("/"))


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "connection refused" in fails(f"http://127.0.0.1:{port}/")


# Packed bodies.


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gzip", gzip.compress(b"abc" * 1000)),
        ("x-gzip", gzip.compress(b"abc" * 1000)),
        ("GZIP", gzip.compress(b"abc" * 500) + gzip.compress(b"abc" * 500) + b"\0" * 10),
        ("deflate", zlib.compress(b"abc" * 1000)),
        ("deflate", zlib.compress(b"abc" * 1000)[2:-4]),
        ("identity", b"abc" * 1000),
    ],
    ids=["gzip", "x-gzip", "members", "zlib", "raw", "identity"],
)
def test_packed_bodies_are_unpacked(name: str, data: bytes) -> None:
    with WebServer({"/": page(data, Content_Encoding=name)}) as server:
        answer = get(server.url("/"))
    assert (answer.body, answer.cut) == (b"abc" * 1000, "")


def test_damaged_packing_gives_what_came_before() -> None:
    data = gzip.compress(bytes(range(256)) * 3000, 0)
    with WebServer({"/": page(data[:400_000] + b"x" * 400_000, Content_Encoding="gzip")}) as server:
        answer = get(server.url("/"))
    assert "damaged" in answer.cut
    assert answer.body.startswith(bytes(range(256)))


def test_a_bomb_is_unpacked_no_further_than_the_limit() -> None:
    with WebServer({"/": packed(b"\0" * 50_000_000)}) as server:
        answer = get(server.url("/"), limits=WebLimits(max_bytes=1_000_000))
    assert len(answer.body) == 2_000_000
    assert "2,000,000 bytes of it were decompressed" in answer.cut


# Limits.


def test_a_body_without_end_is_read_to_the_limit() -> None:
    with WebServer() as server:
        server.pages["/"] = server.endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n")
        answer = get(server.url("/"), limits=WebLimits(max_bytes=500_000))
        assert server.gone.wait(5)
    assert 500_000 < len(answer.body) < 700_000
    assert answer.cut == "only the first 500,000 bytes were read"


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-", OK + b"\r\n"])
def test_a_server_that_drips_does_not_outlast_the_deadline(head: bytes) -> None:
    with WebServer() as server:
        server.pages["/"] = server.endless(head, b"x", pause=0.02)
        began = time.monotonic()
        if head.endswith(b"\r\n\r\n"):
            answer = get(server.url("/"), limits=WebLimits(timeout=0.4))
            assert "had not arrived after 0.4 s" in answer.cut
            assert set(answer.body) == {ord("x")}
        else:
            assert "took longer than 0.4 s" in fails(server.url("/"), limits=WebLimits(timeout=0.4))
        assert time.monotonic() - began < 5


def test_a_silent_server_and_one_that_cannot_be_reached() -> None:
    with silent_port() as (port, _):
        assert "took longer than" in fails(f"http://127.0.0.1:{port}/", limits=WebLimits(timeout=0.2))
    with full_port() as port:
        words = fails(f"http://127.0.0.1:{port}/", limits=WebLimits(connect_timeout=0.2))
        assert "no answer in time" in words


# Redirects.


def test_redirects_on_the_site_are_followed() -> None:
    with WebServer() as server:
        server.pages |= {
            "/1": moved("/2"),
            "/2": moved(f"http://127.0.0.1:{server.port}/3?x=1#f", "301 Moved"),
            "/3": moved("x y", "307 Temporary Redirect"),
            "/x%20y": page("there"),
        }
        answer = get(server.url("/1"))
    assert (answer.body, answer.url.text) == (b"there", server.url("/x%20y"))


@pytest.mark.parametrize(
    "target",
    ["https://other.example/", "//other.example/x", "http://127.0.0.1:9/", "http://127.0.0.2/", "https://127.0.0.1/"],
)
def test_redirects_elsewhere_are_reported(target: str) -> None:
    with WebServer({"/": moved(target, "308 Permanent Redirect")}) as server:
        answer = web().get(split_url(server.url("/")))
    assert isinstance(answer, CrossSiteRedirect)
    assert answer.target.endswith(target.removeprefix("//").partition("://")[2] or target.removeprefix("//"))


def test_redirects_in_a_circle_and_without_end() -> None:
    with WebServer({"/a": moved("/b"), "/b": moved("/a"), "/0": moved("/1")}) as server:
        assert "redirects in a loop" in fails(server.url("/a"))
        server.pages |= {f"/{n}": moved(f"/{n + 1}") for n in range(9)}
        assert "redirects more than 5 times" in fails(server.url("/0"))
        assert len(server.seen) == 2 + 6


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://user@host/", "javascript:x", "http://[", "\\\\evil/"])
def test_redirects_to_what_is_no_address(target: str) -> None:
    with WebServer({"/": moved(target)}) as server:
        assert "to an invalid web address" in fails(server.url("/"))


def test_a_redirect_without_a_target_is_a_page() -> None:
    with WebServer({"/": page("choose", status="300 Multiple Choices"), "/2": page("", status="302 Found")}) as server:
        assert get(server.url("/")).body == b"choose"
        assert get(server.url("/2")).status == 302


# Cancelling.


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX", OK + b"Content-Length: 9\r\n\r\nabc"])
def test_cancelling_ends_an_exchange_at_once(head: bytes) -> None:
    with WebServer() as server:
        server.pages["/"] = server.silent(head)
        took = cancelled_within(
            lambda token: web(cancel=token).get(split_url(server.url("/"))), lambda: server.begun.wait(5)
        )
    assert took < PROMPT


def test_cancelling_ends_a_handshake_and_a_flood() -> None:
    with silent_port() as (port, came):
        url = split_url(f"https://127.0.0.1:{port}/")
        assert cancelled_within(lambda token: web(cancel=token).get(url), came.wait) < PROMPT
    with WebServer() as server:
        server.pages["/"] = server.endless(OK + b"\r\n", b"x" * 1000)
        limits = WebLimits(max_bytes=10**12)
        url = split_url(server.url("/"))
        assert cancelled_within(lambda token: web(limits, cancel=token).get(url), lambda: server.begun.wait(5)) < PROMPT
