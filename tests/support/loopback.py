"""Connections on this machine: listen, answer, and count those that are open."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from tests.support.fork_server import ROOT as ROOT


def end_listening(listener: socket.socket) -> None:
    """Close a listening socket in whose accept() a thread may wait.

    Closing alone does not wake that thread; where the process is then stopped and continued, the system calls accept()
    again with a descriptor that may be another server's by then, whose connections it takes.
    """
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def listener(backlog: int = 512) -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=backlog)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that threads bring about."""
    end = monotonic() + 30
    while not holds():
        assert monotonic() < end
        sleep(0.01)


def threads(name: str) -> int:
    return sum(t.name.startswith(name) for t in threading.enumerate())


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


def receive_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


@contextmanager
def service(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on this machine: `answer` is called with each connection."""
    with listener() as ear:

        def serve(client: socket.socket) -> None:
            with client, suppress(OSError):
                answer(client)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(ear.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield ear.getsockname()[1]
        end_listening(ear)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def client_hello(name: str | None, highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """What Python's own client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.maximum_version = highest
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


class SaysHello(http.server.BaseHTTPRequestHandler):
    """Says hello."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_request(self, *args: object) -> None:
        pass
