"""The server behind a reverse proxy with TLS, configured as docs/web.md has it, and through ssh."""

from __future__ import annotations

import getpass
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ROOT
from tests.support.program import agent, clean_env
from tests.support.scripts import call
from tests.support.served import SECONDS, EventStream, Served, served, write_script

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_NAME = "agent.example.org"
Connect = Callable[[], http.client.HTTPConnection]


def program(name: str) -> str:
    """The path of a program; skips where there is none."""
    found = shutil.which(name) or shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f"NOT TESTED: there is no {name}, so agent serve was not tried with it (apt install {name})")
    return found


def reserved() -> tuple[socket.socket, int]:
    """A port that nobody else gets until its socket is closed."""
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    return probe, int(probe.getsockname()[1])


def local_port(server: Served) -> int:
    lock = (Path(server.env["AGENT_STATE_DIR"]) / "serve/lock").read_text("utf-8")
    return int(lock.splitlines()[1].rpartition(":")[2].strip("/"))


def documented(language: str) -> str:
    """A block of docs/web.md by its first line."""
    text = (ROOT / "docs/web.md").read_text("utf-8")
    found = re.search(rf"```text\n# {language}\n(.*?)```", text, re.DOTALL)
    assert found is not None, language
    return found[1]


@contextmanager
def running(words: list[str], folder: Path, port: int, address: str = "127.0.0.1") -> Iterator[None]:
    """Run a program that listens on a port."""
    log = folder / f"{Path(words[0]).name}.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=clean_env(folder / "home")
        ) as process,
    ):
        try:
            end = time.monotonic() + SECONDS
            while True:
                assert process.poll() is None and time.monotonic() < end, log.read_text("utf-8", "replace")
                try:
                    socket.create_connection((address, port), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield
        finally:
            process.kill()
            process.wait(SECONDS)


def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    names = ["-subj", f"/CN={_NAME}", "-addext", f"subjectAltName=DNS:{_NAME}"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([program("openssl"), *words[1:], *names], check=True, capture_output=True)
    return key, cert


def nginx(folder: Path, port: int, server: Served) -> list[str]:
    key, cert = certificate(folder)
    block = documented("nginx").replace("443 ssl", f"127.0.0.1:{port} ssl").replace(":4096", f":{server.port}")
    block = re.sub(r"ssl_certificate .*;", f"ssl_certificate {cert};", block)
    block = re.sub(r"ssl_certificate_key .*;", f"ssl_certificate_key {key};", block)
    temporary = "".join(f"{n}_temp_path {folder}/{n};" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    user = "user root; " if getpass.getuser() == "root" else ""
    main = f"{user}daemon off; master_process off; pid {folder}/pid; error_log stderr;\nevents {{}}\n"
    config.write_text(f"{main}http {{ access_log off; {temporary}\n{block}}}\n")
    return [program("nginx"), "-c", str(config), "-e", "stderr"]


def caddy(folder: Path, port: int, server: Served) -> list[str]:
    key, cert = certificate(folder)
    block = documented("Caddyfile").replace(_NAME, f"https://{_NAME}:{port}").replace(":4096", f":{server.port}")
    config = folder / "Caddyfile"
    block = block.replace("{\n", f"{{\n    bind 127.0.0.1\n    tls {cert} {key}\n", 1)
    config.write_text(f"{{\n    admin off\n    auto_https off\n}}\n{block}")
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(config)]


def ask(connect: Connect, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = connect()
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json", **given})
        reply = connection.getresponse()
        raw = reply.read()
        return reply.status, json.loads(raw) if raw[:1] == b"{" else raw
    finally:
        connection.close()


def use(server: Served, connect: Connect, origin: str) -> None:
    """Work in a session as the page does: each of these has failed behind some proxy."""
    host = {"Host": origin.partition("://")[2], "Authorization": f"Bearer {server.token}"}
    status, page = ask(connect, "GET", "/", **host)
    assert status == 200 and b"/page/app.js" in page, page
    assert ask(connect, "GET", "/v1/me", **host, Origin=origin)[1]["name"] == "owner"
    assert ask(connect, "GET", "/v1/me", **host, Origin="https://other.example.org")[0] == 403
    large = b"x" * 300_000
    status, sent = ask(
        connect, "POST", "/v1/uploads?name=a.txt", large, **host, content_type="application/octet-stream"
    )
    assert status in (200, 201), sent
    write = {"text": "I will.", "calls": [call("Write", file_path="made.txt", content="x")]}
    script = write_script(server.work, write, {"text": "Done."})
    body = {"prompt": "Do it", "project": server.project, "model": f"scripted:{script}"}
    status, made = ask(connect, "POST", "/v1/sessions", body, **host, Origin=origin)
    assert status == 201, made
    connection = connect()
    connection.request("GET", f"/v1/sessions/{made['id']}/view/events", headers=host)
    reply = connection.getresponse()
    events = EventStream(reply)

    def asks(kind: str, changes: Any) -> bool:
        return any(change["type"] == "pending" and change["items"] for change in changes)

    # The stream goes on, so what arrives was not held back.
    (*_, (_, _, changes)) = events.until(asks)
    item = next(change["items"][0] for change in changes if change["type"] == "pending")
    decision = {"call_id": item["call_id"], "binding": item["binding"], "verdict": "approve"}
    assert ask(connect, "POST", f"/v1/sessions/{made['id']}/decisions", decision, **host, Origin=origin)[0] == 200
    events.until(lambda _, found: any(c["type"] == "session" and c["session"]["state"] == "done" for c in found))
    reply.close()
    connection.close()


@pytest.mark.parametrize("configure", [nginx, caddy])
def test_a_proxy_as_documented(work: Path, configure: Callable[..., list[str]]) -> None:
    program(configure.__name__)
    probe, port = reserved()
    origin = f"https://{_NAME}:{port}"
    with served(work, "--allowed-host", f"{_NAME}:{port}") as server:
        probe.close()
        # It has said the address of the proxy; its own is for programs of this machine.
        server.port = local_port(server)
        assert f"{origin}/" in agent(["serve", "token", "add", "phone"], work).stderr
        assert json.loads(agent(["board", "--json"], work).stdout) == []
        words = configure(work.parent, port, server)
        with running(words, work.parent, port):
            context = ssl.create_default_context(cafile=str(work.parent / "cert.pem"))

            def connect() -> http.client.HTTPSConnection:
                made = http.client.HTTPSConnection(_NAME, port, timeout=SECONDS, context=context)
                plain = socket.create_connection(("127.0.0.1", port), SECONDS)
                made.sock = context.wrap_socket(plain, server_hostname=_NAME)
                return made

            use(server, connect, origin)
            status, _ = ask(connect, "GET", "/v1/me", Host="other.example.org", Authorization=f"Bearer {server.token}")
            assert status in (200, 403, 404, 421), "a proxy may know no other host"


def test_a_port_forwarded_by_ssh(work: Path) -> None:
    sshd, ssh, keygen = program("sshd"), program("ssh"), program("ssh-keygen")
    folder, (probe, port) = work.parent, reserved()
    for name in ("host", "mine"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/mine.pub\nPasswordAuthentication no\n"
    )
    host = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host[0]} {host[1]}\n")
    if getpass.getuser() == "root":
        Path("/run/sshd").mkdir(exist_ok=True)
    with ExitStack() as running_now:
        server = running_now.enter_context(served(work))
        probe.close()
        running_now.enter_context(running([sshd, "-D", "-e", "-f", str(folder / "sshd.conf")], folder, port))
        # Another loopback address stands in for the other machine, which has the same port free.
        forward = f"127.0.0.2:{server.port}:127.0.0.1:{server.port}"
        options = [f"UserKnownHostsFile={folder}/known", f"IdentityFile={folder}/mine", "ExitOnForwardFailure=yes",
                   "IdentitiesOnly=yes", "BatchMode=yes"]  # fmt: skip
        given = [word for option in options for word in ("-o", option)]
        words = [ssh, "-F", "none", "-N", "-p", str(port), *given, "-L", forward, f"{getpass.getuser()}@127.0.0.1"]
        with running(words, folder, server.port, "127.0.0.2"):
            use(
                server,
                lambda: http.client.HTTPConnection("127.0.0.2", server.port, timeout=SECONDS),
                f"http://127.0.0.1:{server.port}",
            )
