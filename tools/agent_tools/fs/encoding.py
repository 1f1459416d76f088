"""Decode files and encode them back to the very same bytes: encoding, byte order mark, line ends.

A file is decoded only if encoding the text again gives the same bytes; everything else counts as binary. Line ends are
part of the text and never changed here. The encoding of bytes that are not UTF-8 and have no mark is guessed.
"""

from __future__ import annotations

import codecs
import re

from agent_tools.record import Value
from agent_tools.results import ToolError

_SAMPLE_BYTES = 65_536
_KANA = "".join(map(chr, range(0x3041, 0x30FD)))
_KOREAN = "이다는을의가에한고도하지로은를기사어서자시나인대리그일수정아보제해부전스과주만있"
_SIMPLIFIED = "的一是不了在有人我他这个们中来上大为和国地到以说时要就出会可也你对生能而子用文件数据"
_TRADITIONAL = "的一是不了在有人我他這個們中來上大為和國地到以說時要就出會可也你對生能而子用文件數據"
_RUSSIAN = "оеаинтсрвлкмдпуязьыбгчй"
# For each encoding: frequent characters, and their minimum share of all non-ASCII characters.
_FREQUENT_CHARS = (
    ("cp932", _KANA, 0.25),
    ("euc_jp", _KANA, 0.25),
    ("cp949", _KOREAN, 0.25),
    ("gb18030", _SIMPLIFIED, 0.08),
    ("big5", _TRADITIONAL, 0.08),
    ("cp1251", _RUSSIAN, 0.6),
    ("koi8-r", _RUSSIAN, 0.6),
)
# A single non-ASCII letter between ASCII ones, as in Western European words and never in Cyrillic ones.
_SINGLE_LETTER = rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])"
# Runs of non-ASCII letters, and those in a word with ASCII letters, which Cyrillic text does not have.
_HIGH_RUN = rb"[\x80-\xff]+"
_MIXED_WORD = rb"[A-Za-z][\x80-\xff]+|[\x80-\xff]+(?=[A-Za-z])"


def guess_encoding(data: bytes) -> str:
    """Guess the encoding of `data`, which has non-ASCII bytes; return "" for Western European."""
    head = data[:_SAMPLE_BYTES]
    high = len(head) - len(head.translate(None, bytes(range(128, 256))))
    alone = len(re.findall(_SINGLE_LETTER, head))
    mixed = len(re.findall(_MIXED_WORD, head)) > 0.3 * len(re.findall(_HIGH_RUN, head))
    best, most = "", 1.0
    for encoding, signs, least in _FREQUENT_CHARS:
        if signs is _RUSSIAN and (mixed or alone > high * 0.2):
            continue
        beyond = [c for c in _decode_start(head, encoding) if c > "\x7f"]
        found = [c for c in beyond if c in signs]
        if len(set(found)) >= 3 and (weight := len(found) / len(beyond) / least) > most:
            best, most = encoding, weight
    return best or ("gb18030" if _looks_like_gb2312(head) else "")


def unmarked_utf16(data: bytes) -> str:
    """Return "utf-16-le" or "utf-16-be" if `data`, which has zero bytes, looks like it without a mark; else ""."""
    from unicodedata import category

    head = data[:4096]
    halves = {"utf-16-le": (head[1::2], head[::2]), "utf-16-be": (head[::2], head[1::2])}
    for encoding, (upper, lower) in halves.items():
        text = _decode_start(head, encoding)
        mostly_ascii = upper.count(0) > len(upper) * 0.7 and lower.count(0) == 0
        # Without ASCII, require some length and a space: binary data may happen to be letters.
        if not mostly_ascii and (len(text) < 20 or not any(c in " \n\u3000" for c in text)):
            continue
        if text and all(c in "\t\r\n\f" or category(c)[0] != "C" for c in text):
            return encoding
    return ""


