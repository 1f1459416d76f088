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
    """An image as described by its header. mime: such as image/png. whole: the data has the format's end mark."""

    name: str
    mime: str
    width: int
    height: int
    whole: bool = True

    @property
    def size(self) -> str:
        """Width and height as text."""
        return f"{self.width} x {self.height} pixels"


def sniff(data: bytes) -> Image | None:
    """Detect the image in `data`; return None if it is none or its header is broken."""
    try:
        found = _of_kind(data)
    except (IndexError, ValueError):
        return None
    return found if found is not None and found.width > 0 and found.height > 0 else None


def _of_kind(data: bytes) -> Image | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        whole = data.find(b"IDAT", 33) > 0 and data.rfind(b"IEND\xaeB`\x82") > 0
        return Image("PNG", "image/png", _big(data, 16, 4), _big(data, 20, 4), whole)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        whole = data.rstrip(b"\0").endswith(b";")
        return Image("GIF", "image/gif", _little(data, 6, 2), _little(data, 8, 2), whole)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM") and _little(data, 14, 4) in (12, 40, 52, 56, 64, 108, 124):
        size = 2 if _little(data, 14, 4) == 12 else 4
        at = 18 + size
        # A negative height means that rows are stored from the top.
        height = abs(int.from_bytes(_part(data, at, size), "little", signed=size == 4))
        return Image("BMP", "image/bmp", _little(data, 18, size), height)
    if data.startswith((b"II*\0", b"MM\0*")):
        return _tiff(data)
    return None


def _part(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) < size:
        raise IndexError(at)
    return part


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_part(data, at, size), "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_part(data, at, size), "little")


def _jpeg(data: bytes) -> Image | None:
    """Find the frame header segment by segment; a scan and an end mark must follow."""
    at = 2
    while True:
        while _big(data, at, 1) != 0xFF:
            at += 1
        while (marker := _big(data, at, 1)) == 0xFF:
            at += 1
        at += 1
        if marker in (0x01, *range(0xD0, 0xD8)):
            continue
        if marker in (0xD9, 0xDA):
            return None
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            whole = 0 < data.find(b"\xff\xda", at) < data.rfind(b"\xff\xd9")
            return Image("JPEG", "image/jpeg", _big(data, at + 5, 2), _big(data, at + 3, 2), whole)
        at += max(2, _big(data, at, 2))


def _webp(data: bytes) -> Image | None:
    whole = len(data) >= _little(data, 4, 4) + 8
    kind = data[12:16]
    if kind == b"VP8X":
        return Image("WebP", "image/webp", _little(data, 24, 3) + 1, _little(data, 27, 3) + 1, whole)
    if kind == b"VP8L":
        bits = _little(data, 21, 4)
        return Image("WebP", "image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, whole)
    if kind == b"VP8 ":
        return Image("WebP", "image/webp", _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF, whole)
    return None


def _tiff(data: bytes) -> Image | None:
    """Read width and height from the first directory of tags."""
    number = _little if data.startswith(b"II") else _big
    at = number(data, 4, 4)
    found = {}
    for entry in range(at + 2, at + 2 + number(data, at, 2) * 12, 12):
        tag, kind = number(data, entry, 2), number(data, entry + 2, 2)
        if tag in (256, 257):
            found[tag] = number(data, entry + 8, 2 if kind == 3 else 4)
    return Image("TIFF", "image/tiff", found[256], found[257]) if len(found) == 2 else None


# Limits of providers: 5 MB as base64, and 8,000 pixels a side. They scale images beyond GOOD_SIDE down themselves.
MOST_BYTES = 3_750_000
MOST_SIDE = 8_000
GOOD_SIDE = 1_568
# Larger images are not decoded: a few kilobytes can claim to be a picture of gigabytes.
MOST_PIXELS = 64_000_000
_COMMAND = f"such as `magick IN -resize {GOOD_SIDE}x{GOOD_SIDE} OUT.png`"
_TAKEN = ("image/png", "image/jpeg", "image/gif", "image/webp")


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

    Raises ToolError, which says what to do, if it is damaged or too large.
    """
    text = f"{name}: {image.name} image, {image.size}, {len(data):,} bytes"
    if not image.whole:
        raise ToolError(f"{name} is a {image.name} image that is truncated or damaged. Create or fetch it again.")
    if image.width * image.height > MOST_PIXELS:
        raise ToolError(
            f"{name} is too large to show ({image.size}). Make a smaller copy by a command ({_COMMAND}), and read it."
        )
    fits = image.mime in _TAKEN and len(data) <= MOST_BYTES and max(image.width, image.height) <= MOST_SIDE
    good = fits and max(image.width, image.height) <= GOOD_SIDE
    try:
        from PIL import Image as Pillow
    except ImportError:
        if fits:
            return _attach(data, image.mime, name), text
        raise ToolError(
            f"{name} ({image.name}, {image.size}, {len(data):,} bytes) cannot be shown to a model, which accepts PNG, "
            f"JPEG, GIF or WebP of at most {MOST_BYTES:,} bytes and {MOST_SIDE:,} pixels a side. "
            f"Make such a copy with a command ({_COMMAND}) and read that, or ask the user to install Pillow."
        ) from None
    # Decoders warn about defects that they tolerate; the user has no use for that.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        with Pillow.open(BytesIO(data), formats=[image.name]) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise ValueError("it is larger than its header says")
            frames = getattr(picture, "n_frames", 1)
            if good:
                picture.load()
                return _attach(data, image.mime, name), text
            smaller, mime = _scaled(picture, image)
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


def _scaled(picture: Picture, image: Image) -> tuple[bytes, str]:
    """Return the picture upright and small enough, as PNG; as JPEG if it was one or PNG would be too large."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    # Lets the JPEG decoder skip detail that would be scaled away.
    picture.draft(None, (GOOD_SIDE, GOOD_SIDE))
    clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    if picture.mode.startswith("I;16"):
        # Converting would clip brightness instead of scaling it.
        scaled = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    else:
        scaled = picture.convert("RGBA" if clear else "RGB")
    scaled.thumbnail((GOOD_SIDE, GOOD_SIDE))
    upright = ImageOps.exif_transpose(scaled)
    if image.mime != "image/jpeg":
        data = _encoded(upright, "PNG")
        if len(data) <= MOST_BYTES:
            return data, "image/png"
    flat = upright
    if clear:
        flat = Pillow.new("RGB", upright.size, "white")
        flat.paste(upright, mask=upright.getchannel("A"))
    return _encoded(flat, "JPEG", quality=85), "image/jpeg"


def _encoded(picture: Picture, form: str, **options: Any) -> bytes:
    out = BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()
