"""The HTTP door: limits, cancelling at every stage, kept connections, and answers that are not HTTP."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent_cli.models.base import ModelError
from agent_cli.models.http_client import endpoint_url, model_error
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net import connect
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.web_client import PrivateAddressGuard
from tests.support import model_server as scripted
from tests.support.model_server import ModelServer
from tests.support.stalled_ports import BODY, PROMPT, HttpDoor, body_of, cancelled_within, full_port, http

pytestmark = pytest.mark.usefixtures("clean_environment")


def test_a_post_and_its_answer() -> None:
    with ModelServer([scripted.Reply(raw=b"hello", headers=(("X-Thing", "1"),))]) as server:
        reply = http(server).post({"X-Mine": "2"}, BODY, CancelToken())
        assert (reply.status, reply.header("x-thing"), reply.content_type) == (200, "1", "application/json")
        assert body_of(reply) == b"hello"
        (request,) = server.requests
        assert request.raw == BODY
        assert request.headers["x-mine"] == "2"
        assert request.headers["accept-encoding"] == "identity"


def test_a_connection_is_kept_for_the_next_request() -> None:
    with ModelServer([scripted.Reply(raw=b"one"), scripted.Reply(raw=b"two")]) as server:
        door = http(server)
        assert body_of(door.post({}, BODY, CancelToken())) == b"one"
        assert body_of(door.post({}, BODY, CancelToken())) == b"two"
        assert server.connections == 1


def test_an_answer_that_satisfied_before_its_last_byte_still_keeps_the_connection() -> None:
    with ModelServer([scripted.Reply(raw=b"one"), scripted.Reply(raw=b"two")]) as server:
        door = http(server)
        reply = door.post({}, BODY, CancelToken())
        assert reply.read() == b"one"
        reply.done()
        assert body_of(door.post({}, BODY, CancelToken())) == b"two"
        assert server.connections <= 2


def test_a_dropped_answer_takes_its_connection_with_it() -> None:
    with ModelServer([scripted.Reply(raw=b"one", stall="body"), scripted.Reply(raw=b"two")]) as server:
        door = http(server)
        door.post({}, BODY, CancelToken()).close()
        assert server.gone.wait(5)
        assert body_of(door.post({}, BODY, CancelToken())) == b"two"
        assert server.connections == 2


def test_a_kept_connection_that_the_server_closed_is_replaced_unseen() -> None:
    with ModelServer(
        [scripted.Reply(raw=b"one"), scripted.Reply(hang_up="headers"), scripted.Reply(raw=b"2")]
    ) as server:
        door = http(server)
        body_of(door.post({}, BODY, CancelToken()))
        # The server hangs up upon the second request, as one does whose patience ended just then.
        assert body_of(door.post({}, BODY, CancelToken())) == b"2"
        assert [r.connection for r in server.requests] == [0, 0, 1]


def test_a_fresh_connection_that_is_closed_without_an_answer_is_an_error() -> None:
    with ModelServer([scripted.Reply(hang_up="headers")]) as server:
        with pytest.raises(HttpError, match="closed the connection before responding") as caught:
            http(server).post({}, BODY, CancelToken())
        assert caught.value.kind == "closed"
        assert caught.value.retryable
        assert len(server.requests) == 1


@pytest.mark.parametrize("place", ["body", "middle"])
def test_a_chunked_answer_that_breaks_off_is_an_error(place: str) -> None:
    with ModelServer([scripted.Reply(raw=b"abcdef", cut=2, hang_up=place)]) as server:  # type: ignore[arg-type]
        reply = http(server).post({}, BODY, CancelToken())
        with pytest.raises(HttpError, match="was lost in the middle"):
            body_of(reply)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(HttpError, match=rf"Could not connect to 127.0.0.1:{port}: connection refused") as caught:
        HttpDoor(f"http://127.0.0.1:{port}/v1", Timeouts()).post({}, BODY, CancelToken())
    assert caught.value.retryable


def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(HttpError, match=r"Could not find the host nowhere\.invalid: Name or service not known"):
        HttpDoor("http://nowhere.invalid/v1", Timeouts()).post({}, BODY, CancelToken())


@pytest.mark.parametrize("url", ["ftp://x/", "api.example.com/v1", "", "http://", "http://x:notaport/"])
def test_what_is_not_a_web_address_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(ModelError, match="is not an http or https address") as caught:
        HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())
    assert caught.value.failure.kind == "bad_request"


@pytest.mark.parametrize("value", ["two\r\nlines: 1", "non-latin …", "\x00"])
def test_a_header_that_http_cannot_carry_is_refused(value: str) -> None:
    with pytest.raises(HttpError, match="characters that cannot be sent"):
        HttpDoor("http://127.0.0.1:9/", Timeouts()).post({"Authorization": value}, BODY, CancelToken())


@contextmanager
def answering(answer: bytes, read: int = 65536) -> Iterator[str]:
    """The URL of a server that reads at most `read` bytes, sends exactly `answer` and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(read)
            sock.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nhe\n3;x=1\nllo\n0\nTrailer: 1\n\n",
    ],
)
def test_every_way_to_end_a_body(answer: bytes) -> None:
    with answering(answer) as url:
        assert body_of(HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())) == b"hello"