def _decode_start(head: bytes, encoding: str) -> str:
    """Decode the beginning of a file, whose last character may be cut off; return "" if it cannot be in `encoding`."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return ""


def _looks_like_gb2312(head: bytes) -> bool:
    """Return True if all non-ASCII bytes form various pairs that are common characters of GB 2312."""
    runs = re.findall(rb"[\x80-\xff]+", head[:-1])
    if any(len(run) % 2 for run in runs[:-1]):
        return False
    pairs = [run[n : n + 2] for run in runs for n in range(0, len(run) - 1, 2)]
    common = [pair for pair in pairs if 0xB0 <= pair[0] <= 0xD7 and pair[1] >= 0xA1]
    return len(set(common)) >= 3 and len(common) >= 0.8 * len(pairs)


# UTF-32 before UTF-16: its little-endian mark begins with the shorter one.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Control bytes that no text file has: all but tab, line ends, form feed, backspace and escape.
CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\r\f\b\x1b")
MAGIC_NAMES = {
    b"\x89PNG": "a PNG image", b"\xff\xd8\xff": "a JPEG image", b"GIF8": "a GIF image", b"%PDF": "a PDF",
    b"II*\0": "a TIFF image", b"MM\0*": "a TIFF image", b"\0\0\1\0": "an icon",
    b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive", b"\x1f\x8b": "gzip data", b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data", b"\x28\xb5\x2f\xfd": "zstd data", b"SQLite format": "a database",
    b"\x7fELF": "a program", b"MZ": "a program", b"\xcf\xfa\xed\xfe": "a program", b"\0asm": "a WebAssembly program",
    b"\xca\xfe\xba\xbe": "a program", b"wOFF": "a font", b"wOF2": "a font", b"OggS": "audio or video",
    b"fLaC": "audio", b"ID3": "audio",
}  # fmt: skip


class TextFile(Value):
    """A decoded file. content: without the byte order mark. encoding, mark: for encoding it again."""

    content: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, content: str) -> bytes:
        """Encode `content` in this file's encoding. Raises ToolError naming the first character that it lacks."""
        try:
            return self.mark + content.encode(self.encoding)
        except UnicodeEncodeError as error:
            where = content.count("\n", 0, error.start) + 1
            raise ToolError(
                f"The character {content[error.start]!r} (line {where}) cannot be written in the file's encoding "
                f"({self.encoding}). Use characters of that encoding, or convert the file first."
            ) from None


def fingerprint(data: bytes) -> str:
    """Return a short hash of a file's bytes, to detect changes since it was read."""
    # Slow to load, and not needed by a run that touches no file.
    from hashlib import blake2b

    return blake2b(data, digest_size=16).hexdigest()


def decode_text(data: bytes) -> TextFile | None:
    """Decode `data` as UTF-8, UTF-16, UTF-32 or one of the older encodings; return None if it is binary."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decode_exactly(data, encoding, mark)
    if b"\0" in data:
        wide = unmarked_utf16(data)
        text = _decode_exactly(data, wide) if wide and len(data) % 2 == 0 else None
        return text if text is not None and "\0" not in text.content else None
    if (text := _decode_exactly(data, "utf-8")) is not None:
        return text
    if looks_binary(data):
        return None
    if (older := guess_encoding(data)) and (text := _decode_exactly(data, older)) is not None:
        return text
    # Bytes 0x80-0x9f are typographic quotes in cp1252 and control characters in latin-1.
    return _decode_exactly(data, "cp1252") or _decode_exactly(data, "latin-1")


def looks_binary(data: bytes) -> bool:
    """Return True if there are bytes that no text in a one-byte encoding has."""
    return len(data.translate(None, CONTROL_BYTES)) < len(data)


def _decode_exactly(data: bytes, encoding: str, mark: bytes = b"") -> TextFile | None:
    try:
        content = data[len(mark) :].decode(encoding)
        return TextFile(content, encoding, mark) if mark + content.encode(encoding) == data else None
    except UnicodeError:
        return None


def describe_binary(data: bytes) -> str:
    """Describe binary data by its first bytes: "a PNG image", "binary data"."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "a WebP image"
    if data[4:8] == b"ftyp":
        return "a HEIC or AVIF image" if data[8:11] in (b"hei", b"avi", b"mif") else "audio or video"
    return next((name for magic, name in MAGIC_NAMES.items() if data.startswith(magic)), "binary data")


def line_end(text: str) -> str:
    """Return the line end of most lines of `text`; "\\n" if there is none."""
    pairs = text.count("\r\n")
    return "\r\n" if pairs and pairs * 2 >= text.count("\n") else "\n"


def split_lines(text: str) -> list[str]:
    """Split `text` into lines with their ends. Only "\\n" ends a line, as in grep and editors' line numbers."""
    lines = text.split("\n")
    last = lines.pop()
    ended = [line + "\n" for line in lines]
    return [*ended, last] if last else ended


def count_lines(text: str) -> int:
    """Return how many lines `split_lines` would return."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))
