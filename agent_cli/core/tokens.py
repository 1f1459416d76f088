"""Estimate tokens without a tokenizer.

A token counts as 3.5 bytes, which is on the safe side for prose and about right for code; the sum is scaled to what the
provider last reported. Images are counted by their pixels, PDF documents by their size.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterable
from typing import Any, Protocol

from agent_cli.core.messages import AssistantMessage, Message, Text, Thinking
from agent_tools.lazy import lazy_imports
from agent_tools.media import Media

with lazy_imports():
    from agent_tools.documents import images  # few conversations have images

BYTES = 3.5
# Overhead of a message, a call or a tool in a request.
_FRAME = 6
_IMAGE, _PIXELS = 1_600, 750
_PDF, _PDF_BYTES = 2_000, 20
# Where an image has its size, in characters of base64.
_HEADER = 64 * 1024


class Spec(Protocol):
    """A tool as a request contains it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]: ...


def tokens_of_text(text: str) -> int:
    return round((len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) / BYTES)


def tokens_of_message(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return _FRAME + tokens_of_text(message.text) + sum(tokens_of_media(item) for item in message.media)
    total = _FRAME
    for part in message.parts:
        if isinstance(part, (Text, Thinking)):
            total += tokens_of_text(part.text)
        else:
            total += _FRAME + tokens_of_text(part.name + part.broken) + _of_plain(part.arguments)
    return total


def tokens_of(messages: Iterable[Message]) -> int:
    return sum(map(tokens_of_message, messages))


def tokens_of_tools(tools: Iterable[Spec]) -> int:
    return sum(_FRAME + tokens_of_text(t.name + t.description) + _of_plain(t.schema) for t in tools)


def tokens_of_media(item: Media) -> int:
    """Count media as providers do: an image by its pixels up to a limit, a PDF by its pages, estimated from its
    size.
    """
    if item.kind == "pdf":
        return max(_PDF, len(item.data) * 3 // 4 // _PDF_BYTES)
    try:
        image = images.sniff(a2b_base64(item.data[:_HEADER]))
    except ValueError:
        image = None
    return min(_IMAGE, image.width * image.height // _PIXELS) if image else _IMAGE


def truncate_to_tokens(text: str, tokens: int, note: str) -> str:
    """Return the text, cut in the middle with the note if it has more than that many tokens."""
    if tokens_of_text(text) <= tokens:
        return text
    share = max(0.0, tokens / tokens_of_text(text))
    room = max(0, int(len(text) * share) - len(note))
    head = room * 2 // 3
    tail = text[len(text) - (room - head) :] if room > head else ""
    return f"{text[:head]}\n[{note}]\n{tail}"


def _of_plain(value: Any) -> int:
    return tokens_of_text(json.dumps(value, ensure_ascii=False)) if value else 1
