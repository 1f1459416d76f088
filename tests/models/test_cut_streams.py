"""However a valid stream is cut, the answer is the same: characters in halves, calls in two places, a bare end."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.models.anthropic import MessageReader
from agent_cli.models.base import Chunk, ModelError, Request, TextChunk, ThinkingChunk, ToolCallDelta, ToolCallStart
from agent_cli.models.gemini_stream import GeminiReader
from agent_cli.models.http_client import ResponseReader
from agent_cli.models.litellm_convert import LiteLLMReader
from agent_cli.models.openai_stream import ChatReader
from agent_cli.models.pieces import join_surrogates
from agent_cli.models.responses_stream import ResponsesReader
from agent_tools.cancel import CancelToken
from tests.support.model_replies import Call, Reply, events
from tests.support.model_server import ModelServer
from tests.support.wires import WIRES, Answer, Wire, ask, gathered

DIRECT = [wire for wire in WIRES if wire.strict]


def in_halves(text: str) -> str:
    """The text as a server sees it that counts in UTF-16: a character outside the basic plane is two."""
    data = text.encode("utf-16-le")
    return "".join(chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2))


def answer_of(wire: Wire, reply: Reply) -> Answer:
    with ModelServer([reply]) as server:
        return ask(wire, server)


TEXTS = st.text(st.sampled_from('ab \n"\\{é€😀𝒳🐍'), min_size=1, max_size=12)


@pytest.mark.parametrize("wire", DIRECT, ids=lambda wire: wire.name)
@settings(max_examples=12)
@given(text=TEXTS, thinking=TEXTS, value=TEXTS, split=st.integers(1, 4), cut=st.integers(0, 9), comments=st.booleans())
def test_the_answer_does_not_depend_on_the_cuts(
    wire: Wire, text: str, thinking: str, value: str, split: int, cut: int, comments: bool
) -> None:
    def reply(say: Any, **how: Any) -> Reply:
        calls = (Call("Read", {"path": say(value)}), Call("Write", {"path": say("🐍"), "more": say(text)}))
        return Reply(text=say("x" + text), thinking=say("y" + thinking), signature="c2ln", calls=calls, **how)

    expected = answer_of(wire, reply(str))
    found = answer_of(wire, reply(in_halves, split=split, cut=cut, comments=comments))
    assert (found.parts, found.reason, found.usage) == (expected.parts, expected.reason, expected.usage)
    assert not [c for c in found.chunks if isinstance(c, TextChunk) and any("\ud800" <= x <= "\udfff" for x in c.text)]


def test_halves_over_litellm() -> None:
    wire = next(wire for wire in WIRES if not wire.strict)
    found = answer_of(wire, Reply(text=in_halves("So 😀!"), split=1))
    assert found.text == "So 😀!"


def test_a_half_without_the_other_is_replaced() -> None:
    chunks: list[Chunk] = [
        TextChunk("a\ud83d"), ThinkingChunk("b\ude00"), ToolCallStart(0, "c", "Read"),
        ToolCallDelta(0, '{"x": "\ud83d'), TextChunk("c"), ToolCallDelta(0, '\ude00"}'),
    ]  # fmt: skip
    found = list(join_surrogates(chunks))
    texts = [getattr(c, "text", getattr(c, "json", "")) for c in found]
    assert texts == ["a", "b\ufffd", "", '{"x": "', "\ufffdc", '😀"}']


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("wire", [wire for wire in DIRECT if wire.protocol != "ollama"], ids=lambda wire: wire.name)
def test_the_last_event_needs_no_blank_line(wire: Wire, end: bytes) -> None:
    sent = b"".join(events(Reply(text="fine", calls=(Call("Read", {"path": "a"}),)), wire.protocol, wire.model))
    raw = sent.rstrip() + end
    found = answer_of(wire, Reply(raw=raw, content_type="text/event-stream"))
    assert (found.text, [c.arguments for c in found.calls]) == ("fine", [{"path": "a"}])
    if wire.protocol == "openai":
        # The last event is the reason, as of servers that send neither usage nor [DONE].
        last = raw[: raw.index(b'"finish_reason": "tool_calls"')]
        bare = Reply(raw=last + b'"finish_reason": "tool_calls"}]}' + end, content_type="text/event-stream")
        assert answer_of(wire, bare).reason == "tool_use"


ENDS = {"openai": '"stop"', "anthropic": '"end_turn"', "responses": '"completed"', "gemini": '"STOP"'}


@pytest.mark.parametrize("wire", [wire for wire in DIRECT if wire.protocol in ENDS], ids=lambda wire: wire.name)
def test_an_event_that_was_cut_is_no_end(wire: Wire) -> None:
    sent = b"".join(events(Reply(text="fine"), wire.protocol, wire.model))
    end = sent.rindex(ENDS[wire.protocol].encode())
    for size in (end, end + 3, len(sent[: sent.index(b"\n", end)].rstrip()) - 1):
        with pytest.raises(ModelError) as caught:
            answer_of(wire, Reply(raw=sent[:size], content_type="text/event-stream"))
        assert (caught.value.failure.kind, caught.value.failure.retryable) == ("network", True)


@pytest.mark.parametrize("size", [-1, -2, -9])
def test_a_line_of_ollama_that_was_cut_is_no_end_and_one_without_its_end_is_whole(size: int) -> None:
    wire = next(wire for wire in DIRECT if wire.protocol == "ollama")
    sent = b"".join(events(Reply(text="fine"), wire.protocol, wire.model)).rstrip()
    assert answer_of(wire, Reply(raw=sent, content_type="application/x-ndjson")).text == "fine"
    with pytest.raises(ModelError) as caught:
        answer_of(wire, Reply(raw=sent[:size], content_type="application/x-ndjson"))
    assert (caught.value.failure.kind, caught.value.failure.retryable) == ("network", True)


def head(index: int, identity: str, name: str = "Bash", arguments: str = "") -> dict[str, Any]:
    return {"index": index, "id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def tail(index: int, text: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": text}, **more}


def read_calls(pieces: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls of a Chat Completions answer with these pieces, each in an event."""
    reader = ChatReader("p", "m", int)
    chunks: list[Chunk] = []
    for piece in pieces:
        chunks += reader.read({"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    chunks += reader.read({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return [(c.id, c.name, c.arguments) for c in gathered([*chunks, *reader.end()]).calls]


A, B = json.dumps({"command": "echo {one}"}), json.dumps({"command": "echo two"})
ONE, TWO = ("a", "Bash", json.loads(A)), ("b", "Bash", json.loads(B))


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([head(0, "a"), tail(1, A)], [ONE]),
        ([head(1, "a"), tail(0, A)], [ONE]),
        ([head(0, "a"), tail(1, A[:9]), tail(2, A[9:])], [ONE]),
        ([head(0, "a"), *(tail(n + 1, x) for n, x in enumerate(A))], [ONE]),
        ([head(0, "a", arguments=A[:5]), tail(7, A[5:])], [ONE]),
        ([head(0, "a"), tail(0, A), head(0, "b"), tail(1, B)], [ONE, TWO]),
        ([head(0, "a"), tail(1, A), head(2, "b"), tail(3, B)], [ONE, TWO]),
        ([head(0, "a"), tail(1, A), head(0, "b"), tail(1, B)], [ONE, TWO]),
        ([head(0, "a"), head(1, "b"), tail(1, B), tail(0, A)], [ONE, TWO]),
        ([head(0, "a"), head(1, "b"), tail(5, B), tail(0, A)], [ONE, TWO]),
        ([head(0, "a"), head(1, "b"), tail(4, A, id="a"), tail(5, B, id="b")], [ONE, TWO]),
        ([{"index": 0, "id": "a"}, {"index": 1, "function": {"name": "Bash", "arguments": A}}], [ONE]),
        ([head(0, "a"), tail(0, A), {"index": 1, "function": {}}, {"index": 2}], [ONE]),
        ([head(0, "a"), tail(1, A[:5], id="x"), tail(2, A[5:], id="y")], [ONE]),
        ([head(0, "a"), head(1, "a", arguments=A)], [ONE]),
        ([head(0, "a", arguments="{}"), tail(1, A)], [ONE]),
        ([head(0, "a", arguments="{}"), tail(0, A)], [ONE]),
        ([tail(0, A), head(1, "a")], [ONE]),
        ([head(0, "a", arguments="{}"), head(1, "b", arguments=B)], [("a", "Bash", {}), TWO]),
    ],
)
def test_calls_whose_arguments_come_under_another_index(pieces: list[Any], calls: list[Any]) -> None:
    assert read_calls(pieces) == calls


