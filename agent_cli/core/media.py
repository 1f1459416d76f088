"""Images and PDFs in messages: as Claude's content blocks, and left out with a note where a model takes none."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterable, Sequence
from typing import Any

from agent_cli.core.messages import AssistantMessage, Message
from agent_tools.media import Media, MediaKind

_NOUNS: dict[MediaKind, str] = {"image": "image", "pdf": "PDF"}


def claude_blocks(media: Iterable[Media]) -> list[dict[str, Any]]:
    """The blocks of the Messages API, which Claude Code's stream-json has too."""
    return [_claude_block(item) for item in media]


def _claude_block(item: Media) -> dict[str, Any]:
    source = {"type": "base64", "media_type": item.mime, "data": item.data}
    if item.kind == "image":
        return {"type": "image", "source": source}
    # The API takes titles of 1 to 500 characters.
    return {"type": "document", "source": source, **({"title": item.name[:500]} if item.name.strip() else {})}


def media_of(blocks: Iterable[Any]) -> tuple[Media, ...]:
    """What `claude_blocks` made; blocks of other kinds, and those that only name an address, are left out.

    Raises KeyError, TypeError or ValueError for blocks of an unknown form.
    """
    found: list[Media] = []
    for block in blocks:
        if block["type"] not in ("image", "document") or block["source"]["type"] != "base64":
            continue
        mime, data = block["source"]["media_type"], block["source"]["data"]
        a2b_base64(data, strict_mode=True)
        if not mime.startswith("image/") and mime != "application/pdf":
            raise ValueError(mime)
        found.append(Media(mime, data, str(block.get("title") or "")))
    return tuple(found)


def has_media(message: Message) -> bool:
    """Whether a message carries something beside text."""
    return not isinstance(message, AssistantMessage) and bool(message.media)


def only_taken(history: Sequence[Message], takes: frozenset[MediaKind]) -> list[Message]:
    """The history for a model that takes these kinds: in the place of every other stands a line of text."""
    return [_only_taken(message, takes) for message in history]


def _only_taken(message: Message, takes: frozenset[MediaKind]) -> Message:
    if isinstance(message, AssistantMessage) or all(item.kind in takes for item in message.media):
        return message
    notes = [_not_sent(item) for item in message.media if item.kind not in takes]
    text = "\n".join([*filter(None, [message.text]), *notes])
    return message.but(text=text, media=tuple(item for item in message.media if item.kind in takes))


def _not_sent(item: Media) -> str:
    noun = _NOUNS[item.kind]
    return f"[{noun} {item.name or 'without a name'} not sent: this model takes no {noun}s]"
