"""The proxy of sandboxed commands on loopback, and requests to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from agent_tools.sandbox.proxy import SandboxProxy
from tests.support.loopback import connect, listener, receive_all
from tests.support.web_server import Resolver


class RunningProxy(SandboxProxy):
    """A proxy on loopback. `port` is where."""

    def __init__(self, domains: Sequence[str], **more: Any) -> None:
        ear = listener()
        self.port: int = ear.getsockname()[1]
        super().__init__(ear, domains, **{"env": {}, **more})

    def ask(self, request: str | bytes) -> bytes:
        """What comes back for the bytes of a request."""
        with connect(self.port) as client:
            client.sendall(request.encode("latin-1") if isinstance(request, str) else request)
            return receive_all(client)

    @contextmanager
    def tunnel(self, target: str, status: str = "200") -> Iterator[socket.socket]:
        with connect(self.port) as client:
            client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            assert head.split()[1].decode() == status
            yield client


def named(monkeypatch: pytest.MonkeyPatch, *addresses: list[str]) -> Resolver:
    """Names have these addresses from now on, each look-up the next."""
    resolver = Resolver(*addresses)
    real = socket.getaddrinfo
    literal = lambda h: not any(c.isalpha() for c in (h.decode() if isinstance(h, bytes) else h))  # noqa: E731
    monkeypatch.setattr(socket, "getaddrinfo", lambda h, *a, **k: (real if literal(h) else resolver)(h, *a, **k))
    return resolver


def get(url: str, more: str = "", host: str = "") -> str:
    return f"GET {url} HTTP/1.1\r\nHost: {host or url.split('/')[2]}\r\n{more}\r\n"