@given(data=st.data(), count=st.integers(1, 4))
def test_parallel_calls_with_their_own_indices_stay_apart(data: st.DataObject, count: int) -> None:
    wanted = [(f"c{n}", "Bash", {"command": data.draw(TEXTS), "n": n}) for n in range(count)]
    queues = []
    for n, (identity, name, arguments) in enumerate(wanted):
        text = json.dumps(arguments)
        at = data.draw(st.integers(0, len(text)))
        queues.append([head(n, identity, name), tail(n, text[:at]), tail(n, text[at:])])
    pieces = [queue.pop(0) for queue in queues]  # heads in order, then any order
    while any(queues):
        pieces.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    assert read_calls(pieces) == wanted


@given(data=st.data(), count=st.integers(1, 4))
def test_calls_one_after_the_other_may_have_any_new_indices(data: st.DataObject, count: int) -> None:
    wanted = [(f"c{n}", "Bash", {"command": data.draw(TEXTS), "n": n}) for n in range(count)]
    pieces, fresh = [], 0
    for identity, name, arguments in wanted:
        pieces.append(head(fresh, identity, name))
        text = json.dumps(arguments)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            fresh += data.draw(st.integers(0, 1))
            pieces.append(tail(fresh, text[begin:end]))
        fresh += 1
    assert read_calls(pieces) == wanted


