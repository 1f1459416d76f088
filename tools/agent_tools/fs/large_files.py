"""Read some lines of a file that is too large to load, piece by piece in bounded memory."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from agent_tools.cancel import CancelToken
from agent_tools.fs.encoding import MARKS, guess, kind_of, looks_binary, unmarked_utf16
from agent_tools.fs.files import UnusableFileError, open_file, problem
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import LINE, cut_line

PIECE = 1_000_000
# About a minute of reading; lines further into a file are left to tools made for that.
FURTHEST = 20_000_000_000


class FileWindow(Value):
    """Some lines of a file.

    lines: without their ends; long ones are truncated.
    passed: number of lines before them; fewer than requested if the file ends earlier.
    more: something follows them.
    """

    lines: tuple[str, ...]
    passed: int
    more: bool
    size: int
    encoding: str


def read_window(path: Path, name: str, first: int, limit: int, characters: int, cancel: CancelToken) -> FileWindow:
    """Read at most `limit` lines from line `first`, which counts from 1, of about `characters` in all.

    Raises ToolError if it is no regular file or no text, CancelledError when the turn is interrupted.
    """
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        head = os.read(descriptor, 65_536)
        mark, encoding = _encoding_of(head)
        if not encoding:
            raise ToolError(f"{name} is {kind_of(head)} ({size:,} bytes), which Read cannot show.")
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        collector = _Collector(first, limit, characters)
        piece, come = head[len(mark) :], len(head)
        while piece and not collector.feed(decoder.decode(piece)):
            cancel.check()
            if come > FURTHEST:
                said = f"{name} has {size:,} bytes, and line {first} is too far into it."
                raise UnusableFileError(said, "Bash", "Use {} with tail.")
            piece = os.read(descriptor, PIECE)
            come += len(piece)
        return collector.window(size, encoding)
    except OSError as error:
        raise problem(path, error) from None
    finally:
        os.close(descriptor)


def _encoding_of(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and encoding of a file that begins with `head`; encoding "" for binary."""
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return mark, encoding
    if b"\0" in head:
        return b"", unmarked_utf16(head)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return b"", "utf-8"
    except UnicodeDecodeError:
        return b"", "" if looks_binary(head) else guess(head) or "cp1252"


class _Collector:
    """Collects the beginnings of the requested lines from a text that arrives in pieces."""

    def __init__(self, first: int, limit: int, characters: int) -> None:
        self._first = first
        self._limit = limit
        self._left = characters
        self._lines: list[str] = []
        self._passed = 0
        self._begun = ""
        self._length = 0
        self._more = False

    def feed(self, text: str) -> bool:
        """Add the next piece; return True when all requested lines are complete."""
        at = 0
        if (missing := self._first - 1 - self._passed) > 0:
            if (count := text.count("\n")) < missing:
                self._passed += count
                return False
            for _ in range(missing):
                at = text.index("\n", at) + 1
            self._passed = self._first - 1
        while at < len(text):
            if len(self._lines) >= self._limit or self._left <= 0:
                self._more = True
                return True
            end = text.find("\n", at)
            self._take(text, at, len(text) if end < 0 else end)
            if end < 0:
                break
            self._end_line()
            at = end + 1
        return False

    def _take(self, text: str, start: int, end: int) -> None:
        room = LINE + 1 - len(self._begun)
        self._begun += text[start : min(end, start + room)] if room > 0 else ""
        self._length += end - start

    def _end_line(self) -> None:
        whole = self._length == len(self._begun)
        line = cut_line(self._begun.rstrip("\r") if whole else self._begun, LINE, 0 if whole else self._length)
        self._left -= len(line) + 8
        self._lines.append(line)
        self._begun, self._length = "", 0

    def window(self, size: int, encoding: str) -> FileWindow:
        """Return the collected lines, once the text ended or `feed` returned True."""
        if self._length:
            self._end_line()
        return FileWindow(tuple(self._lines), self._passed, self._more, size, encoding)
