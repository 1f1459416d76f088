"""The proxy of sandboxed commands: tunnels, other proxies behind it, its bounds, and real programs that use it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.net import relay
from agent_tools.sandbox import proxy_http
from agent_tools.sandbox.proxy import proxy_environment
from tests.support.http_proxy import Proxy
from tests.support.loopback import client_hello, connect, descriptors, receive_all, service, threads, until
from tests.support.sandbox_proxies import RunningProxy, get, named
from tests.support.web_server import WebServer, page, tls

DENIED = b"\x15\x03\x03\x00\x02\x02\x31"


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def test_tls_through_a_tunnel(
    certificate: Path, proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebServer({"/x": page("secret")}, tls(certificate)) as server:
        named(monkeypatch, ["127.0.0.1"])
        running = proxy(f"good.example:{server.port}", f"127.0.0.1:{server.port}")
        with running.tunnel(f"Good.Example:{server.port}") as client:
            safe = trusting(certificate).wrap_socket(client, server_hostname="good.example")
            safe.sendall(b"GET /x HTTP/1.1\r\nHost: good.example\r\n\r\n")
            assert receive_all(safe).endswith(b"secret")
        assert not running.refused


def test_another_server_name_than_the_one_that_was_allowed(
    certificate: Path, proxy: Callable[..., RunningProxy]
) -> None:
    """A shared server would answer for a host that is not listed."""
    with WebServer({"/": page("reached")}, tls(certificate)) as server:
        address = f"127.0.0.1:{server.port}"
        running = proxy(address)
        with (
            running.tunnel(address) as client,
            pytest.raises(ssl.SSLError, match="ACCESS_DENIED"),
        ):
            trusting(certificate).wrap_socket(client, server_hostname="good.example")
        assert running.take_refused() == (f"good.example:{server.port}",)
        # Allowed as well, it may be asked for.
        running.set_domains([address, f"good.example:{server.port}"])
        with running.tunnel(address) as client:
            trusting(certificate).wrap_socket(client, server_hostname="good.example").close()


def test_a_server_name_cannot_be_hidden_and_none_is_needed(proxy: Callable[..., RunningProxy]) -> None:
    heard: list[bytes] = []
    with service(lambda client: heard.append(receive_all(client))) as port:
        running = proxy(f"127.0.0.1:{port}")
        sent = client_hello("evil.example")
        body = sent[5:]
        at = body.index(b"evil.example")
        split = b"".join(b"\x16\x03\x01" + len(p).to_bytes(2, "big") + p for p in (body[:at], body[at:]))
        for data in (sent, split, b"\x15\x03\x01\0\x02\x01\0" + sent):
            with running.tunnel(f"127.0.0.1:{port}") as client:
                for start in range(0, len(data), 7):
                    client.sendall(data[start : start + 7])
                assert receive_all(client) == DENIED
        plain = client_hello(None)
        for data in (plain, b"SSH-2.0-client\r\n", b"\x16"):
            with running.tunnel(f"127.0.0.1:{port}") as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                assert receive_all(client) == b""
        until(lambda: len(heard) == 6)
    # Where nothing was sent beyond the beginning of a record, it was nothing that had to be passed on.
    assert sorted(heard) == sorted([b"", b"", b"", b"", plain, b"SSH-2.0-client\r\n"])


def test_a_server_may_speak_first_and_either_side_may_end_first(proxy: Callable[..., RunningProxy]) -> None:
    def greet(client: socket.socket) -> None:
        client.sendall(b"SSH-2.0-server\r\n")
        client.sendall(b"heard " + receive_all(client))

    with service(greet) as port, proxy(f"127.0.0.1:{port}").tunnel(f"127.0.0.1:{port}") as client:
        assert client.recv(100) == b"SSH-2.0-server\r\n"
        client.sendall(b"SSH-2.0-client\r\n")
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"heard SSH-2.0-client\r\n"


def test_what_is_sent_right_behind_connect_is_not_lost(proxy: Callable[..., RunningProxy]) -> None:
    with service(lambda client: client.sendall(receive_all(client))) as port:
        running = proxy(f"127.0.0.1:{port}")
        with connect(running.port) as client:
            client.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nearly".encode())
            client.shutdown(socket.SHUT_WR)
            assert receive_all(client) == b"HTTP/1.1 200 Connection established\r\n\r\nearly"


# Another proxy behind this one.


def test_the_users_own_proxy_is_gone_through_with_its_password(proxy: Callable[..., RunningProxy]) -> None:
    with WebServer({"/x": page("plain")}) as server, Proxy() as upstream:
        env = {"http_proxy": f"http://me:p%40w@127.0.0.1:{upstream.port}", "HTTPS_PROXY": f"127.0.0.1:{upstream.port}"}
        running = proxy(f"127.0.0.1:{server.port}", env=env)
        assert running.ask(get(server.url("/x"), "Proxy-Authorization: Basic c3RvbGVu\r\n")).endswith(b"plain")
        line, headers = upstream.seen[0]
        assert line == f"GET {server.url('/x')} HTTP/1.1"
        assert headers["proxy-authorization"] == "Basic bWU6cEB3"
        with running.tunnel(f"127.0.0.1:{server.port}") as client:
            client.sendall(b"GET /x HTTP/1.1\r\n\r\n")
            assert receive_all(client).endswith(b"plain")
        assert upstream.seen[1][0] == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
        assert b" 403 " in running.ask("CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
        assert len(upstream.seen) == 2


def test_no_proxy_is_honoured(proxy: Callable[..., RunningProxy]) -> None:
    with WebServer({"/x": page("direct")}) as server, Proxy() as upstream:
        env = {"ALL_PROXY": f"http://127.0.0.1:{upstream.port}", "NO_PROXY": "127.0.0.1"}
        assert proxy(f"127.0.0.1:{server.port}", env=env).ask(get(server.url("/x"))).endswith(b"direct")
        assert not upstream.seen


def test_a_proxy_that_refuses_or_cannot_be_used(
    proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(refuse="407 Authentication Required") as upstream:
        named(monkeypatch, ["8.8.8.8"])
        running = proxy("pypi.org", env={"https_proxy": f"http://127.0.0.1:{upstream.port}"})
        found = running.ask("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 502 The proxy 127.0.0.1:")
        assert b"407 Authentication Required" in found
    running = proxy("pypi.org", env={"https_proxy": "socks5://127.0.0.1:1"})
    assert b"502 A proxy of type socks5" in running.ask("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")


def test_behind_a_proxy_addresses_are_checked_as_far_as_they_are_known(
    proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(refuse="502 Bad Gateway") as upstream:
        resolver = named(monkeypatch, ["10.0.0.1"], [])
        running = proxy("inside.example", "unknown.example", env={"all_proxy": f"127.0.0.1:{upstream.port}"})
        assert b"403 inside.example leads to 10.0.0.1, a private address" in running.ask(get("http://inside.example/"))
        assert not upstream.seen
        for _ in range(2):
            assert running.ask(get("http://unknown.example/")).startswith(b"HTTP/1.1 502 Bad Gateway")
        assert len(upstream.seen) == 2
        assert resolver.asked == ["inside.example", "unknown.example"]


# Bounds.


def test_headers_that_drip_are_given_up(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_http, "HEAD_SECONDS", 0.3)
    running = proxy("pypi.org")
    stop = threading.Event()
    with connect(running.port) as client:

        def drip() -> None:
            client.sendall(b"GET http://pypi.org/ HTTP/1.1\r\n")
            while not stop.wait(0.05):
                try:
                    client.sendall(b"X: 1\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert receive_all(client).startswith(b"HTTP/1.1 408 The headers did not arrive in time\r\n")
        stop.set()
        dripping.join()
    until(lambda: threads("sandbox-proxy") == 1)


def test_a_connection_on_which_nothing_moves_is_ended(
    proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.sandbox.proxy.IDLE_SECONDS", 0.2)
    with service(receive_all) as port, proxy(f"127.0.0.1:{port}").tunnel(f"127.0.0.1:{port}") as client:
        assert client.recv(1) == b""


@pytest.mark.slow
def test_three_hundred_connections_at_once(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    """256 are served; the others wait, and are served as soon as one of those ends."""
    monkeypatch.setattr(relay, "QUEUE_SECONDS", 60.0)
    go_on = threading.Event()

    def answer(client: socket.socket) -> None:
        client.recv(65536)
        assert go_on.wait(60)
        client.sendall(page("hello"))

    before = descriptors()
    with service(answer) as port:
        running = proxy(f"127.0.0.1:{port}")
        clients = [connect(running.port) for _ in range(300)]
        for client in clients:
            client.sendall(get(f"http://127.0.0.1:{port}/").encode())
        until(lambda: threads("sandbox-proxy") == relay.MAX_CONNECTIONS + 1)
        go_on.set()
        for client in clients:
            assert receive_all(client).endswith(b"hello")
            client.close()
        running.close()
    until(lambda: descriptors() <= before)


def test_closing_ends_what_is_under_way(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection in each state: no request yet, a name that is looked up, a tunnel."""
    never = threading.Event()
    real = socket.getaddrinfo
    looked_up = threading.Event()

    def slow(host: object, *rest: object, **more: object) -> object:
        if host == b"slow.example":
            looked_up.set()
            never.wait(60)
        return real(host, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with service(receive_all) as port:
        running = proxy(f"127.0.0.1:{port}", "slow.example")
        with connect(running.port) as one, connect(running.port) as two, running.tunnel(f"127.0.0.1:{port}") as three:
            two.sendall(b"CONNECT slow.example:443 HTTP/1.1\r\n\r\n")
            assert looked_up.wait(30)
            running.close()
            assert threads("sandbox-proxy") == 0
            assert [c.recv(1) for c in (one, two, three)] == [b""] * 3
    never.set()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_keeps_no_connection_open(proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was forked in the middle has copies of all sockets, and must not hold the other sides up."""
    monkeypatch.setattr("agent_tools.sandbox.proxy.IDLE_SECONDS", 0.3)
    ended = threading.Event()
    with service(lambda client: receive_all(client) or ended.set()) as port:
        running = proxy(f"127.0.0.1:{port}")
        with running.tunnel(f"127.0.0.1:{port}") as client:
            wait, go_on = os.pipe()
            child = os.fork()
            if child == 0:
                # Until the parent closes its end, or is gone.
                os.close(go_on)
                os.read(wait, 1)
                os._exit(0)
            os.close(wait)
            try:
                assert client.recv(1) == b""
                assert ended.wait(30)
            finally:
                os.close(go_on)
                os.waitpid(child, 0)


# Real programs.


def usual(running: RunningProxy, **more: str) -> dict[str, str]:
    without = {n: v for n, v in os.environ.items() if not n.lower().endswith("_proxy")}
    # A name, as programs go to loopback without a proxy.
    return {**without, **proxy_environment(running.port), **more}


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"NOT TESTED: no {program} here")
    return found


def test_curl(certificate: Path, proxy: Callable[..., RunningProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    curl = need("curl")
    with WebServer({"/": page("plain")}) as plain, WebServer({"/": page("safe")}, tls(certificate)) as safe:
        named(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
        ports = plain.port, safe.port
        running = proxy(*(f"{host}:{p}" for p in ports for host in ("good.example", "127.0.0.1")))
        env = usual(running, CURL_CA_BUNDLE=str(certificate))
        urls = [plain.url("/", "good.example"), safe.url("/", "good.example")]
        done = subprocess.run([curl, "-sS", "-m", "30", *urls], env=env, capture_output=True)
        assert (done.stdout, done.stderr) == (b"plainsafe", b"")
        done = subprocess.run([curl, "-sS", "https://evil.example/"], env=env, capture_output=True)
        assert done.returncode and b"403" in done.stderr
        done = subprocess.run([curl, "-sS", "http://evil.example/"], env=env, capture_output=True)
        assert done.stdout == b"evil.example is not in sandbox.domains\n"
        # Servers of the sandbox itself are reached without.
        done = subprocess.run([curl, "-sS", plain.url("/", "localhost")], env=env, capture_output=True)
        assert done.stdout == b"plain"
        assert running.refused == ("evil.example",)


def test_python_says_why_it_was_refused(proxy: Callable[..., RunningProxy]) -> None:
    """As pip does: of an answer to CONNECT, programs show the status line only."""
    code = "import urllib.request\ntry: urllib.request.urlopen('https://evil.example/')\nexcept OSError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], env=usual(proxy()), capture_output=True, text=True)
    assert "403 evil.example is not in sandbox.domains" in done.stdout


def test_git_and_npm_and_cargo_ask_the_proxy(proxy: Callable[..., RunningProxy], tmp_path: Path) -> None:
    """Each with a configuration that names a proxy out of reach where the program has one."""
    (tmp_path / ".npmrc").write_text("proxy=http://127.0.0.1:1\nhttps-proxy=http://127.0.0.1:1\nfetch-retries=0\n")
    (tmp_path / "config.toml").write_text(
        '[http]\nproxy = "127.0.0.1:1"\n[net]\nretry = 0\n[registries.x]\nindex = "sparse+https://cargo.example/"\n'
    )
    running = proxy()
    commands = {
        "git.example": ["git", "ls-remote", "https://git.example/x.git"],
        "npm.example": ["npm", "view", "x", "--registry", "https://npm.example/"],
        "cargo.example": ["cargo", "search", "--registry", "x", "y"],
    }
    commands = {host: command for host, command in commands.items() if shutil.which(command[0])}
    env = usual(running, npm_config_userconfig=str(tmp_path / ".npmrc"), npm_config_cache=str(tmp_path / "cache"))
    env |= {"npm_config_update_notifier": "false", "CARGO_HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull}
    for command in commands.values():
        assert subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, timeout=100).returncode
    assert running.refused == tuple(commands)


def test_the_variables() -> None:
    made = proxy_environment(8123, {"MAVEN_OPTS": "-Xmx4g"})
    for name in ("HTTP_PROXY", "https_proxy", "all_proxy", "npm_config_https_proxy", "CARGO_HTTP_PROXY"):
        assert made[name] == "http://127.0.0.1:8123"
    assert made["NO_PROXY"] == made["no_proxy"] == "localhost,127.0.0.1,::1"
    assert made["MAVEN_OPTS"].startswith("-Xmx4g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8123 -Dhttps.proxyHost=")
    assert "JAVA_TOOL_OPTIONS" not in made
