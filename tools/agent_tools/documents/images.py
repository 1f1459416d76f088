"""Prepare images for a model: detect kind and size, and scale to what providers accept.

Providers accept PNG, JPEG, GIF and WebP up to a size in bytes and pixels, and scale larger ones down themselves. If
Pillow is installed (the extra `images`), that is done here, which saves bytes on every later request.
"""

from __future__ import annotations

import warnings
from binascii import b2a_base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.results import Media, Note

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


class Image(Value):
    """An image as its header describes it. mime: such as image/png. complete: the data has the format's end marker."""

    name: str
    mime: str
    width: int
    height: int
    complete: bool = True

    @property
    def size(self) -> str:
        """Width and height as text."""
        return f"{self.width} x {self.height} pixels"


def sniff(data: bytes) -> Image | None:
    """Detect the image in `data`; return None if it is not an image or its header is broken."""
    try:
        found = _detect(data)
    except (IndexError, ValueError):
        return None
    return found if found is not None and found.width > 0 and found.height > 0 else None


def _detect(data: bytes) -> Image | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        complete = data.find(b"IDAT", 33) > 0 and data.rfind(b"IEND\xaeB`\x82") > 0
        return Image("PNG", "image/png", _big_endian(data, 16, 4), _big_endian(data, 20, 4), complete)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        complete = data.rstrip(b"\0").endswith(b";")
        return Image("GIF", "image/gif", _little_endian(data, 6, 2), _little_endian(data, 8, 2), complete)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM") and _little_endian(data, 14, 4) in (12, 40, 52, 56, 64, 108, 124):
        size = 2 if _little_endian(data, 14, 4) == 12 else 4
        at = 18 + size
        # A negative height means that rows are stored from the top.
        height = abs(int.from_bytes(_slice(data, at, size), "little", signed=size == 4))
        return Image("BMP", "image/bmp", _little_endian(data, 18, size), height)
    if data.startswith((b"II*\0", b"MM\0*")):
        return _tiff(data)
    return None


def _slice(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) < size:
        raise IndexError(at)
    return part


def _big_endian(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_slice(data, at, size), "big")


def _little_endian(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_slice(data, at, size), "little")


def _jpeg(data: bytes) -> Image | None:
    """Find the frame header segment by segment; a scan and an end mark must follow."""
    at = 2
    while True:
        while _big_endian(data, at, 1) != 0xFF:
            at += 1
        while (marker := _big_endian(data, at, 1)) == 0xFF:
            at += 1
        at += 1
        if marker in (0x01, *range(0xD0, 0xD8)):
            continue
        if marker in (0xD9, 0xDA):
            return None
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            complete = 0 < data.find(b"\xff\xda", at) < data.rfind(b"\xff\xd9")
            return Image("JPEG", "image/jpeg", _big_endian(data, at + 5, 2), _big_endian(data, at + 3, 2), complete)
        at += max(2, _big_endian(data, at, 2))


