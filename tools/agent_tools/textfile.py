"""Bytes and text: which encoding a file has, how its lines end, and back to the very same bytes.

A file is decoded only where encoding the text again gives the bytes it came from; everything else counts as binary.
Line ends are part of the text and never touched here: whoever changes text decides about them.
"""

from __future__ import annotations

import codecs

from agent_tools.base import ToolError
from agent_tools.guessing import guess, unmarked_utf16
from agent_tools.values import Value

# UTF-32 before UTF-16: its little-endian mark begins with the shorter one.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Control bytes that no text file has, except tab, line ends, form feed, backspace and escape.
CONTROLS = bytes(b for b in range(32) if b not in b"\t\n\r\f\b\x1b")
NAMES = {
    b"\x89PNG": "a PNG image", b"\xff\xd8\xff": "a JPEG image", b"GIF8": "a GIF image", b"%PDF": "a PDF",
    b"II*\0": "a TIFF image", b"MM\0*": "a TIFF image", b"\0\0\1\0": "an icon",
    b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive", b"\x1f\x8b": "gzip data", b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data", b"\x28\xb5\x2f\xfd": "zstd data", b"SQLite format": "a database",
    b"\x7fELF": "a program", b"MZ": "a program", b"\xcf\xfa\xed\xfe": "a program", b"\0asm": "a WebAssembly program",
    b"\xca\xfe\xba\xbe": "a program", b"wOFF": "a font", b"wOF2": "a font", b"OggS": "audio or video",
    b"fLaC": "audio", b"ID3": "audio",
}  # fmt: skip


class TextFile(Value):
    """A decoded file: its characters without the byte order mark, and what it takes to encode them again."""

    content: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, content: str) -> bytes:
        """`content` as bytes in this file's encoding. Raises ToolError naming the first character it lacks."""
        try:
            return self.mark + content.encode(self.encoding)
        except UnicodeEncodeError as error:
            where = content.count("\n", 0, error.start) + 1
            raise ToolError(
                f"The character {content[error.start]!r} (line {where}) cannot be written in the file's encoding "
                f"({self.encoding}). Use characters of that encoding, or convert the file first."
            ) from None


def fingerprint(data: bytes) -> str:
    """A short hash that tells whether a file's bytes are the ones that were read."""
    # Not needed by a run that touches no file, and it takes longer to load than all of this package's values.
    from hashlib import blake2b

    return blake2b(data, digest_size=16).hexdigest()


def decode_text(data: bytes) -> TextFile | None:
    """The text in `data`, or None where it is binary: UTF-8, UTF-16 and -32, else one of the older encodings."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _attempt(data, encoding, mark)
    if b"\0" in data:
        wide = unmarked_utf16(data)
        text = _attempt(data, wide) if wide and len(data) % 2 == 0 else None
        return text if text is not None and "\0" not in text.content else None
    if (text := _attempt(data, "utf-8")) is not None:
        return text
    if looks_binary(data):
        return None
    if (older := guess(data)) and (text := _attempt(data, older)) is not None:
        return text
    # Bytes 0x80-0x9f are typographic quotes in the one and control characters in the other.
    return _attempt(data, "cp1252") or _attempt(data, "latin-1")


def looks_binary(data: bytes) -> bool:
    """Whether there are bytes that no text in a one-byte encoding has."""
    return len(data.translate(None, CONTROLS)) < len(data)


def _attempt(data: bytes, encoding: str, mark: bytes = b"") -> TextFile | None:
    try:
        content = data[len(mark) :].decode(encoding)
        return TextFile(content, encoding, mark) if mark + content.encode(encoding) == data else None
    except UnicodeError:
        return None


def kind_of(data: bytes) -> str:
    """What binary data seems to be, in words: "a PNG image", "binary data"."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "a WebP image"
    if data[4:8] == b"ftyp":
        return "a HEIC or AVIF image" if data[8:11] in (b"hei", b"avi", b"mif") else "audio or video"
    return next((name for magic, name in NAMES.items() if data.startswith(magic)), "binary data")


def line_end(text: str) -> str:
    """The line end that most lines of `text` have; "\\n" where there is none."""
    pairs = text.count("\r\n")
    return "\r\n" if pairs and pairs * 2 >= text.count("\n") else "\n"


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends. Only "\\n" ends a line, as for grep and editors' line numbers."""
    lines = text.split("\n")
    last = lines.pop()
    kept = [line + "\n" for line in lines]
    return [*kept, last] if last else kept
