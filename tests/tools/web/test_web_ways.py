"""The way to a server: which addresses are reached, proxies, and certificates."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_proxy import Proxy
from tests.support.web_server import Resolver, WebServer, fails, get, moved, page, tls

# Addresses.


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        (["127.0.0.1"], "this machine's own"),
        (["169.254.169.254"], "metadata"),
        (["10.0.0.5"], "a private"),
        (["8.8.8.8", "192.168.0.1"], "a private"),
        (["8.8.8.8", "::1"], "this machine's own"),
        (["::ffff:127.0.0.1"], "a disguised IPv4"),
    ],
)
def test_a_name_that_leads_inside_is_refused_before_anything_is_connected(
    addresses: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(addresses))
    monkeypatch.setattr(socket, "socket", None)
    assert kind in fails("http://harmless.example/", allowed=())


def test_a_name_is_looked_up_once_and_the_checked_address_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers differently the second time gains nothing."""
    with WebServer({"/": page("the right one")}) as server:
        resolver = Resolver(["127.0.0.1"], ["127.0.0.2"])
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        answer = get(f"http://rebinding.example:{server.port}/")
        assert answer.body == b"the right one"
        assert resolver.asked == ["rebinding.example"]
        assert server.seen[0][1]["host"] == f"rebinding.example:{server.port}"


def test_after_a_redirect_the_name_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with WebServer({"/": moved("/inside")}) as server:
        monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"], ["10.0.0.1"]))
        assert "10.0.0.1, a private address" in fails(f"http://rebinding.example:{server.port}/")
        assert len(server.seen) == 1


def test_the_next_address_is_tried_where_one_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with WebServer({"/": page("alive")}) as server:
        monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.3", "127.0.0.1"]))
        assert get(f"http://two.example:{server.port}/", allowed=("127.0.0.0/8",)).body == b"alive"


def test_a_name_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver([]))
    assert fails("http://nowhere.example/") == ("Could not find the host nowhere.example: Name or service not known.")


# Proxies.


def test_behind_a_proxy_the_proxy_connects() -> None:
    with WebServer({"/x": page("via proxy")}) as server, Proxy() as proxy:
        env = {"http_proxy": f"http://me:pw@127.0.0.1:{proxy.port}"}
        assert get(server.url("/x"), env=env).body == b"via proxy"
        line, headers = proxy.seen[0]
    assert line == f"GET {server.url('/x')} HTTP/1.1"
    assert headers["proxy-authorization"] == "Basic bWU6cHc="


def test_behind_a_proxy_what_leads_inside_is_refused_as_far_as_it_can_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(refuse="502 Bad Gateway") as proxy:
        env = {"ALL_PROXY": f"127.0.0.1:{proxy.port}"}
        assert "this machine's own" in fails("http://127.0.0.9/", env=env)
        monkeypatch.setattr(socket, "getaddrinfo", Resolver(["10.0.0.1"], []))
        assert "a private address" in fails("http://inside.example/", env=env)
        assert "a name of this machine" in fails("http://wiki/", env=env)
        assert not proxy.seen
        monkeypatch.undo()
        real = socket.getaddrinfo

        def unknown(host: Any, *rest: Any, **more: Any) -> Any:
            if host == b"only-the-proxy-knows.example":
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return real(host, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        assert get("http://only-the-proxy-knows.example/", env=env).status == 502
        assert len(proxy.seen) == 1


def test_a_proxy_that_cannot_be_used() -> None:
    assert "socks5:// is not supported" in fails("http://a.example/", env={"all_proxy": "socks5://127.0.0.1:1"})


# TLS.


def test_a_certificate_that_nobody_signed_is_refused(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"]))
    with WebServer({"/": page("x")}, tls(certificate)) as server:
        words = fails(server.url("/", "good.example"))
        assert words.startswith("The certificate of good.example was not accepted (self-signed certificate).")
        assert not server.seen


def test_the_certificate_is_checked_for_the_name_not_for_the_address(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"], ["127.0.0.1"]))
    env = {"SSL_CERT_FILE": str(certificate)}
    with WebServer({"/": page("trusted")}, tls(certificate)) as server:
        assert get(server.url("/", "good.example"), env=env).body == b"trusted"
        assert "certificate of evil.example was not accepted" in fails(server.url("/", "evil.example"), env=env)


def test_through_a_tunnel_the_proxy_hears_nothing_but_the_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda h, *a, **k: real("127.0.0.1" if "good" in str(h) else h, *a, **k))
    with WebServer({"/secret": page("inside")}, tls(certificate)) as server, Proxy() as proxy:
        env = {"SSL_CERT_FILE": str(certificate), "https_proxy": f"http://a:b@127.0.0.1:{proxy.port}"}
        assert get(server.url("/secret", "good.example"), env=env).body == b"inside"
        assert [line for line, _ in proxy.seen] == [f"CONNECT good.example:{server.port} HTTP/1.1"]
        assert "proxy-authorization" not in server.seen[0][1]
