"""The proxy of sandboxed commands: what it lets out, what it refuses and how it says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address

import pytest

from agent_tools.sandbox.proxy import SandboxProxy
from tests.support.loopback import connect, listener, receive_all, service
from tests.support.sandbox_proxies import RunningProxy, get, named
from tests.support.web_server import WebServer, page

NOTHING = ("", "")


# Plain HTTP.


def test_a_request_is_passed_on_without_what_concerns_the_proxy_only(proxy: Callable[..., RunningProxy]) -> None:
    headers = "Accept: */*\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n"
    headers += "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nX-Kept: 2\r\n"
    answer = page("hello", Connection="X-Inner", X_Inner="1", Keep_Alive="timeout=5", X_Outer="2")
    with WebServer({"/a?b=c": answer}) as server:
        found = proxy(f"127.0.0.1:{server.port}").ask(get(server.url("/a?b=c"), headers))
        line, seen = server.seen[0]
    assert line == "GET /a?b=c HTTP/1.1"
    assert seen == {"host": f"127.0.0.1:{server.port}", "accept": "*/*", "x-kept": "2", "connection": "close"}
    head, _, body = found.partition(b"\r\n\r\n")
    assert body == b"hello"
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"Content-Length: 5", b"X-Outer: 2", b"Connection: close",
    ]  # fmt: skip


def test_bodies_of_both_kinds_pass_as_they_are_and_nothing_after_them(proxy: Callable[..., RunningProxy]) -> None:
    heard: list[bytes] = []

    def answer(client: socket.socket) -> None:
        heard.append(receive_all(client))
        client.sendall(page("done"))

    chunked = b"3;x=y\r\nabc\r\n1f\r\n" + b"z" * 31 + b"\r\n0\r\nX-Sum: 1\r\n\r\n"
    second = b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"
    with service(answer) as port:
        running = proxy(f"127.0.0.1:{port}")
        for header, body in ((b"Content-Length: 9", b"123456789"), (b"Transfer-Encoding: chunked", chunked)):
            head = b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n\r\n" % (port, port, header)
            with connect(running.port) as client:
                # In pieces, so that every boundary falls somewhere.
                client.sendall(head)
                for at in range(len(body)):
                    client.sendall(body[at : at + 1])
                client.sendall(second)
                client.shutdown(socket.SHUT_WR)
                assert receive_all(client).endswith(b"\r\n\r\ndone")
    assert [h.partition(b"\r\n\r\n")[2] for h in heard] == [b"123456789", chunked]
    assert [header in h for h, header in zip(heard, (b"Content-Length: 9", b"Transfer-Encoding: chunked"), strict=True)]
    assert not any(b"other" in h for h in heard)


def test_a_client_may_wait_for_100_continue(proxy: Callable[..., RunningProxy]) -> None:
    def answer(client: socket.socket) -> None:
        while b"\r\n\r\n" not in client.recv(65536):
            pass
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        client.sendall(page(client.recv(5)))

    with service(answer) as port, connect(proxy(f"127.0.0.1:{port}").port) as client:
        head = get(f"http://127.0.0.1:{port}/", "Expect: 100-continue\r\nContent-Length: 5\r\n")
        client.sendall(head.replace("GET", "PUT").encode())
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"12345")
        assert receive_all(client).endswith(b"12345")


def test_a_large_body_is_streamed_not_stored(proxy: Callable[..., RunningProxy]) -> None:
    """The first byte arrives before the last is sent."""
    go_on = threading.Event()

    def answer(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        assert go_on.wait(30)
        client.sendall(b"x" * (8 << 20))

    with service(answer) as port, connect(proxy(f"127.0.0.1:{port}").port) as client:
        client.sendall(get(f"http://127.0.0.1:{port}/").encode())
        got = b""
        while not got.endswith(b"first"):
            got += client.recv(65536)
        go_on.set()
        assert len(receive_all(client)) == 8 << 20


@pytest.mark.parametrize(
    ("request_head", "why"),
    [
        (get("http://127.0.0.1:{port}/", host="evil.example"), b"400 The Host header is not 127.0.0.1:"),
        (get("http://127.0.0.1:{port}/", "Host: evil.example\r\n"), b"400 The Host header is not 127.0.0.1:"),
        (get("http://127.0.0.1:{port}/", host="127.0.0.1"), b"400 The Host header is not 127.0.0.1:"),
        ("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n", b"400 The Host header is not 127.0.0.1:"),
        (get("http://127.0.0.1:{port}/", host="a b"), b"400 This is an HTTP proxy: it needs a complete address"),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", b"400 This is an HTTP proxy: it needs a complete address"),
        (get("http://x@127.0.0.1:{port}/", host="127.0.0.1:{port}"), b"400 This is an HTTP proxy"),
        (get("https://127.0.0.1:{port}/"), b"400 Use CONNECT for https"),
        (get("http://127.0.0.1:{port}/", "X : 1\r\n"), b"400 This is an HTTP proxy, and the request is malformed"),
        (get("http://127.0.0.1:{port}/", "X: 1\r\n folded\r\n"), b"400 This is an HTTP proxy"),
        (get("http://127.0.0.1:{port}/", "X: 1\nHost: evil.example\r\n"), b"400 This is an HTTP proxy"),
        (get("http://127.0.0.1:{port}/", "X: \0\r\n"), b"400 This is an HTTP proxy"),
        ("GET http://127.0.0.1:{port}/\r\n\r\n", b"400 This is an HTTP proxy"),
        ("\x16\x03\x01\r\n\r\n", b"400 This is an HTTP proxy"),
        (get("http://127.0.0.1:{port}/", "Content-Length: 1\r\nContent-Length: 2\r\n"), b"400 The length"),
        (get("http://127.0.0.1:{port}/", "Content-Length: -1\r\n"), b"400 The length"),
        (get("http://127.0.0.1:{port}/", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), b"400 The length"),
        (get("http://127.0.0.1:{port}/", "Transfer-Encoding: gzip, chunked\r\n"), b"400 The length"),
        ("CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n", b"400 CONNECT needs a host and a port"),
        ("CONNECT http://127.0.0.1:{port} HTTP/1.1\r\n\r\n", b"400 CONNECT needs a host and a port"),
        ("CONNECT 127.0.0.1:{port}#@x:1 HTTP/1.1\r\n\r\n", b"400 CONNECT needs a host and a port"),
        ("CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n", b"400 CONNECT needs a host and a port"),
        (get("http://127.0.0.1:{port}/", "X: " + "x" * 70_000 + "\r\n"), b"431 The headers are too long"),
    ],
)
def test_a_request_that_could_be_read_in_two_ways_reaches_nobody(
    request_head: str, why: bytes, proxy: Callable[..., RunningProxy]
) -> None:
    with WebServer({"/": page("reached")}) as server:
        running = proxy(f"127.0.0.1:{server.port}")
        assert running.ask(request_head.replace("{port}", str(server.port))).startswith(b"HTTP/1.1 " + why)
        assert not server.seen
    assert not running.refused


@pytest.mark.parametrize(
    "body", [b"3\nabc\r\n", b"3\r\nabcd\r\n", b"-3\r\nabc", b"0x3\r\nabc", b"1;\nx\r\n", b"3\r\nab"]
)
def test_a_chunked_body_that_could_be_read_in_two_ways_ends_the_request(
    body: bytes, proxy: Callable[..., RunningProxy]
) -> None:
    ended = threading.Event()
    with service(lambda client: receive_all(client) and ended.set()) as port:
        running = proxy(f"127.0.0.1:{port}")
        with connect(running.port) as client:
            client.sendall(get(f"http://127.0.0.1:{port}/", "Transfer-Encoding: chunked\r\n").encode() + body)
            client.shutdown(socket.SHUT_WR)
            assert receive_all(client) == b""
        assert ended.wait(30)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", b"502 127.0.0.1 closed the connection before responding"),
        (b"HTTP/1.1 200 OK\r\nX", b"502 127.0.0.1 closed the connection before responding"),
        (b"220 mail.example ESMTP\r\n\r\n", b"502 127.0.0.1 did not respond in HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"502 The response headers of 127.0.0.1 are too long"),
    ],
)
def test_a_server_that_answers_nonsense(answer: bytes, why: bytes, proxy: Callable[..., RunningProxy]) -> None:
    def say(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(answer)
        client.shutdown(socket.SHUT_WR)
        client.recv(1)

    with service(say) as port:
        assert proxy(f"127.0.0.1:{port}").ask(get(f"http://127.0.0.1:{port}/")).startswith(b"HTTP/1.1 " + why)


# What is refused.


def test_a_host_that_is_not_listed(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = named(monkeypatch)
    heard: list[str] = []
    running = proxy("pypi.org", "*.npmjs.org", on_refused=heard.append)
    for request in (
        "CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
        get("http://evil.example/"),
        get("http://Evil.Example./"),
    ):
        found = running.ask(request)
        assert found.startswith(b"HTTP/1.1 403 evil.example is not in sandbox.domains\r\n")
        assert found.endswith(b"\r\n\r\nevil.example is not in sandbox.domains\n")
    assert not resolver.asked
    running.ask("CONNECT pypi.org:22 HTTP/1.1\r\n\r\n")
    running.ask("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n")
    running.ask("CONNECT [::1]:5432 HTTP/1.1\r\n\r\n")
    running.ask("CONNECT npmjs.org:443 HTTP/1.1\r\n\r\n")
    entries = ("evil.example", "pypi.org:22", "127.0.0.1", "[::1]:5432", "npmjs.org")
    assert running.refused == entries == tuple(heard)
    assert running.take_refused() == entries
    assert running.take_refused() == running.refused == ()


def test_domains_can_change_while_it_runs(proxy: Callable[..., RunningProxy]) -> None:
    with WebServer({"/": page("hello")}) as server:
        running = proxy()
        assert b" 403 " in running.ask(get(server.url("/")))
        running.set_domains(running.take_refused())
        assert running.ask(get(server.url("/"))).endswith(b"hello")
        with pytest.raises(ValueError, match="write a host"):
            running.set_domains(["https://x"])
    with pytest.raises(ValueError, match="write a host"), listener() as ear:
        SandboxProxy(ear, ["*"], env={})


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.5"], ["169.254.169.254"], ["::1"], ["8.8.8.8", "192.168.0.1"], ["::ffff:127.0.0.1"],
     ["64:ff9b::7f00:1"], ["224.0.0.1"], ["fe80::1"], ["0.0.0.0"], ["2002:7f00:1::"]],
)  # fmt: skip
def test_a_listed_name_that_leads_inside_is_refused(
    addresses: list[str], proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, addresses, addresses)
    running = proxy("rebinding.example")
    monkeypatch.setattr("agent_tools.net.connect._connect_one", None)  # nothing is connected to
    for request in ("CONNECT rebinding.example:443 HTTP/1.1\r\n\r\n", get("http://rebinding.example/")):
        found = running.ask(request)
        assert found.startswith(f"HTTP/1.1 403 rebinding.example leads to {running.refused[0]}, ".encode())
        assert found.endswith(b" address, which is not in sandbox.domains\n")
    assert running.refused == (str(ip_address(addresses[-1])),)


def test_a_name_is_looked_up_once_and_the_checked_address_is_used(
    proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebServer({"/": page("the right one")}) as server:
        resolver = named(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        running = proxy(f"rebinding.example:{server.port}", f"127.0.0.1/32:{server.port}")
        assert running.ask(get(f"http://rebinding.example:{server.port}/")).endswith(b"the right one")
        assert resolver.asked == ["rebinding.example"]
        assert b" 403 " in running.ask(get(f"http://rebinding.example:{server.port}/"))
        assert running.refused == (f"127.0.0.2:{server.port}",)


def test_a_server_that_cannot_be_reached(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as ear:
        port = ear.getsockname()[1]
    running = proxy(f"127.0.0.1:{port}", "nowhere.example")
    assert running.ask(get(f"http://127.0.0.1:{port}/")).startswith(b"HTTP/1.1 502 Could not connect to 127.0.0.1:")
    named(monkeypatch, [])
    found = running.ask("CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 502 Could not find the host nowhere.example: Name or service not known.")
    assert not running.refused
