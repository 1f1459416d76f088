"""Images and PDFs in OpenAI's Chat Completions, for the direct wire and for LiteLLM.

Only user messages may hold them there, so those of tool results follow in one user message after the run of results.
Every part names the call it belongs to. That message stands at the same place in every later request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_cli.core.messages import ToolMessage, UserMessage
from agent_tools.media import Media

Part = dict[str, Any]


def content_of(message: UserMessage) -> str | list[Part]:
    """The content of a user message: its text, behind what it shows."""
    if not message.media:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*_parts(message.media), *text]


def parts_of_result(message: ToolMessage) -> list[Part]:
    """What a result shows, each item introduced by the call and the file that it came from."""
    parts: list[Part] = []
    for item in message.media:
        name = f" {item.name}" if item.name else ""
        words = f"[{item.kind}{name}, from the result of {message.name} call {message.call_id}]"
        parts += [{"type": "text", "text": words}, *_parts([item])]
    return parts


def _parts(media: Iterable[Media]) -> list[Part]:
    return [_part(item) for item in media]


def _part(item: Media) -> Part:
    url = f"data:{item.mime};base64,{item.data}"
    if item.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": item.name.rpartition("/")[2] or "document.pdf", "file_data": url}}
