"""The answers of a scripted model server: a neutral `Reply`, and its form in each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from agent_cli.kernel.results import Usage
from agent_tools.record import Value
from tests.support.gemini_events import gemini_events, gemini_whole
from tests.support.ollama_lines import ollama_lines, ollama_whole
from tests.support.response_events import response_events, response_whole


class Call(Value):
    """A tool call. `arguments` as an object, or as the raw text to send. `id` empty: one is made from its place."""

    name: str
    arguments: dict[str, Any] | str = {}  # noqa: RUF012 - never changed
    id: str = ""

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


class Reply(Value):
    """One answer of the server.

    What it says: text, thinking (with signature, or `redacted` data), calls, usage, stop (in our words; empty: what
    follows from the calls), id, answers_as (the model named). encrypted: what reasoning carries on the Responses API.
    How it is cut: split: characters per text or argument delta (0: all at once); cut: bytes per HTTP chunk (0: an event
    each); comments: keep-alive comments and pings between the events; terminated: with the closing event.
    What else is wrong: status and error (the body of a refusal, `error_type` its code); stream_error: an error event
    after the text; headers; raw: an exact body, sent as content_type instead of all that.
    stall: where to fall silent until the client leaves. hang_up: where to close the connection. drip: seconds
    between the bytes of the body. sent: called with each part of the body once it is sent.
    """

    text: str = ""
    thinking: str = ""
    signature: str = ""
    redacted: str = ""
    encrypted: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage(input=12, output=7)
    stop: str = ""
    id: str = "reply-1"
    answers_as: str = ""
    split: int = 0
    cut: int = 0
    comments: bool = False
    terminated: bool = True
    status: int = 200
    error: str = ""
    error_type: str = ""
    stream_error: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None
    content_type: str = ""
    stall: Literal["", "headers", "body", "middle"] = ""
    hang_up: Literal["", "headers", "body", "middle"] = ""
    drip: float = 0.0
    sent: Callable[[bytes], None] | None = None

    @property
    def reason(self) -> str:
        return self.stop or ("tool_use" if self.calls else "end_turn")


Protocol = Literal["openai", "anthropic", "responses", "gemini", "ollama"]

_OPENAI_REASONS = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "content_filter",
}


def pieces(text: str, size: int) -> list[str]:
    """`text` in deltas of `size` characters."""
    return [text[i : i + size] for i in range(0, len(text), size)] if size and text else [text] if text else []


def refusal_body(reply: Reply, protocol: Protocol) -> bytes:
    """The body of an answer with an error status."""
    if protocol == "gemini":
        return json.dumps(
            {"error": {"code": reply.status, "message": reply.error, "status": reply.error_type}}
        ).encode()
    if protocol == "ollama":
        return json.dumps({"error": reply.error}).encode()
    error: dict[str, Any] = {"type": reply.error_type or "invalid_request_error", "message": reply.error}
    if protocol != "anthropic":
        return json.dumps({"error": {**error, "code": reply.error_type or None, "param": None}}).encode()
    return json.dumps({"type": "error", "error": error}).encode()


def events(reply: Reply, protocol: Protocol, model: str) -> Iterator[bytes]:
    """The answer as server-sent events, or for Ollama as lines."""
    if protocol == "ollama":
        for line in ollama_lines(reply, reply.answers_as or model):
            yield _encoded(line) + (b"\n\n" if reply.comments else b"\n")
        return
    source = {
        "openai": _openai_events, "anthropic": _anthropic_events, "responses": response_events, "gemini": gemini_events,
    }[protocol]  # fmt: skip
    end = "\r\n\r\n" if protocol == "gemini" else "\n\n"
    for event in source(reply, reply.answers_as or model):
        name = "" if protocol in ("openai", "gemini") else f"event: {event['type']}\n"
        yield f"{name}data: ".encode() + _encoded(event) + end.encode()
        if reply.comments:
            yield b": keep-alive\n\n"
            if protocol == "anthropic":
                yield b'event: ping\ndata: {"type": "ping"}\n\n'
    if protocol == "openai" and reply.terminated and not reply.stream_error:
        yield b"data: [DONE]\n\n"


def _encoded(event: dict[str, Any]) -> bytes:
    """The event as JSON; halves of characters, as servers cut them, are escaped."""
    try:
        return json.dumps(event, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(event).encode()


def whole(reply: Reply, protocol: Protocol, model: str) -> bytes:
    """The answer in one piece."""
    build = {
        "openai": _openai_whole, "anthropic": _anthropic_whole, "responses": response_whole, "gemini": gemini_whole,
        "ollama": ollama_whole,
    }[protocol]  # fmt: skip
    return json.dumps(build(reply, reply.answers_as or model), ensure_ascii=False).encode()


def call_id(reply: Reply, place: int) -> str:
    return reply.calls[place].id or f"{reply.id}-call-{place}"


def _openai_usage(usage: Usage) -> dict[str, Any]:
    report: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    return {**report, "cost": usage.cost} if usage.cost else report


def _openai_events(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    def event(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": reply.id, "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}

    yield event({"role": "assistant", "content": ""})
    for piece in pieces(reply.thinking, reply.split):
        yield event({"reasoning_content": piece})
    for piece in pieces(reply.text, reply.split):
        yield event({"content": piece})
    if reply.stream_error:
        yield {"error": {"message": reply.stream_error, "type": reply.error_type, "code": reply.error_type}}
        return
    for place, call in enumerate(reply.calls):
        head = {"index": place, "id": call_id(reply, place), "type": "function"}
        yield event({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
    # Parallel calls interleave, as they may.
    fragments = [pieces(call.json, reply.split) for call in reply.calls]
    for turn in range(max(map(len, fragments), default=0)):
        for place, parts in enumerate(fragments):
            if turn < len(parts):
                yield event({"tool_calls": [{"index": place, "function": {"arguments": parts[turn]}}]})
    if reply.terminated:
        yield event({}, _OPENAI_REASONS.get(reply.reason, reply.reason))
        yield {**event({}), "choices": [], "usage": _openai_usage(reply.usage)}


def _openai_whole(reply: Reply, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [
            {"id": call_id(reply, i), "type": "function", "function": {"name": c.name, "arguments": c.json}}
            for i, c in enumerate(reply.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _OPENAI_REASONS.get(reply.reason, reply.reason)}
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": _openai_usage(reply.usage),
    }


def _anthropic_usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
    }


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": reply.signature})
    if reply.redacted:
        blocks.append({"type": "redacted_thinking", "data": reply.redacted})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for place, call in enumerate(reply.calls):
        blocks.append({"type": "tool_use", "id": call_id(reply, place), "name": call.name, "input": call.json})
    return blocks


# A block begins empty; its content follows in deltas.
_EMPTY: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def _anthropic_events(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    message = {"id": reply.id, "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "usage": _anthropic_usage(reply.usage)}}
    for index, block in enumerate(_blocks(reply)):
        empty: dict[str, dict[str, Any]] = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        start = {**block, **empty.get(block["type"], {})}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _deltas(block, reply.split):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if block["type"] == "text" and reply.stream_error:
            yield {"type": "error", "error": {"type": reply.error_type, "message": reply.stream_error}}
            return
        yield {"type": "content_block_stop", "index": index}
    if reply.terminated:
        counts = {"output_tokens": reply.usage.output}
        if reply.usage.reasoning:
            counts["output_tokens_details"] = {"thinking_tokens": reply.usage.reasoning}  # type: ignore[assignment]
        yield {"type": "message_delta", "delta": {"stop_reason": reply.reason}, "usage": counts}
        yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], split: int) -> Iterator[dict[str, Any]]:
    if block["type"] == "thinking":
        for piece in pieces(block["thinking"], split):
            yield {"type": "thinking_delta", "thinking": piece}
        if block["signature"]:
            yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in pieces(block["text"], split):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "tool_use":
        for piece in pieces(block["input"], split):
            yield {"type": "input_json_delta", "partial_json": piece}


def _anthropic_whole(reply: Reply, model: str) -> dict[str, Any]:
    blocks = [{**b, "input": json.loads(b["input"])} if b["type"] == "tool_use" else b for b in _blocks(reply)]
    usage: dict[str, Any] = {**_anthropic_usage(reply.usage), "output_tokens": reply.usage.output}
    if reply.usage.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": reply.usage.reasoning}
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": reply.reason,
        "usage": usage,
    }
