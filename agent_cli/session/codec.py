"""The lines of a log: how a record is sealed, and how good records are found again in a file that was damaged.

A record is one line of ASCII JSON with the CRC-32 of the rest as its last key. What a line holds is found out in two
steps: almost all lines are one good record; where one is not, the good records inside it are looked for (two that were
joined, one behind a block of NULs, lines parted by something else than a line feed), and the rest is a damaged piece.

A damaged log written anew: its good records as they are, in their order; the file as it was is kept beside it.
"""

from __future__ import annotations

import io
import json
import os
import re
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from agent_cli.session.permissions import fresh_copy, kept_copies, sync_folder
from agent_tools.fs.safe_read import open_stream, read_regular

VERSION = 1
# Bytes of a log: no conversation comes near that, and what is not one may be endless.
LARGEST = 1 << 30
# Written by `SessionLog` in this order; `data` is the last key before `crc`. Patterns are made when a log is read.
_HEAD = rb'\{"v":(\d+),"seq":(\d+),"id":"([^"\\]*)","parent":"([^"\\]*)","type":"(\w+)","time":"([^"\\]*)","data":'
_BEGINS = rb'\{"v":\d+,"seq":\d+,"id":"'
_ENDS = rb',"crc":\d{1,10}\}'
# What other programs end a line with, in UTF-8, and the mark that some put before the first.
_FOREIGN = rb"(?:\s|[\x1c-\x1f]|\xe2\x80[\xa8\xa9]|\xc2\x85|\xef\xbb\xbf)+"
_TRIES = 8


class LogLine:
    """A good record: its fields, and its bytes without the line feed. `data` is read when it is asked for."""

    __slots__ = ("_body", "_start", "id", "parent", "raw", "seq", "time", "type", "version")

    def __init__(self, raw: bytes, body: bytes, head: re.Match[bytes]) -> None:
        version, seq, identity, parent, kind, time = head.groups()
        self.raw = raw
        self.version, self.seq = int(version), int(seq)
        self.id, self.parent, self.type, self.time = (f.decode("ascii") for f in (identity, parent, kind, time))
        self._body, self._start = body, head.end()

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._body[self._start :])
        return data


def encode_record(record: dict[str, Any], redact: Callable[[str], str] = str) -> bytes:
    """The record as one line without its line feed and without secrets, with `crc` as its last key."""
    body = redact(json.dumps(record, separators=(",", ":"))).encode("ascii")
    return body[:-1] + b',"crc":%d}' % crc32(body)


def decode_record(line: bytes) -> dict[str, Any] | None:
    """The record that a line holds, or None where it is damaged."""
    body = _whole(line)
    if body is None:
        return None
    record: dict[str, Any] = json.loads(body + b"}")
    return record


def _whole(line: bytes) -> bytes | None:
    """The line up to its checksum, where that fits."""
    body, found, tail = line.rpartition(b',"crc":')
    digits = tail[:-1]
    fits = found and tail[-1:] == b"}" and digits.isdigit() and len(digits) < 11
    return body if fits and crc32(b"}", crc32(body)) == int(digits) else None


def _good(raw: bytes) -> LogLine | None:
    body = _whole(raw)
    head = re.match(_HEAD, body) if body is not None else None
    return LogLine(raw, body, head) if body is not None and head else None


def read_log(path: Path) -> bytes:
    """A whole log. Raises OSError, also for what is no regular file or larger than any log is."""
    return read_regular(path, LARGEST)


def open_log(path: Path) -> BinaryIO:
    """A log, open for reading. Raises as `read_log`."""
    return open_stream(path, LARGEST)


def read(source: Iterable[bytes]) -> Iterator[LogLine | None]:
    """The good records of a log's lines (a file, opened binary), in their order; None for each damaged piece."""
    for ended in source:
        raw = ended.rstrip(b"\r\n")
        line = _good(raw)
        if line is not None:
            yield line
        elif raw:
            yield from _salvaged(raw)


def read_bytes(data: bytes) -> Iterator[LogLine | None]:
    """The same for a log in memory."""
    return read(io.BytesIO(data))


def _salvaged(raw: bytes) -> Iterator[LogLine | None]:
    """What a line holds that is not just one good record."""
    starts = [m.start() for m in re.finditer(_BEGINS, raw)]
    if not _is_foreign(raw[: starts[0]] if starts else raw):
        yield None
    for start, end in zip(starts, [*starts[1:], len(raw)], strict=False):
        piece = raw[start:end]
        line = None
        rest = b""
        for found in list(re.finditer(_ENDS, piece))[: -_TRIES - 1 : -1]:
            if (line := _good(piece[: found.end()])) is not None:
                rest = piece[found.end() :]
                break
        yield line
        # A single byte is a line feed that was changed: nothing is missing for it.
        if line is not None and len(rest) > 1 and not _is_foreign(rest):
            yield None


def _is_foreign(piece: bytes) -> bool:
    """Whether a piece is nothing but ends of lines as others write them."""
    return not piece or re.fullmatch(_FOREIGN, piece) is not None


def in_order(found: list[LogLine | None]) -> list[LogLine]:
    """The records, each once, by their number; what has the same number stays as it came."""
    once: dict[str, LogLine] = {}
    for line in found:
        if line is not None:
            once.setdefault(line.id, line)
    return sorted(once.values(), key=lambda line: line.seq)


def mend(log: Path) -> tuple[str, int]:
    """Put a log of good records in place of a damaged one, which the caller holds locked.

    Returns the name of the copy of what was there, and a descriptor of the new file, locked as the old one is.
    Raises OSError, with everything as it was.
    """
    fresh = fresh_copy(log)
    with suppress(FileNotFoundError):
        fresh.unlink()
    fd = _make(fresh)
    try:
        with open_log(log) as source, os.fdopen(os.dup(fd), "wb") as target:
            for line in in_order(list(read(source))):
                target.write(line.raw + b"\n")
        os.fsync(fd)
        _lock(fd)
        kept = _keep(log)
        os.rename(fresh, log)  # noqa: PTH104 - one name for what tests of crashes stop at
    except OSError:
        os.close(fd)
        with suppress(OSError):
            fresh.unlink()
        raise
    sync_folder(log.parent)
    return kept.name, fd


def _keep(log: Path) -> Path:
    names = kept_copies(log)
    kept = next((name for name in names if not os.path.lexists(name)), names[-1])
    with suppress(FileNotFoundError):
        kept.unlink()
    try:
        os.link(log, kept)
    except OSError:
        # A file system without links.
        with open_log(log) as source, os.fdopen(_make(kept), "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    return kept


def _make(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _lock(fd: int) -> None:
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
