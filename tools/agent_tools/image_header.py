"""What an image's bytes say of themselves: kind, size in pixels, and whether they are all there.

Nothing is decoded: the fields are read where the formats have them (PNG: ISO/IEC 15948, JPEG: ITU-T T.81, GIF89a, WebP:
RFC 9649, TIFF 6.0). Whoever sends an image must know that it is whole, because a provider refuses every later request
of a conversation that holds a broken one.
"""

from __future__ import annotations

from agent_tools.values import Value


class Image(Value):
    """An image as its header describes it. mime: such as image/png. whole: the data runs to the format's end mark."""

    name: str
    mime: str
    width: int
    height: int
    whole: bool = True

    @property
    def size(self) -> str:
        """Width and height in words."""
        return f"{self.width} x {self.height} pixels"


def sniff(data: bytes) -> Image | None:
    """The image that `data` is; None where it is none, or its header is broken."""
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
        # A negative height says that the rows come from the top.
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
    """The frame header, found from segment to segment; a scan must follow it and an end mark that."""
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
    """Width and height from the first directory of tags."""
    number = _little if data.startswith(b"II") else _big
    at = number(data, 4, 4)
    found = {}
    for entry in range(at + 2, at + 2 + number(data, at, 2) * 12, 12):
        tag, kind = number(data, entry, 2), number(data, entry + 2, 2)
        if tag in (256, 257):
            found[tag] = number(data, entry + 8, 2 if kind == 3 else 4)
    return Image("TIFF", "image/tiff", found[256], found[257]) if len(found) == 2 else None