def test_a_body_that_is_shorter_than_its_length_is_an_error() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello") as url:
        reply = HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())
        with pytest.raises(HttpError, match="was lost in the middle"):
            body_of(reply)


def test_a_refusal_of_a_request_that_was_not_read_to_its_end_is_heard() -> None:
    with answering(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", read=1000) as url:
        reply = HttpDoor(url, Timeouts()).post({}, b"x" * 20_000_000, CancelToken())
        assert (reply.status, body_of(reply)) == (413, b"big")


def test_something_else_than_http_answers() -> None:
    with (
        answering(b"220 smtp.example.com ESMTP\r\n") as url,
        pytest.raises(HttpError, match="did not answer in HTTP") as caught,
    ):
        HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())
    assert caught.value.kind == "not_http"


# Time-outs.


@pytest.mark.parametrize("place", ["headers", "body", "middle"])
def test_silence_ends_with_the_idle_limit(place: str) -> None:
    with ModelServer([scripted.Reply(raw=b"abcdef", cut=2, stall=place)]) as server:  # type: ignore[arg-type]
        with pytest.raises(HttpError, match=r"sent nothing for 0\.05 s") as caught:
            body_of(http(server, Timeouts(idle=0.05)).post({}, BODY, CancelToken()))
        assert caught.value.retryable


def test_a_long_request_may_be_read_in_silence_for_longer() -> None:
    limits = Timeouts(idle=0.02, idle_per_kb=0.05)
    with (
        ModelServer([scripted.Reply(raw=b"abcdef", stall="headers")]) as server,
        pytest.raises(HttpError, match=r"sent nothing for 0\.12 s"),
    ):
        body_of(http(server, limits).post({}, b'{"a": "' + b"x" * 2039 + b'"}', CancelToken()))


def test_a_dripping_answer_ends_with_the_total_limit() -> None:
    with (
        ModelServer([scripted.Reply(raw=b"x" * 500, drip=0.01)]) as server,
        pytest.raises(HttpError, match=r"took longer than 0\.2 s"),
    ):
        body_of(http(server, Timeouts(idle=5, total=0.2)).post({}, BODY, CancelToken()))


def test_a_whole_answer_may_take_longer_than_the_idle_limit() -> None:
    with ModelServer([scripted.Reply(raw=b"abc", cut=1, drip=0.05)]) as server:
        assert body_of(http(server, Timeouts(idle=0.02)).post({}, BODY, CancelToken(), no_idle_timeout=True)) == b"abc"


def test_zero_means_no_limit() -> None:
    with ModelServer([scripted.Reply(raw=b"abc")]) as server:
        assert body_of(http(server, Timeouts(0, 0, 0)).post({}, BODY, CancelToken())) == b"abc"


def test_connecting_ends_with_its_limit() -> None:
    with full_port() as port, pytest.raises(HttpError, match="no answer in time"):
        HttpDoor(f"http://127.0.0.1:{port}/", Timeouts(connect=0.1)).post({}, BODY, CancelToken())


# Cancelling.


def test_a_cancelled_token_sends_nothing() -> None:
    cancel = CancelToken()
    cancel.cancel()
    with ModelServer() as server:
        with pytest.raises(CancelledError):
            http(server).post({}, BODY, cancel)
        assert server.connections == 0


