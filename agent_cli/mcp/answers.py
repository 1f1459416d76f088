"""Read the answers of servers, block by block: one that is not understood becomes a line, and fails nothing.

Text is truncated and escaped, images become attachments, up to a limit, and other data is saved to files.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.documents.images import show_image, sniff
from agent_tools.results import Media, Note
from agent_tools.text import HeadTail, counted, one_line, sanitize_output, shorten

HEAD_CHARS, TAIL_CHARS = 40_000, 10_000
MAX_IMAGES = 10
_MAX_BLOCK_CHARS = 10_000
# What an answer has besides its content.
_ENVELOPE = ("content", "structuredContent", "isError", "resultType", "_meta")


def mcp_result(data: Any, ctx: ToolContext) -> ToolResult:
    """Convert the result of a call, of any form. Only `isError` makes it an error."""
    media: list[Media] = []
    answer = data if isinstance(data, dict) else {"content": data}
    parts = [_part(block, media, ctx) for block in _blocks(answer.get("content"))]
    structured = answer.get("structuredContent")
    if structured is None and not parts:
        structured = {name: value for name, value in answer.items() if name not in _ENVELOPE} or None
    if structured is not None and not any(parts) and not media:
        parts = [structured if isinstance(structured, str) else _json(structured, indent=1)]
    failed = _is_error(answer)
    text = sanitize_output("\n".join(p for p in parts if p)).rstrip("\n")
    if not text and not media:
        text = "(an error without a message)" if failed else "(no output)"
    return ToolResult(text, Note(_size_of(text, media)), failed, media=tuple(media))


def plain_answer(data: Any) -> tuple[str, bool]:
    """Return the text of a result of any form, not of resources in it, or its data as JSON; and if it is an error."""
    answer = data if isinstance(data, dict) else {"content": data}
    own = [b for b in _blocks(answer.get("content")) if not isinstance(b, dict) or b.get("type") in ("text", None)]
    text = "\n".join(filter(None, map(block_text, own)))
    structured = answer.get("structuredContent")
    return text or ("" if structured is None else _json(structured)), _is_error(answer)


def _is_error(answer: dict[str, Any]) -> bool:
    return answer.get("isError") in (True, "true")


def read_contents(data: Any, media: list[Media], ctx: ToolContext) -> str:
    """Return the content of a resource as text; append images to `media`."""
    contents = data.get("contents") if isinstance(data, dict) else data
    return "\n".join(_resource(content, media, ctx) for content in _blocks(contents))


def block_text(block: Any) -> str:
    """Return a block of a prompt as text; "" for one without text."""
    if isinstance(block, str):
        return block
    given = block if isinstance(block, dict) else {}
    resource = given.get("resource")
    return _text(given.get("text")) or _text(resource.get("text") if isinstance(resource, dict) else None)


def _blocks(content: Any) -> Iterable[Any]:
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def _text(value: Any) -> str:
    """Return a value that is to be text; "" for none."""
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(data: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, indent=indent)
    except RecursionError:
        return "(data that is nested too deeply to be shown)"


def _size_of(text: str, media: list[Media]) -> str:
    lines = text.splitlines()
    more = [counted(len(lines), "line")] if len(lines) > 1 else [shorten(text, 160)] if text else []
    return ", ".join([*more, *([counted(len(media), "image")] if media else [])])


def truncated_result(text: str, ctx: ToolContext) -> str:
    """Escape text for a user's message; truncate long text in the middle and save all of it in a file."""
    search = ctx.workspace.advice("Grep Read", "; {} shows any part of it").lstrip()
    room = HeadTail(HEAD_CHARS, TAIL_CHARS, ctx.workspace.scratch, search=search)
    room.feed(text.encode("utf-8", "replace"))
    room.close()
    return room.text("ask for less of it").rstrip("\n")


def _part(block: Any, media: list[Media], ctx: ToolContext) -> str:
    """Return one block of content as text; append an image to `media`."""
    if not isinstance(block, dict):
        return _text(block)
    kind = block.get("type")
    if kind == "text" or (isinstance(block.get("text"), str) and kind != "resource"):
        return _text(block.get("text")) if block.get("text") is not None else "[a text block without text]"
    if kind == "image":
        return _image(block.get("data"), media, ctx)
    if kind == "resource":
        return _resource(block.get("resource"), media, ctx)
    if kind == "resource_link":
        name = " ".join(filter(None, [_text(block.get("name")), _text(block.get("description"))]))
        return f"[resource {one_line(_text(block.get('uri')))}{f': {one_line(name)}' if name else ''}]"
    name = one_line(_text(kind)) or "a block without a type"
    if isinstance(block.get("data"), str):
        return f"[{name} of {len(block['data']) * 3 // 4:,} bytes, which cannot be shown]"
    return f"[{name}, which is not a known kind of content: {shorten(_json(block), _MAX_BLOCK_CHARS)}]"


def _resource(resource: Any, media: list[Media], ctx: ToolContext) -> str:
    """Return the content of a resource as text; append an image to `media`."""
    if not isinstance(resource, dict):
        return _text(resource)
    if resource.get("text") is not None:
        return _text(resource["text"])
    mime = _text(resource.get("mimeType"))
    if mime.startswith("image/"):
        return _image(resource.get("blob"), media, ctx)
    if "blob" not in resource:
        return f"[resource {one_line(_text(resource.get('uri')))} without content]"
    data = _decoded(resource["blob"])
    if data is None:
        return f"[damaged {one_line(mime) or 'binary data'}]"
    text = f"{shorten(mime) or 'binary data'} of {len(data):,} bytes"
    file = ctx.workspace.scratch.new() if data else None
    if file is None:
        return f"[{text}, which cannot be shown]"
    file.write(data)
    file.close()
    return f"[{text}, which cannot be saved]" if file.cut else f"[{text}, saved in {file.path}]"


def _decoded(encoded: Any) -> bytes | None:
    """Return the bytes of base64; None if it is damaged."""
    try:
        return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None
    except (ValueError, binascii.Error):
        return None


def _image(encoded: Any, media: list[Media], ctx: ToolContext) -> str:
    data = _decoded(encoded)
    if data is None:
        return "[a damaged image]"
    image = sniff(data)
    if image is None:
        return f"[an image of {len(data):,} bytes in an unknown format]"
    message = f"{image.name} image, {image.size}, {len(data):,} bytes"
    if "image" not in ctx.input_modalities:
        return f"[a {message}; this model takes no images]"
    if len(media) >= MAX_IMAGES:
        return f"[a {message}, left out: there are more than {MAX_IMAGES}]"
    try:
        shown, text = show_image(data, image, f"image {len(media) + 1}")
    except ToolError as error:
        return f"[{error}]"
    media.append(shown)
    return f"[{text}]"
