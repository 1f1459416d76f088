"""A scripted answer in the forms of the Gemini API, and the checks that this API makes of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.model_replies import Reply

GEMINI_STOPS = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


def gemini_events(
    reply: Reply, model: str, stops: Mapping[str, str] = GEMINI_STOPS, *, joined: bool = False
) -> Iterator[dict[str, Any]]:
    """Each event is a whole response, only the last has a finishReason, and no `[DONE]` follows.

    joined: the end stands on the last piece, not alone behind it.
    """
    rest = _rest(reply, model)
    word = stops.get(reply.reason, reply.reason)
    if word == "BLOCKED":
        yield {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **rest}
        return
    sent: list[dict[str, Any]] = [
        {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **rest}
        for part in _parts(reply, reply.split)
    ]
    if reply.stream_error:
        sent.append({"error": {"code": 503, "message": reply.stream_error, "status": "UNAVAILABLE"}})
    elif reply.terminated and joined and sent:
        sent[-1]["candidates"][0]["finishReason"] = word
    elif reply.terminated:
        sent.append({"candidates": [{"finishReason": word, "index": 0}], **rest})
    yield from sent


def gemini_whole(reply: Reply, model: str, stops: Mapping[str, str] = GEMINI_STOPS) -> dict[str, Any]:
    rest = _rest(reply, model)
    word = stops.get(reply.reason, reply.reason)
    if word == "BLOCKED":
        return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **rest}
    candidate: dict[str, Any] = {"finishReason": word, "index": 0}
    if parts := _parts(reply, 0):
        candidate["content"] = {"parts": parts, "role": "model"}
    return {"candidates": [candidate], **rest}


def _rest(reply: Reply, model: str) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "promptTokenCount": reply.usage.input,
        "candidatesTokenCount": reply.usage.output - reply.usage.reasoning,
        "totalTokenCount": reply.usage.input + reply.usage.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": reply.usage.input}],
    }
    if reply.usage.reasoning:
        usage["thoughtsTokenCount"] = reply.usage.reasoning
    if reply.usage.cache_read:
        usage["cachedContentTokenCount"] = reply.usage.cache_read
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": reply.usage.cache_read}]
    return {"usageMetadata": usage, "modelVersion": model, "responseId": reply.id}


def _parts(reply: Reply, split: int) -> list[dict[str, Any]]:
    def pieces(text: str) -> list[str]:
        return [text[i : i + split] for i in range(0, len(text), split)] if split and text else [text] if text else []

    parts: list[dict[str, Any]] = [{"text": text, "thought": True} for text in pieces(reply.thinking)]
    parts += [{"text": text} for text in pieces(reply.text)]
    for number, call in enumerate(reply.calls):
        function = {"name": call.name, "args": json.loads(call.json or "{}"), **({"id": call.id} if call.id else {})}
        signed = {"thoughtSignature": reply.signature} if reply.signature and number == 0 else {}
        parts.append({"functionCall": function, **signed})
    if reply.signature and not reply.calls and parts:
        parts.append({"text": "", "thoughtSignature": reply.signature})
    return parts


def gemini_violations(body: dict[str, Any], model: str) -> list[str]:
    """What is wrong with a conversation: calls without their results behind them in their order, and the like."""
    found: list[str] = []
    waiting: list[tuple[str, str]] = []
    before = ""
    for content in body.get("contents", []):
        parts = content["parts"]
        calls = [p["functionCall"] for p in parts if "functionCall" in p]
        results = [p["functionResponse"] for p in parts if "functionResponse" in p]
        outputs = [(r.get("id", ""), r["name"]) for r in results]
        if outputs != waiting:
            found.append(f"calls {waiting} have the outputs {outputs}")
        if results and len(results) < len(parts):
            found.append("results and other parts in one content")
        waiting = [(call.get("id", ""), call["name"]) for call in calls]
        if len({identity for identity, _ in waiting if identity}) < len(
            [identity for identity, _ in waiting if identity]
        ):
            found.append(f"one id for several calls: {waiting}")
        if content["role"] == before == "model":
            found.append("two answers in a row")
        if not parts or any(part == {"text": ""} for part in parts):
            found.append("an empty content or text")
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and model.startswith("gemini-3") and not first.get("thoughtSignature"):
            found.append("Function call is missing a thought_signature")
        before = content["role"]
    return found + [f"call without an output: {call}" for call in waiting]
