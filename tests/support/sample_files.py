"""Small files of other kinds than text, made by hand: PNG images, PDF documents, notebooks."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any


def png(width: int, height: int, says: tuple[int, int] | None = None) -> bytes:
    """A black image. says: another size, which its header claims to have."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", *(says or (width, height)), 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" * (width + 1)) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pdf(*pages: str | bytes) -> bytes:
    """A document of pages with a line of text each; bytes are a page's own drawing commands, and "" leaves it empty."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for n, page in enumerate(pages):
        drawn = page if isinstance(page, bytes) else f"BT /F1 12 Tf 10 200 Td ({page}) Tj ET".encode() if page else b""
        resources = "/Resources<</Font<</F1 3 0 R>>>>/MediaBox[0 0 300 300]"
        objects.append(f"<</Type/Page/Parent 2 0 R/Contents {5 + 2 * n} 0 R{resources}>>".encode())
        packed = zlib.compress(drawn)
        objects.append(b"<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream" % (len(packed), packed))
    out, offsets = b"%PDF-1.4\n", []
    for n, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + end


def code(source: str = "", *outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A code cell as Jupyter writes it, with sorted keys."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": list(outputs), **more}
    return dict(sorted({**cell, "source": source.splitlines(keepends=True)}.items()))


def markdown(source: str = "", **more: Any) -> dict[str, Any]:
    """A markdown cell, likewise."""
    cell = {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True), **more}
    return dict(sorted(cell.items()))


def notebook(*cells: dict[str, Any], minor: int = 5, indent: int | str | None = 1) -> str:
    """A notebook's text as Jupyter writes it."""
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    data = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(data, indent=indent, ensure_ascii=False) + "\n"


def picture(width: int = 2, height: int = 2) -> bytes:
    """A small picture that every reader takes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x10\x80\xf0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
