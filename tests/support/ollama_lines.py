"""A scripted answer in the form of Ollama's own API, and the checks that this API makes of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.model_replies import Call, Reply

OLLAMA_STOPS = {"end_turn": "stop", "tool_use": "stop", "max_tokens": "length", "refusal": "content_filter"}
_CREATED = "2026-01-01T00:00:00.0Z"


def ollama_lines(reply: Reply, model: str, stops: Mapping[str, str] = OLLAMA_STOPS) -> Iterator[dict[str, Any]]:
    """One object a line: a piece of text or of reasoning, or a call; the last is `done`."""

    def line(**found: Any) -> dict[str, Any]:
        return {**_message(model, **found), "done": False}

    yield from (line(thinking=piece) for piece in _pieces(reply.thinking, reply.split))
    yield from (line(content=piece) for piece in _pieces(reply.text, reply.split))
    yield from (line(tool_calls=[_call(reply, call, place)]) for place, call in enumerate(reply.calls))
    if reply.stream_error:
        yield {"error": reply.stream_error}
    elif reply.terminated:
        yield {**_message(model), **_end(reply, stops)}


def ollama_whole(reply: Reply, model: str, stops: Mapping[str, str] = OLLAMA_STOPS) -> dict[str, Any]:
    found: dict[str, Any] = {"content": reply.text}
    if reply.thinking:
        found["thinking"] = reply.thinking
    if reply.calls:
        found["tool_calls"] = [_call(reply, call, place) for place, call in enumerate(reply.calls)]
    return {**_message(model, **found), **_end(reply, stops)}


def _message(model: str, **found: Any) -> dict[str, Any]:
    return {"model": model, "created_at": _CREATED, "message": {"role": "assistant", "content": "", **found}}


def _end(reply: Reply, stops: Mapping[str, str]) -> dict[str, Any]:
    counts = {"prompt_eval_count": reply.usage.input, "eval_count": reply.usage.output}
    return {"done": True, "done_reason": stops.get(reply.reason, reply.reason), "total_duration": 5, **counts}


def _pieces(text: str, split: int) -> list[str]:
    return [text[i : i + split] for i in range(0, len(text), split)] if split and text else [text] if text else []


def _call(reply: Reply, call: Call, place: int) -> dict[str, Any]:
    function = {"index": place, "name": call.name, "arguments": json.loads(call.json or "{}")}
    return {"id": call.id, "function": function} if call.id else {"function": function}


def ollama_violations(body: dict[str, Any]) -> list[str]:
    """What is wrong with a conversation: results that are not those of the calls before them, or odd fields."""
    found: list[str] = []
    waiting: list[tuple[str, str]] = []
    for message in body.get("messages", []):
        if message.keys() - {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}:
            found.append(f"unknown fields: {sorted(message)}")
        if not isinstance(message.get("content"), str):
            found.append("content that is no text")
        if message["role"] == "tool":
            result = (message.get("tool_call_id", ""), message.get("tool_name", ""))
            if result not in waiting:
                found.append(f"output without a call, or a second one: {result}")
                continue
            waiting.remove(result)
            continue
        found += [f"call without an output: {call}" for call in waiting]
        calls = message.get("tool_calls") or ()
        waiting = [(call.get("id", ""), call["function"]["name"]) for call in calls]
        if any(not isinstance(call["function"]["arguments"], dict) for call in calls):
            found.append("arguments that are no object")
        if len({identity for identity, _ in waiting}) < len(waiting):
            found.append(f"one id for several calls: {waiting}")
    return found + [f"call without an output: {call}" for call in waiting]
