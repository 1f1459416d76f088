"""The sandbox and the network: nothing gets out unless it is allowed, and the sockets of services are out of reach."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.sandbox.mounts import reachable_sockets
from tests.support.loopback import SaysHello
from tests.support.sandboxes import SandboxTester


@pytest.fixture
def port() -> Iterator[int]:
    """A server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SaysHello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


PROGRAMS = {
    "curl": "curl -s -m 5 http://127.0.0.1:{port}/",
    "wget": "wget -q -T 5 -t 1 -O - http://127.0.0.1:{port}/",
    "bash": "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_reach_a_server_only_where_the_network_is_allowed(
    cage: SandboxTester, program: str, port: int
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"NOT TESTED: no {program} here")
    command = PROGRAMS[program].format(port=port)
    refused = cage(command)
    assert "hello" not in refused.out and refused.code != 0
    assert "hello" in cage(command, network=True).out


def test_no_kind_of_socket_leads_out(cage: SandboxTester) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.settimeout(0.3)
        code = f"""
def send():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"out", ("127.0.0.1", {ear.getsockname()[1]}))
def reach(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(3)
    s.connect(address)
def ping():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.sendto(struct.pack("!BBHHH", 8, 0, 0, 1, 1), ("198.51.100.1", 0))
print(tried(reach, socket.AF_INET, ("198.51.100.1", 80)), tried(reach, socket.AF_INET6, ("2001:db8::1", 80)))
print(tried(ping), tried(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1))
print(*(tried(socket.socket, family, socket.SOCK_DGRAM) for family in (40, 17, 38, 31)))
tried(send)
try:
    print(socket.getaddrinfo("example.org", 80))
except socket.gaierror:
    print("unresolved")
"""
        found = cage.python(code).splitlines()
        assert all(word in ("ENETUNREACH", "EPERM", "EACCES", "EAFNOSUPPORT") for word in found[0].split()), found
        assert "ok" not in found[1].split()[0:1] and found[1].split()[1] == "EPERM"
        # VSOCK, PACKET, ALG and BLUETOOTH reach the machine past any namespace.
        assert found[2].split() == ["EPERM"] * 4
        assert found[-1] == "unresolved"
        with pytest.raises(TimeoutError):
            ear.recv(10)


def test_a_command_has_a_loopback_of_its_own(bubblewrap: SandboxTester, port: int) -> None:
    code = (
        "import threading; a = socket.create_server(('127.0.0.1', 0)); b = socket.create_connection(a.getsockname())\n"
        f"print(a.accept()[0].send(b'x'), b.recv(1), tried(socket.create_connection, ('127.0.0.1', {port})))"
    )
    assert bubblewrap.python(code) == "1 b'x' ECONNREFUSED"


@pytest.mark.parametrize("network", [False, True])
def test_abstract_sockets_are_out_of_reach(cage: SandboxTester, network: bool) -> None:
    name = f"\0agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        found = cage.python(f"s = socket.socket(socket.AF_UNIX); print(tried(s.connect, {name!r}))", network=network)
    assert found in ("ECONNREFUSED", "EPERM")


def test_sockets_of_services_are_out_of_reach(cage: SandboxTester) -> None:
    path = cage.home / "service"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert path in reachable_sockets(cage.profile())
        found = cage.python(f"s = socket.socket(socket.AF_UNIX); print(tried(s.connect, {str(path)!r}))")
        assert found in ("EPERM", "EACCES", "ECONNREFUSED", "ENOENT")
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_sockets_of_the_workspace_work(bubblewrap: SandboxTester) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(bubblewrap.root)
        try:
            server.bind("s")
        finally:
            os.chdir(here)
        server.listen()
        assert bubblewrap.python("s = socket.socket(socket.AF_UNIX); print(tried(s.connect, 's'))") == "ok"


def test_pairs_of_sockets_work(cage: SandboxTester) -> None:
    assert cage.python("a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))") == "b'x'"


def test_the_directory_of_the_services_is_empty(bubblewrap: SandboxTester) -> None:
    assert bubblewrap("ls -A /run; touch /run/x").out == "touch: cannot touch '/run/x': Read-only file system\n"