@pytest.mark.parametrize("place", ["headers", "body", "middle"])
def test_cancelling_ends_a_stalled_read(place: str) -> None:
    with ModelServer([scripted.Reply(raw=b"abcdef", cut=2, stall=place)]) as server:  # type: ignore[arg-type]
        took = cancelled_within(lambda token: body_of(http(server).post({}, BODY, token)), server.stalled.wait)
        assert took < PROMPT


def test_cancelling_from_a_signal_handler_in_the_reading_thread() -> None:
    cancel = CancelToken()
    before = signal.signal(signal.SIGUSR1, lambda *_: cancel.cancel())
    try:
        with ModelServer([scripted.Reply(stall="headers")]) as server:

            def interrupt() -> None:
                server.stalled.wait()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

            threading.Thread(target=interrupt).start()
            with pytest.raises(CancelledError):
                http(server).post({}, BODY, cancel)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_cancelling_ends_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, release = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        asked.set()
        release.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    door = HttpDoor("http://slow.example/", Timeouts())
    assert cancelled_within(lambda token: door.post({}, BODY, token), asked.wait) < PROMPT
    release.set()


def test_cancelling_ends_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting = threading.Event()
    real = connect._connect_one

    def noted(*args: object) -> int:
        connecting.set()
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(connect, "_connect_one", noted)
    with full_port() as port:
        door = HttpDoor(f"http://127.0.0.1:{port}/", Timeouts())
        assert cancelled_within(lambda token: door.post({}, BODY, token), connecting.wait) < PROMPT


# What the client is asked beside a POST to one address.


def test_one_client_keeps_the_connections_of_each_server_apart() -> None:
    client = HttpClient(Timeouts())
    with ModelServer([scripted.Reply(raw=b"a")] * 2) as one, ModelServer([scripted.Reply(raw=b"b")] * 2) as other:
        for server, body in ((one, b"a"), (other, b"b")) * 2:
            assert body_of(client.send(endpoint_url(server.openai_url), {}, BODY, CancelToken())) == body
        assert (one.connections, other.connections) == (1, 1)


def test_a_client_that_is_to_keep_nothing_closes_each_connection() -> None:
    client = HttpClient(Timeouts(), max_idle=0)
    with ModelServer([scripted.Reply(raw=b"a")] * 2) as server:
        for _ in range(2):
            body_of(client.send(endpoint_url(server.openai_url), {}, BODY, CancelToken()))
        assert server.connections == 2


def test_after_closing_a_client_a_request_takes_a_new_connection() -> None:
    client = HttpClient(Timeouts())
    with ModelServer([scripted.Reply(raw=b"a")] * 2) as server:
        for _ in range(2):
            body_of(client.send(endpoint_url(server.openai_url), {}, BODY, CancelToken()))
            client.close()
        assert server.connections == 2


def test_a_guard_is_asked_about_each_new_connection_before_it_is_made() -> None:
    with ModelServer([scripted.Reply(raw=b"a")]) as server:
        url = endpoint_url(server.openai_url)
        refusing = HttpClient(Timeouts(), guard=PrivateAddressGuard())
        with pytest.raises(ToolError, match="does not reach"):
            refusing.send(url, {}, BODY, CancelToken())
        assert server.connections == 0
        allowing = HttpClient(Timeouts(), guard=PrivateAddressGuard(["127.0.0.1"]))
        assert body_of(allowing.send(url, {}, BODY, CancelToken())) == b"a"


def test_what_stood_before_a_mistake_in_the_coding_is_given_out_first() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n") as url:
        reply = HttpDoor(url, Timeouts()).post({}, BODY, CancelToken())
        assert reply.read() == b"abc"
        with pytest.raises(HttpError) as caught:
            reply.read()
        assert caught.value.kind == "cut"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (HttpError("not_http", "x did not answer in HTTP."), "malformed", "Is the base URL right?"),
        (HttpError("header", "x."), "bad_request", "x."),
        (HttpError("connect", "x.", retryable=True), "network", "x."),
    ],
)
def test_an_error_of_the_client_as_a_failure_of_the_model(error: HttpError, kind: str, words: str) -> None:
    failure = model_error(error).failure
    assert (failure.kind, failure.retryable) == (kind, error.retryable)
    assert failure.message.endswith(words)
