"""What every wire promises, checked over a real HTTP server. See `wires.py` for the list they run over."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.base import MessageStop, ModelError, Notice, Started, TextChunk
from agent_cli.models.retry import RetryingClient
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.http import Timeouts
from tests.support.http_proxy import Proxy
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.stalled_ports import PROMPT
from tests.support.wires import Wire, ask, every_wire, gathered, request, without_breakpoints

UMLAUTS = "Grüße — 你好 🐍 end"
ODD = "line\u2028separator, \x85, \x0b, \x00"

pytestmark = [every_wire, pytest.mark.usefixtures("clean_environment")]


# What is said.


@pytest.mark.parametrize("stream", [True, False])
def test_text(wire: Wire, stream: bool) -> None:
    with ModelServer([Reply(text=UMLAUTS, split=3, id="r-9", answers_as="the-model")]) as server:
        answer = ask(wire, server, stream=stream)
        assert server.requests[0].streamed is stream
    assert answer.parts == (Text(UMLAUTS),)
    assert isinstance(answer.chunks[0], Started)
    if wire.strict:
        assert answer.chunks[0] == Started("" if wire.sparse else "r-9", "the-model")
    assert isinstance(answer.chunks[-1], MessageStop)
    assert answer.reason == "end_turn"


def test_characters_that_some_take_for_line_ends(wire: Wire) -> None:
    if not wire.strict:
        pytest.skip("a library between us and the server splits lines there")
    with ModelServer([Reply(text=ODD, calls=(Call("Read", {"path": ODD}),), cut=5)]) as server:
        answer = ask(wire, server)
    assert (answer.text, answer.calls[0].arguments) == (ODD, {"path": ODD})


def test_half_a_character_does_not_stop_a_request(wire: Wire) -> None:
    with ModelServer([Reply(text="ok")]) as server:
        assert ask(wire, server, messages=(UserMessage("file \udce4.txt"),)).text == "ok"


def test_text_is_passed_on_before_the_next_piece_arrives(wire: Wire) -> None:
    heard = {piece: threading.Event() for piece in ("<ab>", "<cd>", "<ef>")}

    def wait_until_heard(part: bytes) -> None:
        for piece, event in heard.items():
            if piece.encode() in part and part.count(b"<") == 1:
                assert event.wait(30), piece

    texts = []
    with ModelServer([Reply(text="<ab><cd><ef>", split=4, sent=wait_until_heard)]) as server:
        for chunk in wire.open(server).stream(request(wire), CancelToken()):
            if isinstance(chunk, TextChunk):
                texts.append(chunk.text)
                heard[chunk.text].set()
    assert texts == list(heard)


@pytest.mark.parametrize("stream", [True, False])
def test_thinking(wire: Wire, stream: bool) -> None:
    with ModelServer([Reply(thinking="Hm, let me see.", text="Yes.", split=4)]) as server:
        answer = ask(wire, server, stream=stream)
    # Where it goes back to its provider, that is named.
    thought = Thinking("Hm, let me see.", provider="ollama" if wire.protocol == "ollama" else "")
    assert answer.parts == (thought, Text("Yes."))


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_keeps_its_id_and_its_words(wire: Wire, stream: bool) -> None:
    call = Call("Read", {"path": UMLAUTS, "lines": [1, 2]}, id="id_that_counts")
    with ModelServer([Reply(text="I look.", calls=(call,))]) as server:
        answer = ask(wire, server, stream=stream)
    assert answer.parts == (Text("I look."), ToolCall("id_that_counts", "Read", {"path": UMLAUTS, "lines": [1, 2]}))
    assert answer.reason == "tool_use"


@pytest.mark.parametrize("split", [1, 2, 5])
def test_many_calls_with_arguments_in_fragments(wire: Wire, split: int) -> None:
    calls = tuple(Call("Read", {"path": f"{UMLAUTS}{i}"}, id=f"c{i}") for i in range(4))
    with ModelServer([Reply(calls=calls, split=split)]) as server:
        answer = ask(wire, server)
    assert [(c.id, c.arguments) for c in answer.calls] == [(c.id, c.arguments) for c in calls]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 64])
def test_bytes_cut_anywhere(wire: Wire, cut: int) -> None:
    reply = Reply(thinking="hm", text=UMLAUTS, calls=(Call("Read", {"path": UMLAUTS}),), cut=cut, comments=True)
    with ModelServer([reply]) as server:
        answer = ask(wire, server)
    assert answer.text == UMLAUTS
    assert [c.arguments for c in answer.calls] == [{"path": UMLAUTS}]


def test_a_call_without_arguments(wire: Wire) -> None:
    with ModelServer([Reply(calls=(Call("List", ""),)), Reply(calls=(Call("List", {}),))]) as server:
        assert [c.arguments for c in ask(wire, server).calls] == [{}]
        assert [c.arguments for c in ask(wire, server).calls] == [{}]


def test_a_hundred_calls_and_a_huge_argument(wire: Wire) -> None:
    calls = (*(Call("Read", {"path": str(i)}) for i in range(99)), Call("Write", {"text": "x" * 2_000_000}))
    with ModelServer([Reply(calls=calls)]) as server:
        answer = ask(wire, server)
    assert len(answer.calls) == 100
    assert len(answer.calls[-1].arguments["text"]) == 2_000_000


@pytest.mark.parametrize("stream", [True, False])
def test_usage_with_cache_and_reasoning(wire: Wire, stream: bool) -> None:
    usage = Usage(input=1000, output=50, reasoning=30, cache_read=800)
    with ModelServer([Reply(text="x", usage=usage)]) as server:
        reported = usage.replace(reasoning=0, cache_read=0) if wire.sparse else usage
        assert ask(wire, server, stream=stream).usage == reported


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal"])
def test_stop_reasons(wire: Wire, reason: str) -> None:
    with ModelServer([Reply(text="x", stop=reason)]) as server:
        assert ask(wire, server).reason == reason


def test_keep_alive_comments_are_not_text(wire: Wire) -> None:
    with ModelServer([Reply(text="abc", split=1, comments=True)]) as server:
        assert ask(wire, server).text == "abc"


def test_an_option_that_the_wire_lacks_is_named_once(wire: Wire) -> None:
    lacks = 0 if wire.protocol == "gemini" else 1
    with ModelServer([Reply(text="x"), Reply(text="x")]) as server:
        client = wire.open(server)
        wanted: dict[str, Any] = {} if wire.protocol == "ollama" else {"thinking_tokens": 2048}
        asked = request(wire, json_schema={"type": "object"}, **wanted)
        first = gathered(client.stream(asked, CancelToken()))
        second = gathered(client.stream(asked, CancelToken()))
    assert len(first.notices) == lacks or not wire.strict  # LiteLLM knows a way to send both
    assert second.notices == ()


# What is sent.


def conversation() -> Iterator[Message]:
    """A long one: calls, parallel calls, errors, thinking, text only, nothing at all, odd characters."""
    yield UserMessage("Fix it. " + UMLAUTS)
    for i in range(12):
        calls = tuple(ToolCall(f"call_{i}_{n}", "Read", {"path": f"{i}/{n}"}) for n in range(i % 3 + 1))
        yield AssistantMessage((Thinking(f"thought {i}", f"sig{i}"), Text(f"step {i}"), *calls), model="claude-x")
        yield from (ToolMessage(c.id, "Read", f"content {c.id}", is_error=i == 4) for c in calls)
        if i % 4 == 3:
            yield AssistantMessage((Text("Done."),), model="claude-x")
            yield UserMessage("And now?")


def test_every_call_is_sent_with_its_result(wire: Wire) -> None:
    with ModelServer([Reply(text="ok")]) as server:
        ask(wire, server, messages=tuple(conversation()))
        sent = server.requests[0].raw.decode()
    assert sent.count("content call_") == 24
    assert "Be brief." in sent


def test_broken_arguments_go_back_as_an_empty_object(wire: Wire) -> None:
    broken = AssistantMessage((ToolCall("c1", "Read", {}, broken='{"path": "a'),))
    with ModelServer([Reply(text="ok")]) as server:
        ask(wire, server, messages=(UserMessage("x"), broken, ToolMessage("c1", "Read", "bad JSON", is_error=True)))
        assert '{\\"path' not in server.requests[0].raw.decode()


def test_a_request_is_the_previous_one_and_a_suffix(wire: Wire) -> None:
    history = list(conversation())
    asked = [i for i in range(1, len(history) + 1) if i == len(history) or isinstance(history[i], AssistantMessage)]
    with ModelServer([Reply(text="ok") for _ in asked]) as server:
        client = wire.open(server)
        for length in asked:
            gathered(client.stream(request(wire, messages=tuple(history[:length])), CancelToken()))
        bodies = [without_breakpoints(body) for body in server.bodies]
    for before, after in pairwise(bodies):
        messages = before.pop(wire.history)
        longer = after[wire.history]
        assert longer[: len(messages)] == messages
        assert before == {k: v for k, v in after.items() if k != wire.history}


def test_forbidding_calls_keeps_the_tools_in_the_request(wire: Wire) -> None:
    with ModelServer([Reply(text="ok"), Reply(text="ok")]) as server:
        client = wire.open(server)
        gathered(client.stream(request(wire), CancelToken()))
        gathered(client.stream(request(wire, tool_choice="none"), CancelToken()))
        free, bound = server.bodies
    assert free["tools"] == bound["tools"]
    if wire.name == "anthropic":
        # It would void the cache of the messages; tests/models/test_anthropic.py has what is done instead.
        assert wire.choice not in bound
    else:
        assert "none" in json.dumps(bound[wire.choice]).lower()


# What goes wrong.


@pytest.mark.parametrize(
    ("status", "error", "kind", "retryable"),
    [
        (401, "invalid x-api-key", "auth", False),
        (429, "Number of requests has exceeded your rate limit", "rate_limit", True),
        (500, "Internal server error", "overloaded", True),
        (503, "Service unavailable", "overloaded", True),
        (400, "prompt is too long: 205371 tokens > 200000 maximum", "context_too_long", False),
        (400, "temperature: must be below 2", "bad_request", False),
    ],
)
def test_refusals(wire: Wire, status: int, error: str, kind: str, retryable: bool) -> None:
    with ModelServer([Reply(status=status, error=error)], repeat=True) as server, pytest.raises(ModelError) as caught:
        ask(wire, server)
    assert (caught.value.failure.kind, caught.value.failure.retryable) == (kind, retryable)
    assert error in caught.value.failure.message


def test_a_key_that_the_provider_repeats_is_not_passed_on(wire: Wire) -> None:
    reply = Reply(status=401, error="Incorrect API key: secret-key")
    with ModelServer([reply], repeat=True) as server, pytest.raises(ModelError) as caught:
        ask(wire, server)
    assert "secret-key" not in caught.value.failure.message


def test_an_unknown_model_is_named(wire: Wire) -> None:
    reply = Reply(status=404, error=f"model: {wire.model} does not exist", error_type="not_found_error")
    with ModelServer([reply], repeat=True) as server, pytest.raises(ModelError) as caught:
        ask(wire, server)
    assert caught.value.failure.kind == "bad_request"
    assert wire.model in caught.value.failure.message


def test_an_error_in_the_middle_of_the_stream(wire: Wire) -> None:
    reply = Reply(text="abc", stream_error="Overloaded", error_type="overloaded_error")
    with ModelServer([reply]) as server, pytest.raises(ModelError, match="Overloaded") as caught:
        ask(wire, server)
    assert caught.value.failure.kind == "overloaded"
    assert caught.value.failure.retryable


@pytest.mark.parametrize(
    "reply", [Reply(text="abc", terminated=False), Reply(text="a" * 50, split=1, hang_up="middle")]
)
def test_an_answer_that_breaks_off(wire: Wire, reply: Reply) -> None:
    with ModelServer([reply]) as server:
        got = []
        with pytest.raises(ModelError) as caught:
            for chunk in wire.open(server).stream(request(wire), CancelToken()):
                got.append(chunk)
    assert caught.value.failure.kind == "network"
    assert any(isinstance(c, TextChunk) for c in got), "what came before is not lost"
    assert not any(isinstance(c, MessageStop) for c in got)


@pytest.mark.parametrize("status", [200, 502])
def test_a_web_page_instead_of_an_answer(wire: Wire, status: int) -> None:
    if status == 200 and not wire.strict:
        pytest.skip("LiteLLM does not look at the content type")
    page = b"<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>...</body></html>"
    reply = Reply(raw=page, content_type="text/html; charset=utf-8", status=status)
    with ModelServer([reply], repeat=True) as server, pytest.raises(ModelError, match="web page") as caught:
        ask(wire, server)
    assert caught.value.failure.kind == ("malformed" if status == 200 else "overloaded")
    assert "<" not in caught.value.failure.message


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"data: {not json}\n\n", content_type="text/event-stream"),
        Reply(raw=b"data: [1, 2]\n\n", content_type="text/event-stream"),
        Reply(raw=b"\x1f\x8b\x08", content_type="text/event-stream", headers=(("Content-Encoding", "gzip"),)),
    ],
)
def test_what_is_not_the_protocol(wire: Wire, reply: Reply) -> None:
    with ModelServer([reply], repeat=True) as server, pytest.raises(ModelError) as caught:
        ask(wire, server)
    assert caught.value.failure.kind == "malformed" or not wire.strict  # LiteLLM skips what it cannot read


def test_retrying_after_a_refusal(wire: Wire) -> None:
    limited = Reply(status=429, error="slow down", headers=(("Retry-After", "0.02"),))
    with ModelServer([limited, limited, Reply(text="at last")]) as server:
        answer = gathered(RetryingClient(wire.open(server)).stream(request(wire), CancelToken()))
    assert answer.text == "at last"
    assert [n.text for n in answer.chunks[:2] if isinstance(n, Notice)] == [
        "Rate limited by the provider; trying again in 0.0 s (1 of 5)",
        "Rate limited by the provider; trying again in 0.0 s (2 of 5)",
    ]


@pytest.mark.parametrize("place", ["headers", "body", "middle"])
def test_cancelling_ends_a_stall_at_once(wire: Wire, place: Any) -> None:
    cancel = CancelToken()
    at: list[float] = []
    with ModelServer([Reply(text="abcdef", split=1, stall=place)]) as server:

        def canceller() -> None:
            server.stalled.wait(30)
            at.append(time.monotonic())
            cancel.cancel()

        threading.Thread(target=canceller).start()
        with pytest.raises(CancelledError):
            gathered(wire.open(server).stream(request(wire), cancel))
        assert time.monotonic() - at[0] < PROMPT
        assert server.gone.wait(5), "the connection is closed, so that the provider stops as well"


@pytest.mark.parametrize("place", ["headers", "middle"])
def test_silence_ends_with_the_idle_limit(wire: Wire, place: Any) -> None:
    with (
        ModelServer([Reply(text="abcdef", split=1, stall=place)]) as server,
        pytest.raises(ModelError, match="nothing for") as caught,
    ):
        gathered(wire.open(server, Timeouts(idle=0.1)).stream(request(wire), CancelToken()))
    assert caught.value.failure.kind == "network"


def test_leaving_an_answer_closes_its_connection(wire: Wire) -> None:
    with ModelServer([Reply(text="abc", split=1, stall="middle")]) as server:
        stream: Any = wire.open(server).stream(request(wire), CancelToken())
        while not isinstance(next(stream), TextChunk):
            pass
        stream.close()
        assert server.gone.wait(5)


def test_the_proxy_of_the_environment_is_used(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    if not wire.strict:
        pytest.skip("a worker has the environment of its start")
    with ModelServer([Reply(text="through")]) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert ask(wire, server).text == "through"
        assert len(proxy.seen) == 1
