"""A port of a sandbox carried to this machine's, and what any server of connections owes: bounds, and a clean end."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep

import pytest

from agent_tools.cancel import CancelToken
from agent_tools.net import relay
from agent_tools.net.connect import shut_down
from agent_tools.net.relay import ConnectionServer, PortForward
from tests.support.loopback import connect, descriptors, listener, receive_all, service, threads, until


@contextmanager
def forward(port: int) -> Iterator[int]:
    ear = listener()
    inside = ear.getsockname()[1]
    running = PortForward(ear, port)
    try:
        yield inside
    finally:
        running.close()
        assert threads("forward") == 0
        assert ear.fileno() == -1


def test_both_directions_and_the_half_closed_end() -> None:
    """A service that answers only once it has heard everything, as `nc -N` asks one."""

    def answer(client: socket.socket) -> None:
        heard = receive_all(client)
        client.sendall(b"heard " + heard)

    with service(answer) as port, forward(port) as inside, connect(inside) as client:
        client.sendall(b"all")
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"heard all"


def test_a_service_that_ends_first_is_still_written_to() -> None:
    heard = []
    done = threading.Event()

    def answer(client: socket.socket) -> None:
        client.shutdown(socket.SHUT_WR)
        heard.append(receive_all(client))
        done.set()

    with service(answer) as port, forward(port) as inside, connect(inside) as client:
        assert client.recv(1) == b""
        client.sendall(b"late")
        client.shutdown(socket.SHUT_WR)
        assert done.wait(30)
        assert heard == [b"late"]


def test_much_passes_both_ways_at_once_and_whole() -> None:
    data = os.urandom(1 << 20) * 8

    def answer(client: socket.socket) -> None:
        while piece := client.recv(65536):
            client.sendall(piece)

    with service(answer) as port, forward(port) as inside, connect(inside) as client:
        writer = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        writer.start()
        assert receive_all(client) == data
        writer.join()


def test_a_reader_that_is_slow_holds_the_writer_back() -> None:
    """Nothing is stored up: an endless answer stops when nobody reads it."""
    sent = 0

    def answer(client: socket.socket) -> None:
        nonlocal sent
        client.settimeout(1)
        while True:
            sent += client.send(b"x" * 65536)

    with service(answer) as port, forward(port) as inside, connect(inside) as client:
        client.recv(1)
        before = -1
        while before != sent:
            before = sent
            sleep(0.5)
        assert sent < 64 << 20


def test_no_direction_stores_more_than_a_piece_while_the_other_one_moves() -> None:
    """A client that sends and never reads, and a server that reads and never stops sending."""
    client, client_far = socket.socketpair()
    server, server_far = socket.socketpair()
    fed = 0

    class Counted(relay.Filter):
        def feed(self, data: bytes) -> bytes:
            nonlocal fed
            fed += len(data)
            return data

    def flood() -> None:
        with suppress(OSError):
            while True:
                server_far.sendall(b"x" * 65536)

    def carry() -> None:
        with suppress(OSError):
            relay.relay(client, server, cancel, down=Counted())

    def drain() -> None:
        # Slower than the client sends, so that this direction often waits for room.
        while server_far.recv(65536):
            sleep(0.001)

    cancel = CancelToken()
    working = [threading.Thread(target=carry), threading.Thread(target=flood)]
    for thread in working:
        thread.start()
    drained = threading.Thread(target=drain)
    drained.start()
    for _ in range(400):
        client_far.sendall(b"y" * 65536)
    assert fed < 4 << 20
    cancel.cancel()
    for sock in (client_far, server_far):
        shut_down(sock)
    for thread in (*working, drained):
        thread.join(30)
        assert not thread.is_alive()
    for sock in (client, client_far, server, server_far):
        sock.close()


def test_what_a_side_said_before_it_left_still_arrives() -> None:
    """As the answer of a server that does not want to hear the whole upload."""
    client, client_far = socket.socketpair()
    server, server_far = socket.socketpair()
    server_far.sendall(b"413")
    server_far.close()
    with client, client_far, server:
        carrying = threading.Thread(
            target=relay.relay, args=(client, server, CancelToken()), kwargs={"first": b"upload"}
        )
        carrying.start()
        assert receive_all(client_far) == b"413"
        carrying.join(30)


def test_nothing_listens_at_the_port() -> None:
    with listener() as ear:
        free = ear.getsockname()[1]
    with forward(free) as inside, pytest.raises(ConnectionResetError), connect(inside) as client:
        client.recv(1)


def test_what_was_broken_off_does_not_look_complete() -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(b"half")
        client.recv(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with service(answer) as port, forward(port) as inside, connect(inside) as client:
        assert client.recv(4) == b"half"
        client.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_client_that_goes_away_frees_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the service says nothing and never hears of it."""
    monkeypatch.setattr(relay, "HALF_CLOSED_SECONDS", 0.1)
    stop = threading.Event()
    with service(lambda client: stop.wait(60) and None) as port, forward(port) as inside:
        for _ in range(20):
            connect(inside).close()
        until(lambda: threads("forward") == 1)
    stop.set()


def test_closing_ends_every_connection_and_thread_and_leaves_no_descriptor() -> None:
    before = descriptors()
    with service(receive_all) as port:
        ear = listener()
        running = PortForward(ear, port)
        clients = [connect(ear.getsockname()[1]) for _ in range(30)]
        until(lambda: threads("forward") == 31)
        running.close()
        assert threads("forward") == 0
        for client in clients:
            assert client.recv(1) == b""
            client.close()
        running.close()
    until(lambda: descriptors() <= before)


def test_children_inherit_no_socket() -> None:
    ear = listener()
    ear.set_inheritable(True)
    seen: list[socket.socket] = []

    class Server(ConnectionServer):
        def serve(self, client: socket.socket) -> None:
            seen.append(client)
            assert not client.get_inheritable()
            client.sendall(b"ok")

    running = Server(ear, "test-server")
    with connect(ear.getsockname()[1]) as client:
        assert receive_all(client) == b"ok"
    assert not ear.get_inheritable()
    running.close()


def test_more_connections_than_there_may_be_wait_or_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(relay, "QUEUE_SECONDS", 0.1)

    class Server(ConnectionServer):
        BUSY = b"busy"

        def serve(self, client: socket.socket) -> None:
            client.sendall(b"hello")
            client.recv(1)

    ear = listener()
    running = Server(ear, "test-server")
    port = ear.getsockname()[1]
    with connect(port) as one, connect(port) as two:
        assert (one.recv(5), two.recv(5)) == (b"hello", b"hello")
        with connect(port) as three:
            assert receive_all(three) == b"busy"
        monkeypatch.setattr(relay, "QUEUE_SECONDS", 30.0)
        with connect(port) as four:
            one.close()
            assert four.recv(5) == b"hello"
    running.close()
    assert threads("test-server") == 0


def test_what_goes_wrong_with_one_connection_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    class Server(ConnectionServer):
        def serve(self, client: socket.socket) -> None:
            raise LookupError

    ear = listener()
    running = Server(ear, "test-server")
    for _ in range(3):
        with connect(ear.getsockname()[1]) as client:
            assert client.recv(1) == b""
    running.close()
    assert capfd.readouterr() == ("", "")