def _webp(data: bytes) -> Image | None:
    complete = len(data) >= _little_endian(data, 4, 4) + 8
    kind = data[12:16]
    if kind == b"VP8X":
        return Image("WebP", "image/webp", _little_endian(data, 24, 3) + 1, _little_endian(data, 27, 3) + 1, complete)
    if kind == b"VP8L":
        bits = _little_endian(data, 21, 4)
        return Image("WebP", "image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, complete)
    if kind == b"VP8 ":
        return Image(
            "WebP", "image/webp", _little_endian(data, 26, 2) & 0x3FFF, _little_endian(data, 28, 2) & 0x3FFF, complete
        )
    return None


def _tiff(data: bytes) -> Image | None:
    """Read width and height from the first directory of tags."""
    number = _little_endian if data.startswith(b"II") else _big_endian
    at = number(data, 4, 4)
    found = {}
    for entry in range(at + 2, at + 2 + number(data, at, 2) * 12, 12):
        tag, kind = number(data, entry, 2), number(data, entry + 2, 2)
        if tag in (256, 257):
            found[tag] = number(data, entry + 8, 2 if kind == 3 else 4)
    return Image("TIFF", "image/tiff", found[256], found[257]) if len(found) == 2 else None


# Limits of providers: 5 MB as base64, and 8,000 pixels a side. Beyond TARGET_SIDE_PIXELS they scale down.
MAX_BYTES = 3_750_000
MAX_SIDE_PIXELS = 8_000
TARGET_SIDE_PIXELS = 1_568
# Larger images are not decoded: a few kilobytes can claim to be a picture of gigabytes.
MAX_PIXELS = 64_000_000
_RESIZE_COMMAND = f"such as `magick IN -resize {TARGET_SIDE_PIXELS}x{TARGET_SIDE_PIXELS} OUT.png`"
_ACCEPTED_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read_image(data: bytes, image: Image, name: str, ctx: ToolContext) -> ToolResult:
    """Return the result of Read for an image. Raises ToolError if it cannot be shown or the model accepts no images."""
    if "image" not in ctx.input_modalities:
        raise ToolError(
            f"{name} is a {image.name} image ({image.size}, {len(data):,} bytes), and this model accepts no images."
            + (ctx.workspace.advice("Bash", "Use {} (such as tesseract for its text), or ask") or " Ask")
            + " the user what it shows."
        )
    media, caption = show_image(data, image, name)
    return ToolResult(caption, Note(f"{image.name} image, {image.size}"), media=(media,))


def show_image(data: bytes, image: Image, name: str) -> tuple[Media, str]:
    """Return the image as an attachment, and a line about it for the model.

    Raises ToolError, which says what to do if it is damaged or too large.
    """
    text = f"{name}: {image.name} image, {image.size}, {len(data):,} bytes"
    if not image.complete:
        raise ToolError(f"{name} is a {image.name} image that is truncated or damaged. Create or fetch it again.")
    if image.width * image.height > MAX_PIXELS:
        raise ToolError(
            f"{name} is too large to show ({image.size}). Make a smaller copy ({_RESIZE_COMMAND}), and read it."
        )
    fits = (
        image.mime in _ACCEPTED_TYPES and len(data) <= MAX_BYTES and max(image.width, image.height) <= MAX_SIDE_PIXELS
    )
    good = fits and max(image.width, image.height) <= TARGET_SIDE_PIXELS
    try:
        from PIL import Image as Pillow
    except ImportError:
        if fits:
            return _attach(data, image.mime, name), text
        raise ToolError(
            f"{name} ({image.name}, {image.size}, {len(data):,} bytes) cannot be shown to a model, which accepts PNG, "
            f"JPEG, GIF or WebP of at most {MAX_BYTES:,} bytes and {MAX_SIDE_PIXELS:,} pixels a side. "
            f"Make such a copy with a command ({_RESIZE_COMMAND}) and read that, or ask the user to install Pillow."
        ) from None
    # Decoders warn about defects that they tolerate; the user has no use for that.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        with Pillow.open(BytesIO(data), formats=[image.name]) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ValueError("it is larger than its header says")
            frames = getattr(picture, "n_frames", 1)
            if good:
                picture.load()
                return _attach(data, image.mime, name), text
            smaller, mime = _scale_down(picture, image)
    except Exception:  # noqa: BLE001 - a broken image raises whatever its decoder runs into
        raise ToolError(
            f"{name} is a {image.name} image that cannot be decoded; it may be damaged. Create or fetch it again, or "
            "examine it with a command."
        ) from None
    new = sniff(smaller)
    assert new is not None
    text += f"; shown as {new.name} of {new.size}"
    if frames > 1:
        text += f", the first of {frames} frames"
    return _attach(smaller, mime, name), text


def _attach(data: bytes, mime: str, name: str) -> Media:
    return Media(mime, b2a_base64(data, newline=False).decode("ascii"), name)


def _scale_down(picture: Picture, image: Image) -> tuple[bytes, str]:
    """Return the picture upright and small enough, as PNG; as JPEG if it was one or PNG would be too large."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    # Lets the JPEG decoder skip detail that would be scaled away.
    picture.draft(None, (TARGET_SIDE_PIXELS, TARGET_SIDE_PIXELS))
    clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    if picture.mode.startswith("I;16"):
        # Converting would clip brightness instead of scaling it.
        scaled = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    else:
        scaled = picture.convert("RGBA" if clear else "RGB")
    scaled.thumbnail((TARGET_SIDE_PIXELS, TARGET_SIDE_PIXELS))
    upright = ImageOps.exif_transpose(scaled)
    if image.mime != "image/jpeg":
        data = _encode(upright, "PNG")
        if len(data) <= MAX_BYTES:
            return data, "image/png"
    flat = upright
    if clear:
        flat = Pillow.new("RGB", upright.size, "white")
        flat.paste(upright, mask=upright.getchannel("A"))
    return _encode(flat, "JPEG", quality=85), "image/jpeg"


def _encode(picture: Picture, form: str, **options: Any) -> bytes:
    out = BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()
