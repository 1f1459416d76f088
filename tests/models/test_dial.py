"""The way to the server: proxies, tunnels and TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from agent_tools.cancel import CancelToken
from agent_tools.net import connect
from agent_tools.net.http import Timeouts
from agent_tools.net.http_connection import HttpError
from tests.support import model_server as scripted
from tests.support.http_proxy import Proxy
from tests.support.model_server import ModelServer
from tests.support.stalled_ports import BODY, PROMPT, HttpDoor, body_of, cancelled_within, http, silent_port

pytestmark = pytest.mark.usefixtures("clean_environment")


# Proxies.


def test_plain_http_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([scripted.Reply(raw=b"via proxy")]) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:s%20ecret@127.0.0.1:{proxy.port}")
        assert body_of(http(server).post({}, BODY, CancelToken())) == b"via proxy"
        (line, headers) = proxy.seen[0]
        assert line == f"POST {server.openai_url}/chat/completions HTTP/1.1"
        assert headers["proxy-authorization"] == "Basic bWU6cyBlY3JldA=="


@pytest.mark.parametrize(
    ("no_proxy", "used"),
    [
        ("127.0.0.1", False),
        ("*", False),
        ("other.example, 127.0.0.0/8", False),
        ("127.0.0.1:{port}", False),
        ("127.0.0.1:1", True),
        ("example.com 10.0.0.0/8", True),
    ],
)
def test_no_proxy_names_hosts_networks_and_ports(no_proxy: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([scripted.Reply(raw=b"x")]) as server, Proxy() as proxy:
        monkeypatch.setenv("all_proxy", f"127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", no_proxy.format(port=server.port))
        body_of(http(server).post({}, BODY, CancelToken()))
        assert bool(proxy.seen) is used


@pytest.mark.parametrize(
    ("host", "no_proxy", "bypassed"),
    [
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("example.com", "example.com", True),
        ("badexample.com", "example.com", False),
        ("::1", "::1", True),
    ],
)
def test_no_proxy_domains(host: str, no_proxy: str, bypassed: bool) -> None:
    assert connect.is_bypassed(host, 443, no_proxy) is bypassed


def test_a_proxy_of_another_kind_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(HttpError, match="socks5:// is not supported"):
        HttpDoor("http://api.example.com/", Timeouts()).post({}, BODY, CancelToken())


# TLS.


def tls_server(certificate: Path, *replies: scripted.Reply) -> ModelServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return ModelServer(replies, tls=context)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_tls_with_a_bundle_from_the_environment(
    variable: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(certificate))
    with tls_server(certificate, scripted.Reply(raw=b"one"), scripted.Reply(raw=b"two")) as server:
        door = http(server)
        assert body_of(door.post({}, BODY, CancelToken())) == b"one"
        assert body_of(door.post({}, BODY, CancelToken())) == b"two"
        assert server.connections == 1


def test_an_unknown_certificate_is_refused_with_advice(certificate: Path) -> None:
    with tls_server(certificate) as server:
        with pytest.raises(HttpError, match=r"certificate of 127\.0\.0\.1 was not accepted.*SSL_CERT_FILE") as caught:
            http(server).post({}, BODY, CancelToken())
        assert not caught.value.retryable


def test_a_missing_bundle_is_named(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with tls_server(certificate) as server, pytest.raises(HttpError, match=r"SSL_CERT_FILE names /nowhere/ca\.pem"):
        http(server).post({}, BODY, CancelToken())


def test_cancelling_ends_a_stalled_read_over_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with tls_server(certificate, scripted.Reply(raw=b"abcdef", cut=2, stall="middle")) as server:
        took = cancelled_within(lambda token: body_of(http(server).post({}, BODY, token)), server.stalled.wait)
        assert took < PROMPT


def test_tls_through_a_proxy(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with tls_server(certificate, scripted.Reply(raw=b"secret")) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert body_of(http(server).post({}, BODY, CancelToken())) == b"secret"
        assert proxy.seen[0][0] == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY"])
def test_a_proxy_that_is_not_there_is_called_the_proxy(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://me:s3cret@127.0.0.1:1")
    url = "http://llm.example.org/v1" if variable == "HTTP_PROXY" else "https://llm.example.org/v1"
    with pytest.raises(HttpError, match=r"Could not connect to 127\.0\.0\.1:1: connection refused") as caught:
        HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())
    assert "the proxy that the environment sets" in str(caught.value) and "NO_PROXY" in str(caught.value)
    assert caught.value.retryable and "s3cret" not in str(caught.value)


def test_a_server_without_tls_is_named_and_not_tried_again() -> None:
    def answer() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(HttpError, match=f"127.0.0.1:{port} does not speak TLS; .* http://") as caught:
            HttpDoor(f"https://127.0.0.1:{port}/v1", Timeouts()).post({}, BODY, CancelToken())
    assert not caught.value.retryable


def test_a_proxy_that_refuses_the_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(refuse="407 Proxy Authentication Required") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(HttpError, match=r"refused to connect to api\.example\.com: 407 Proxy Auth"):
            HttpDoor("https://api.example.com/v1", Timeouts()).post({}, BODY, CancelToken())


def test_cancelling_ends_a_tls_handshake() -> None:
    with silent_port() as (port, came):
        door = HttpDoor(f"https://127.0.0.1:{port}/", Timeouts())
        assert cancelled_within(lambda token: door.post({}, BODY, token), came.wait) < PROMPT


def test_cancelling_ends_waiting_for_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_port() as (port, came):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        door = HttpDoor("https://api.example.com/", Timeouts())
        assert cancelled_within(lambda token: door.post({}, BODY, token), came.wait) < PROMPT
