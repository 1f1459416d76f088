"""A server that sends signs of life and nothing else is given up; one that sends them between its words is not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import ModelClient, ModelError, Request, TextChunk
from agent_cli.models.http_client import SSEDecoder
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_tools.cancel import CancelToken
from agent_tools.net import http_connection
from agent_tools.net.http import Timeouts
from tests.support.model_replies import Protocol, Reply, events

pytestmark = pytest.mark.usefixtures("clean_environment")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"
REQUEST = Request("m", "s", (UserMessage("hi"),), max_tokens=100)
IDLE = 60.0


@contextmanager
def dripping(pieces: Iterable[bytes], kind: bytes = b"text/event-stream") -> Iterator[str]:
    """The URL of a server that answers with these pieces, a hundredth of a second apart, until the client leaves."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        sock, _ = listener.accept()
        with sock, suppress(OSError):
            sock.recv(1 << 16)
            sock.sendall(HEAD % kind)
            for piece in pieces:
                if ended.wait(0.01):
                    break
                sock.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join()


def openai(url: str) -> ModelClient:
    return OpenAIChatClient(f"{url}/v1", "key", timeouts=Timeouts(idle=IDLE))


def anthropic(url: str) -> ModelClient:
    return AnthropicClient(url, "key", timeouts=Timeouts(idle=IDLE))


@pytest.mark.parametrize("make", [openai, anthropic])
@pytest.mark.parametrize(
    "piece",
    [
        b": keep-alive\n\n",
        b":\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b"data:\n\n",
        b'data: {"choices": [{"index": 0, "delta": {}}]}\n\n',
    ],
)
def test_nothing_but_keep_alives_is_given_up(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str], ModelClient], piece: bytes
) -> None:
    monkeypatch.setattr(http_connection, "MAX_KEEP_ALIVE_PERIODS", 0.3 / IDLE)
    with dripping(repeat(piece)) as url, pytest.raises(ModelError) as caught:
        for _ in make(url).stream(REQUEST, CancelToken()):
            pass
    assert "sent nothing but keep-alives for" in str(caught.value)
    assert caught.value.failure.kind == "network" and not caught.value.failure.retryable


def test_blanks_in_place_of_a_whole_answer_are_keep_alives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "MAX_KEEP_ALIVE_PERIODS", 0.3 / IDLE)
    with (
        dripping(repeat(b"  \n"), b"application/json") as url,
        pytest.raises(ModelError, match="nothing but keep-alives"),
    ):
        list(openai(url).stream(REQUEST, CancelToken()))


@pytest.mark.parametrize(("make", "protocol"), [(openai, "openai"), (anthropic, "anthropic")])
def test_words_between_keep_alives_begin_the_wait_anew(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str], ModelClient], protocol: Protocol
) -> None:
    monkeypatch.setattr(http_connection, "MAX_KEEP_ALIVE_PERIODS", 0.6 / IDLE)
    text = "word " * 60
    answer = events(Reply(text=text, split=5, comments=True), protocol, "m")
    with dripping(answer) as url:
        chunks = list(make(url).stream(REQUEST, CancelToken()))
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == text


def test_an_event_has_a_bound() -> None:
    splitter = SSEDecoder(max_bytes=1_000)
    with pytest.raises(OverflowError):
        for _ in range(100):
            splitter.feed(b"data: " + b"x" * 100 + b"\n")
    splitter = SSEDecoder(max_bytes=1_000)
    events = [splitter.feed(b"data: " + b"x" * 500 + b"\n\n") for _ in range(100)]
    assert len(events) == 100


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_events_are_found_however_their_ends_are_cut(size: int) -> None:
    data = b"\ndata: a\n\n\n: c\n\ndata: b\r\n\r\ndata: c\rdata: d\r\rdata: e\n"
    splitter = SSEDecoder()
    found = [event for at in range(0, len(data), size) for event in splitter.feed(data[at : at + size])]
    assert found == [("", "a"), ("", "b"), ("", "c\nd")]
