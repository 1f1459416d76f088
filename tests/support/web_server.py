"""A web server on loopback that sends exactly the given bytes, valid or not.

    with WebServer({"/": page("<p>hello")}) as server:
        server.url("/")

A page is the raw answer, or a function that is given the connection and writes what it likes, for as long as it likes.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import PrivateAddressGuard, WebClient, WebLimits, WebResponse
from tests.support.loopback import end_listening

Page = bytes | Callable[[socket.socket], None]


def page(body: str | bytes = b"", kind: str = "text/html", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer. headers: with `_` for `-`."""
    data = body.encode() if isinstance(body, str) else body
    lines = {"Content-Type": kind, "Content-Length": str(len(data)), "Connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


def moved(target: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return page("", status=status, Location=target)


def packed(data: bytes) -> bytes:
    return page(gzip.compress(data), Content_Encoding="gzip")


def web(
    limits: WebLimits | None = None,
    env: dict[str, str] | None = None,
    allowed: tuple[str, ...] = ("127.0.0.1",),
    cancel: CancelToken | None = None,
) -> WebClient:
    return WebClient(
        limits or WebLimits(timeout=20.0), env or {}, PrivateAddressGuard(allowed), cancel or CancelToken()
    )


def get(url: str, **more: Any) -> WebResponse:
    answer = web(**more).get(split_url(url))
    assert isinstance(answer, WebResponse)
    return answer


def fails(url: str, **more: Any) -> str:
    with pytest.raises(ToolError) as caught:
        web(**more).get(split_url(url))
    assert "\n" not in str(caught.value)
    return str(caught.value)


class WebServer:
    """Runs while its `with` block does. seen: request line and headers of each request. body: of the last one.

    waits: set whenever a page that never ends has begun; gone: when a client left it.
    """

    def __init__(self, pages: dict[str, Page] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.pages = pages or {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.body = b""
        self.begun = threading.Event()
        self.gone = threading.Event()
        self._tls = tls
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port: int = self._listener.getsockname()[1]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def endless(self, head: bytes, piece: bytes, pause: float = 0.0) -> Callable[[socket.socket], None]:
        """A page that goes on until its reader leaves."""

        def write(connection: socket.socket) -> None:
            try:
                connection.sendall(head)
                while not self.gone.wait(pause) if pause else True:
                    connection.sendall(piece)
                    self.begun.set()
            except OSError:
                self.gone.set()

        return write

    def silent(self, head: bytes = b"") -> Callable[[socket.socket], None]:
        """A page that begins with `head` and then says nothing, until its reader leaves."""

        def write(connection: socket.socket) -> None:
            connection.sendall(head)
            self.begun.set()
            with suppress(OSError):
                connection.recv(1)
            self.gone.set()

        return write

    def __enter__(self) -> WebServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        end_listening(self._listener)
        self.gone.set()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(65536)
        self.body = body
        self.seen.append((line, headers))
        target = line.split(" ")[1]
        found = self.pages.get(target, self.pages.get(target.partition("?")[0], page("nothing here", status="404 No")))
        if callable(found):
            found(connection)
        else:
            connection.sendall(found)


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


class Resolver:
    """Stands in for the system's: a list of answers, of which each look-up takes one."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: Any, port: int, **_: Any) -> list[Any]:
        self.asked.append(host.decode() if isinstance(host, bytes) else host)
        found = self.answers.pop(0)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in found]
