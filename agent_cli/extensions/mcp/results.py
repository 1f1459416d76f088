"""What a server answers, made fit for a conversation: text bounded and harmless, images as attachments, all counted."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.clipping import HeadTail, counted, one_line, shorten
from agent_tools.display import Note
from agent_tools.image_header import sniff
from agent_tools.images import show_image
from agent_tools.media import Media

HEAD, TAIL = 40_000, 10_000
MOST_IMAGES = 10


def mcp_result(data: dict[str, Any], server: str, ctx: ToolContext) -> ToolResult:
    """The result of a call, from the answer in the shape of the protocol."""
    media: list[Media] = []
    parts = [_part(block, media, ctx) for block in data.get("content") or []]
    structured = data.get("structuredContent")
    if structured is not None and not any(parts) and not media:
        parts = [json.dumps(structured, ensure_ascii=False, indent=1)]
    failed = data.get("isError") is True
    text = truncated_result("\n".join(p for p in parts if p), ctx)
    if not text and not media:
        text = "(an error without a text)" if failed else "(no output)"
    display = Note(_said(text, media))
    return ToolResult(text, display, failed, media=tuple(media))


def _said(text: str, media: list[Media]) -> str:
    lines = text.splitlines()
    more = [counted(len(lines), "line")] if len(lines) > 1 else [shorten(text, 160)] if text else []
    return ", ".join([*more, *([counted(len(media), "image")] if media else [])])


def truncated_result(text: str, ctx: ToolContext) -> str:
    """A text of a server, harmless, and cut in the middle where it is long; all of it is then in a file."""
    room = HeadTail(HEAD, TAIL, ctx.workspace.scratch)
    room.feed(text.encode("utf-8", "replace"))
    room.close()
    return room.text("ask for less of it").rstrip("\n")


def _part(block: dict[str, Any], media: list[Media], ctx: ToolContext) -> str:
    """One piece of content as text; an image goes to `media`."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "image":
        return _image(str(block.get("data", "")), media, ctx)
    if kind == "resource":
        return resource_text(block.get("resource") or {}, media, ctx)
    if kind == "resource_link":
        name = " ".join(filter(None, [str(block.get("name", "")), str(block.get("description", ""))]))
        return f"[resource {one_line(str(block.get('uri', '')))}: {one_line(name)}]"
    size = len(str(block.get("data", ""))) * 3 // 4
    return f"[{one_line(str(kind))} of {size:,} bytes, which cannot be shown]"


def resource_text(resource: dict[str, Any], media: list[Media], ctx: ToolContext) -> str:
    """The content of a resource as text; an image goes to `media`."""
    if "text" in resource:
        return str(resource["text"])
    mime = str(resource.get("mimeType", ""))
    if mime.startswith("image/"):
        return _image(str(resource.get("blob", "")), media, ctx)
    size = len(str(resource.get("blob", ""))) * 3 // 4
    return f"[{one_line(mime) or 'binary data'} of {size:,} bytes, which cannot be shown]"


def _image(encoded: str, media: list[Media], ctx: ToolContext) -> str:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        return "[an image that is damaged]"
    image = sniff(data)
    if image is None:
        return f"[an image of {len(data):,} bytes in a format that is not known]"
    said = f"{image.name} image, {image.size}, {len(data):,} bytes"
    if "image" not in ctx.takes:
        return f"[a {said}; this model takes no images]"
    if len(media) >= MOST_IMAGES:
        return f"[a {said}, left out: there are more than {MOST_IMAGES}]"
    try:
        shown, text = show_image(data, image, f"image {len(media) + 1}")
    except ToolError as error:
        return f"[{error}]"
    media.append(shown)
    return f"[{text}]"
