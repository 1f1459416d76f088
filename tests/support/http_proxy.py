"""A tiny loopback HTTP proxy for tests: forwards absolute URIs and opens CONNECT tunnels."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.loopback import end_listening


class Proxy:
    """Runs while its `with` block does. `seen`: request line and headers of each request.

    refuse: status and reason with which every request is answered instead.
    """

    def __init__(self, refuse: str = "") -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self._refuse = refuse
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        end_listening(self._listener)
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            head, _, rest = head.partition(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").split("\r\n")
            headers = {n.lower(): v for n, _, v in (text.partition(": ") for text in lines)}
            self.seen.append((line, headers))
            if self._refuse:
                client.sendall(f"HTTP/1.1 {self._refuse}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            method, target, version = line.split()
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                upstream = socket.create_connection((host, int(port)))
                client.sendall(b"HTTP/1.1 200 Established\r\n\r\n")
            else:
                parts = urlsplit(target)
                upstream = socket.create_connection((parts.hostname or "", parts.port or 80))
                rest = (
                    f"{method} {parts.path} {version}\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + rest
                )
            self._open.append(upstream)
            upstream.sendall(rest)
            back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
            back.start()
            _copy(client, upstream)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
