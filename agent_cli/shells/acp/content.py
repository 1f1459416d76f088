"""Read the content of a prompt: text, images, and files, linked or embedded."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_cli import UsageError
from agent_tools.base import ToolContext, ToolError
from agent_tools.documents import images
from agent_tools.record import Value
from agent_tools.results import Media

_LINES = re.compile(r"L?(\d+)(?:[-:]L?(\d+))?")
_PDF = "application/pdf"


class EditorPrompt(Value):
    """A prompt of the editor's user.

    text: their words, with mentions of linked files.
    files: embedded files as blocks for the model; nothing in them is expanded.
    media: images and PDFs.
    """

    text: str
    files: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()

    @property
    def files_block(self) -> str:
        """Return the embedded files as text to append to the prompt, or ""."""
        return "".join(f"\n\n{file}" for file in self.files)


def read_prompt(blocks: Iterable[Any], context: ToolContext, model: str) -> EditorPrompt:
    """Read the blocks of a prompt. Raises UsageError for content that is not supported."""
    texts: list[str] = []
    files: list[str] = []
    media: list[Media] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image":
                media.append(_image(block.data, block.uri or "image", context, model))
            case "resource_link":
                texts.append(_mention(block.uri, block.name, context))
            case "resource":
                resource = block.resource
                name = _file_name(resource.uri, context)
                if (text := getattr(resource, "text", None)) is not None:
                    texts.append(_reference(resource.uri, name))
                    files.append(f'<file path="{name}"{_lines_attribute(resource.uri)}>\n{text}\n</file>')
                else:
                    media.append(_blob(resource, name, context, model))
            case other:
                raise UsageError(f"A prompt with {other} cannot be sent: text, images and files can.")
    return EditorPrompt("".join(texts).strip(), tuple(files), tuple(media))


def _mention(uri: str, name: str, context: ToolContext) -> str:
    """Return a linked file as a mention, which attaches its text; anything else as a link."""
    path = uri_path(uri)
    if path is None:
        return f"[{name}]({uri})"
    shown = context.workspace.spell(path)
    lines = _line_range(uri)
    if any(c.isspace() for c in shown):
        return shown
    return f"@{shown}:{lines[0]}-{lines[1]}" if lines else f"@{shown}"


def _reference(uri: str, name: str) -> str:
    """Return the name of an embedded file for the text of the prompt."""
    lines = _line_range(uri)
    return f"`{name}`" if lines is None else f"`{name}` (lines {lines[0]}-{lines[1]})"


def _lines_attribute(uri: str) -> str:
    lines = _line_range(uri)
    return f' lines="{lines[0]}-{lines[1]}"' if lines else ""


def _line_range(uri: str) -> tuple[int, int] | None:
    """Return the lines that a link points to, in the forms #L3, #L3-L9 and #L3:9."""
    found = _LINES.fullmatch(urlsplit(uri).fragment)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def uri_path(uri: str) -> Path | None:
    """Return the file that a URI, or an absolute path, names; None for anything else."""
    if uri.startswith("/"):
        return Path(uri)
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = unquote(parts.path)
    return Path(path) if local and path.startswith("/") and "\0" not in path else None


def _file_name(uri: str, context: ToolContext) -> str:
    path = uri_path(uri)
    return uri.replace('"', "%22") if path is None else context.workspace.spell(path).replace('"', "%22")


def _decode_base64(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"{name} cannot be sent: its data is not base64.") from None


def _image(data: str, uri: str, context: ToolContext, model: str) -> Media:
    name = os.path.basename(uri) or "image"
    if "image" not in context.input_modalities:
        raise UsageError(
            f'{model} is not known to accept images. Choose a model that does, or set model_takes = ["image"].'
        )
    raw = _decode_base64(data, name)
    found = images.sniff(raw)
    if found is None:
        raise UsageError(f"{name} cannot be sent: it is not an image.")
    try:
        return images.show_image(raw, found, name)[0]
    except ToolError as error:
        raise UsageError(str(error)) from None


def _blob(resource: Any, name: str, context: ToolContext, model: str) -> Media:
    mime = resource.mime_type or ""
    if mime.startswith("image/"):
        return _image(resource.blob, name, context, model)
    if mime == _PDF and "pdf" in context.input_modalities:
        _decode_base64(resource.blob, name)
        return Media(_PDF, resource.blob, name)
    raise UsageError(f"{name} cannot be sent: {mime or 'its type'} is neither text nor an image. Link to the file.")
