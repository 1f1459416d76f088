"""Shared by the tests of HTTP: clients, ports that stall in different ways, and a stopwatch for cancelling."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agent_cli.models.http_client import endpoint_url
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.http import HttpClient, HttpResponse, Timeouts
from tests.support.loopback import end_listening
from tests.support.model_server import ModelServer

# What is stalled until the test ends has been cancelled where it ends before; the bound is for busy machines.
PROMPT = 10.0
BODY = b'{"messages": []}'
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
VARIABLES = (*PROXY_VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


class HttpDoor:
    """POSTs to one URL."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        self._url = url
        self._client = HttpClient(timeouts)

    def post(
        self, headers: dict[str, str], body: bytes, cancel: CancelToken, *, no_idle_timeout: bool = False
    ) -> HttpResponse:
        return self._client.send(endpoint_url(self._url), headers, body, cancel, no_idle_timeout=no_idle_timeout)


def http(server: ModelServer, timeouts: Timeouts | None = None) -> HttpDoor:
    return HttpDoor(server.openai_url + "/chat/completions", timeouts or Timeouts())


def body_of(reply: HttpResponse) -> bytes:
    return reply.read_all(1_000_000)


@contextmanager
def silent_port(backlog: int = 8) -> Iterator[tuple[int, threading.Event]]:
    """A port that takes connections and says nothing; the event tells that one came."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    came = threading.Event()
    taken: list[socket.socket] = []

    def accept() -> None:
        try:
            while True:
                taken.append(listener.accept()[0])
                came.set()
        except OSError:
            pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], came
    finally:
        end_listening(listener)
        for sock in taken:
            sock.close()


@contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue is full, so that connecting to it neither succeeds nor fails."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    try:
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
            waiting.append(sock)
        yield listener.getsockname()[1]
    finally:
        for sock in [*waiting, listener]:
            sock.close()


def cancelled_within(work: Callable[[CancelToken], object], ready: Callable[[], object]) -> float:
    """Run `work`, cancel it from another thread once `ready` returns, and return how long it then took to end."""
    cancel = CancelToken()
    at: list[float] = []

    def canceller() -> None:
        ready()
        at.append(time.monotonic())
        cancel.cancel()

    thread = threading.Thread(target=canceller)
    thread.start()
    with pytest.raises(CancelledError):
        work(cancel)
    took = time.monotonic() - at[0]
    thread.join()
    return took