def read_events(reader: ResponseReader, stream: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls of an answer with these events."""
    chunks = [chunk for event in stream for chunk in reader.read(event)]
    return [(c.id, c.name, c.arguments) for c in gathered([*chunks, *reader.end()]).calls]


def begins(index: int, identity: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": identity, "name": "Bash", "input": {}, **more}
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ends(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([begins(0, "a"), piece(1, A[:7]), piece(1, A[7:]), ends(0)], [ONE]),
        ([begins(0, "a"), ends(0), piece(1, A[:7]), piece(1, A[7:]), ends(1)], [ONE]),
        ([begins(0, "a"), ends(0), piece(0, A)], [ONE]),
        ([begins(0, "a"), piece(1, A), begins(2, "b"), piece(3, B), ends(2)], [ONE, TWO]),
        ([begins(0, "a", input=json.loads(A)), ends(1)], [ONE]),
        ([begins(0, "a"), piece(0, A), ends(0), begins(1, "b"), ends(1), piece(2, B)], [ONE, TWO]),
    ],
)
def test_arguments_under_another_index_at_anthropic(pieces: list[Any], calls: list[Any]) -> None:
    start = {"type": "message_start", "message": {"id": "m"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    assert read_events(MessageReader("Anthropic", "m"), [start, *pieces, end]) == calls


def added(index: int, identity: str, call: str = "a", arguments: str = "", how: str = "added") -> dict[str, Any]:
    item = {"type": "function_call", "id": identity, "call_id": call, "name": "Bash", "arguments": arguments}
    return {"type": f"response.output_item.{how}", "output_index": index, "item": item}


def part(text: str, **where: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "delta": text, **where}


@pytest.mark.parametrize(
    ("pieces", "output", "calls"),
    [
        ([added(0, "i"), part(A[:7], output_index=1), part(A[7:], output_index=1)], [], [ONE]),
        ([added(0, "i"), part(A[:7], item_id="x"), part(A[7:], item_id="y")], [], [ONE]),
        ([added(0, "i"), part(A)], [], [ONE]),
        ([added(0, "i"), part(A, output_index=1), added(2, "j", "b"), part(B, output_index=3)], [], [ONE, TWO]),
        (
            [added(0, "i"), {"type": "response.function_call_arguments.done", "output_index": 4, "arguments": A}],
            [],
            [ONE],
        ),
        ([added(0, "i"), part(A, item_id="i"), added(7, "x", "a", A, "done")], [], [ONE]),
        ([added(0, "i"), added(7, "x", "a", A, "done")], [], [ONE]),
        ([added(0, "i")], [added(0, "x", "a", A)["item"]], [ONE]),
    ],
)
def test_arguments_under_another_position_in_responses(pieces: list[Any], output: list[Any], calls: list[Any]) -> None:
    end = {"type": "response.completed", "response": {"status": "completed", "output": output}}
    assert read_events(ResponsesReader("openai", "m", {}), [*pieces, end]) == calls


@pytest.mark.parametrize("more", [{}, {"id": "a"}])
def test_arguments_after_the_name_at_gemini(more: dict[str, Any]) -> None:
    parts = [{"functionCall": {"name": "Bash", "id": "a"}}, {"functionCall": {"args": json.loads(A), **more}}]
    parts += [{"functionCall": {"name": "Bash", "id": "b", "args": json.loads(B)}}, {"functionCall": {}}]
    stream: list[dict[str, Any]] = [{"candidates": [{"content": {"parts": [each]}}]} for each in parts]
    assert read_events(GeminiReader("gemini", "m"), stream) == [ONE, TWO]


def test_arguments_under_another_index_over_litellm() -> None:
    reader = LiteLLMReader("openai")
    none = SimpleNamespace(name=None, arguments=A[:7])
    first = SimpleNamespace(index=0, id="a", function=SimpleNamespace(name="Bash", arguments=""))
    pieces = [
        first,
        SimpleNamespace(index=1, id=None, function=none),
        SimpleNamespace(index=1, id=None, function=SimpleNamespace(name=None, arguments=A[7:])),
    ]
    chunks = [chunk for number, piece in enumerate(pieces) for chunk in reader._call(number, piece)]
    assert [(c.id, c.name, c.arguments) for c in gathered(chunks).calls] == [ONE]


def test_a_request_is_paid_once_if_the_stream_has_no_blank_line_at_its_end() -> None:
    raw = b'data: {"choices": [{"index": 0, "delta": {"content": "fine"}}]}\n\n'
    raw += b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'
    wire = WIRES[0]
    with ModelServer([Reply(raw=raw, content_type="text/event-stream")]) as server:
        chunks = list(wire.open(server).stream(Request(wire.model, "", ()), CancelToken()))
        assert gathered(chunks).text == "fine" and len(server.requests) == 1
