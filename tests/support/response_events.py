"""The Responses API, as a scripted model server speaks it: a `Reply` as a stream of events, and in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_cli.kernel.results import Usage

if TYPE_CHECKING:
    from tests.support.model_replies import Reply

_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def response_whole(reply: Reply, model: str) -> dict[str, Any]:
    """The answer in one piece."""
    return _response(reply, model, _items(reply))


def response_events(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    """The answer as events."""
    begun = {**_response(reply, model, []), "status": "in_progress", "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    items = _items(reply)
    calls: list[tuple[int, dict[str, Any]]] = []
    for place, item in enumerate(items):
        if item["type"] == "function_call":
            calls.append((place, item))
            continue
        yield from _item_events(place, item, reply.split)
        if item["type"] == "message" and reply.stream_error:
            yield {"type": "error", "code": reply.error_type, "message": reply.stream_error, "param": None}
            return
    for place, item in calls:
        yield _added(place, {**item, "arguments": "", "status": "in_progress"})
    # The fragments of parallel calls interleave, as they may.
    fragments = [_pieces(item["arguments"], reply.split) for _, item in calls]
    for turn in range(max(map(len, fragments), default=0)):
        for (place, item), texts in zip(calls, fragments, strict=True):
            if turn < len(texts):
                yield _delta("response.function_call_arguments.delta", place, item, texts[turn])
    for place, item in calls:
        done = {"item_id": item["id"], "output_index": place, "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **done}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    if reply.terminated:
        response = _response(reply, model, items)
        yield {"type": f"response.{response['status']}", "response": response}


def _item_events(place: int, item: dict[str, Any], split: int) -> Iterator[dict[str, Any]]:
    if item["type"] == "reasoning":
        yield _added(place, {"type": "reasoning", "id": item["id"], "summary": []})
        for number, part in enumerate(item["summary"]):
            where = {"item_id": item["id"], "output_index": place, "summary_index": number}
            empty = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", "part": empty, **where}
            for text in _pieces(part["text"], split):
                yield {"type": "response.reasoning_summary_text.delta", "delta": text, **where}
            yield {"type": "response.reasoning_summary_text.done", "text": part["text"], **where}
            yield {"type": "response.reasoning_summary_part.done", "part": part, **where}
    else:
        yield _added(place, {**item, "content": [], "status": "in_progress"})
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        (part,) = item["content"]
        yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **where}
        for text in _pieces(part["text"], split):
            yield _delta("response.output_text.delta", place, item, text)
        yield {"type": "response.output_text.done", "text": part["text"], **where}
        yield {"type": "response.content_part.done", "part": part, **where}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _added(place: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def _delta(kind: str, place: int, item: dict[str, Any], text: str) -> dict[str, Any]:
    return {"type": kind, "item_id": item["id"], "output_index": place, "content_index": 0, "delta": text}


def _pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)] if size and text else [text] if text else []


def _items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thinking or reply.encrypted:
        summary = [{"type": "summary_text", "text": reply.thinking}] if reply.thinking else []
        thought: dict[str, Any] = {"type": "reasoning", "id": f"rs_{reply.id}", "summary": summary}
        items.append({**thought, "encrypted_content": reply.encrypted} if reply.encrypted else thought)
    if reply.text or reply.stream_error:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        head = {"type": "message", "id": f"msg_{reply.id}", "role": "assistant", "status": "completed"}
        items.append({**head, "content": [part]})
    for place, call in enumerate(reply.calls):
        call_id = call.id or f"{reply.id}-call-{place}"
        head = {"type": "function_call", "id": f"fc_{reply.id}_{place}", "status": "completed"}
        # A tool in a namespace is written as namespace/name.
        space, _, name = call.name.rpartition("/")
        items.append(
            {
                **head,
                "call_id": call_id,
                "name": name,
                "arguments": call.json,
                **({"namespace": space} if space else {}),
            }
        )
    return items


def _response(reply: Reply, model: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.stop)
    return {
        "id": reply.id,
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": _usage(reply.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
