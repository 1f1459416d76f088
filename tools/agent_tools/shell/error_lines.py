"""Find the lines of a long output that look like errors, for the part of it that is not shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agent_tools.fs.safe_files import NotRegularFileError, open_regular
from agent_tools.lazy import lazy_pattern
from agent_tools.text import cut_around, cut_line, numbered_line, sanitize_output, size_of

_CHUNK_BYTES = 1 << 20
# Of a longer part, only this much of its beginning and of its end is searched.
_MAX_SEARCHED_BYTES = 8 << 20
_MAX_LINE_CHARS = 200
# Different lines of each end.
_MAX_LINES = 50
# Each line that fits the pattern has one of these words, which are found much faster.
_WORDS = (
    *(
        b"rror",
        b"RROR",
        b"xception",
        b"anic",
        b"atal",
        b"FATAL",
        b"FAIL",
        b"not ok",
        b"E  ",
        b"Traceback",
        b"undefined ref",
    ),
    *(b"egmentation", b"not found", b"No such", b"denied", b"ssertion", b"dumped", b"Killed", b"\xe2\x9c"),
)
_NAMES_TEST = lazy_pattern(rb"^\s*(?:-+ )?(?:FAILED|FAIL|ERROR|not ok)\b")
# The program's source in a traceback, and what a test runner adds to an error.
_SOURCE = lazy_pattern(rb"^\s*(?:except|raise|class|import|from|catch|throw|def|with|assert)\b|^E\s+\+ |^\s*#")
# Of test runners, compilers, interpreters and tools; "0 errors" and an option such as -Werror are none.
_ERROR = lazy_pattern(
    rb"^E {2,}\S|^\s*(?:-+ )?(?:FAILED|FAIL|not ok|panic|fatal|FATAL)\b|^\s*\xe2\x9c[\x95\x97]|^Traceback"
    rb"|\b[A-Z]\w*(?:Error|Exception)\b|(?<![-\w.])(?:error|Error|ERROR)\b(?:\[\w+\]|\s+\w+\d+)?:|^\s*ERROR\b"
    rb"|\bundefined reference|\b[Ss]egmentation fault|[Cc]ommand not found|: not found$|No such file"
    rb"|[Pp]ermission denied|[Aa]ssertion failed|panicked at|core dumped|\bKilled\b"
)


def describe_error_lines(path: Path, start: int, end: int, most: int) -> str:
    """Return lines of a part of a file that look like errors, under a heading; "" if there are none.

    They are the first and the last different ones, with their numbers in the file, of at most `most` bytes. Lines that
    differ only in numbers are shown once, unless they name a test. Returns "" if the file is gone.

    start, end: the part, in bytes.
    """
    try:
        count, shown = _find(path, start, end, most)
    except (OSError, NotRegularFileError):
        return ""
    of_all = f", {len(shown)} of {count:,}" if count > len(shown) else ""
    return "\n".join((f"[Lines of this part that look like errors{of_all}:]", *shown)) if shown else ""


def _find(path: Path, start: int, end: int, most: int) -> tuple[int, list[str]]:
    shapes: dict[str, tuple[int, str]] = {}
    count = 0
    for number, raw in _candidates(path, start, end):
        if (error := _ERROR.search(raw)) and not _SOURCE.search(raw):
            count += 1
            line = _shown(raw, error.start())
            shape = line if _NAMES_TEST.search(raw) else re.sub(r"0x[0-9a-f]+|\d+", "#", line)
            if shape not in shapes:
                if len(shapes) == 2 * _MAX_LINES:
                    del shapes[list(shapes)[_MAX_LINES]]
                shapes[shape] = number, line
    return count, _fitting([numbered_line(*found) for found in shapes.values()], most)


def _shown(raw: bytes, error: int) -> str:
    """Return a line, or the text around the error in a long one."""
    before = len(raw[:error].decode("utf-8", "replace"))
    if before < _MAX_LINE_CHARS // 2:
        return cut_line(sanitize_output(raw[: 4 * _MAX_LINE_CHARS].decode("utf-8", "replace")), _MAX_LINE_CHARS)
    line = raw.decode("utf-8", "replace")
    whole = len(line) <= _MAX_LINE_CHARS
    return sanitize_output(line if whole else cut_around(line, before, before, _MAX_LINE_CHARS // 2))


def _candidates(path: Path, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a part of a file that have one of the words, with their numbers."""
    number, at = 1, 0
    with os.fdopen(open_regular(path), "rb") as file:
        while at < end and (chunk := file.read(_CHUNK_BYTES)):
            chunk += file.readline(_CHUNK_BYTES)
            if at + len(chunk) > start and not start + _MAX_SEARCHED_BYTES < at < end - _MAX_SEARCHED_BYTES:
                counted_to, lines = 0, number
                for line in _lines_with_words(chunk):
                    lines += chunk.count(b"\n", counted_to, line)
                    counted_to = line
                    if start <= at + line < end:
                        stop = chunk.find(b"\n", line)
                        yield lines, chunk[line : stop if stop >= 0 else len(chunk)]
            number += chunk.count(b"\n")
            at += len(chunk)


def _lines_with_words(chunk: bytes) -> list[int]:
    """Return where the lines begin that have one of the words."""
    found = set()
    for word in _WORDS:
        at = chunk.find(word)
        while at >= 0:
            found.add(chunk.rfind(b"\n", 0, at) + 1)
            end = chunk.find(b"\n", at)
            at = chunk.find(word, end) if end >= 0 else -1
    return sorted(found)


def _fitting(lines: list[str], most: int) -> list[str]:
    """Return the first and the last of the lines, as many as fit."""
    head: list[str] = []
    tail: list[str] = []
    while lines:
        from_head = len(head) <= len(tail)
        line = lines.pop(0 if from_head else -1)
        most -= size_of(line) + 1
        if most < 0:
            break
        if from_head:
            head.append(line)
        else:
            tail.insert(0, line)
    return [*head, *tail]
