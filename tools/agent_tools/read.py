"""The Read tool: part of a text file with line numbers; images, PDFs and notebooks in a form for the model.

A file that is too large to load is read in chunks, in bounded memory.
"""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.documents.notebook import parse_notebook, show_notebook
from agent_tools.fs import read_state
from agent_tools.fs.encoding import (
    BYTE_ORDER_MARKS,
    TextFile,
    decode_text,
    describe_binary,
    guess_encoding,
    line_end,
    looks_binary,
    split_lines,
    unmarked_utf16,
)
from agent_tools.fs.files import UnusableFileError, lstat_resolved, open_file, os_error
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.fs.workspace import MAX_FILE_BYTES
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import FileView, Note
from agent_tools.schema import FILE_NAMES
from agent_tools.text import MAX_LINE_CHARS, counted, cut_line, fit, numbered_line

with lazy_imports():
    from agent_tools.documents import images, pdf
    from agent_tools.search import ls

CHUNK_BYTES = 1_000_000
# About a minute of reading; beyond it, the error suggests other tools.
MAX_OFFSET_BYTES = 20_000_000_000


class FileWindow(Value):
    """Some lines of a file.

    lines: without their ends; long ones are truncated.
    skipped: number of lines before them; fewer than requested if the file ends earlier.
    more: more lines follow.
    """

    lines: tuple[str, ...]
    skipped: int
    more: bool
    size: int
    encoding: str


def read_window(path: Path, name: str, first: int, limit: int, characters: int, cancel: CancelToken) -> FileWindow:
    """Read at most `limit` lines from line `first`, which counts from 1, of about `characters` in all.

    Raises ToolError if it is not a regular text file, CancelledError when the turn is interrupted.
    """
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        head = os.read(descriptor, 65_536)
        mark, encoding = _detect_encoding(head)
        if not encoding:
            raise ToolError(f"{name} is {describe_binary(head)} ({size:,} bytes), which Read cannot show.")
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        collector = _Collector(first, limit, characters)
        piece, bytes_read = head[len(mark) :], len(head)
        while piece and not collector.feed(decoder.decode(piece)):
            cancel.check()
            if bytes_read > MAX_OFFSET_BYTES:
                text = f"{name} has {size:,} bytes, and line {first} is too far into it."
                raise UnusableFileError(text, "Bash", "Use {} with tail.")
            piece = os.read(descriptor, CHUNK_BYTES)
            bytes_read += len(piece)
        return collector.window(size, encoding)
    except OSError as error:
        raise os_error(path, error) from None
    finally:
        os.close(descriptor)


def _detect_encoding(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and encoding of a file that begins with `head`; encoding "" for binary."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return mark, encoding
    if b"\0" in head:
        return b"", unmarked_utf16(head)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return b"", "utf-8"
    except UnicodeDecodeError:
        return b"", "" if looks_binary(head) else guess_encoding(head) or "cp1252"


class _Collector:
    """Collects the beginnings of the requested lines from a text that arrives in pieces."""

    def __init__(self, first: int, limit: int, characters: int) -> None:
        self._first = first
        self._limit = limit
        self._left = characters
        self._lines: list[str] = []
        self._skipped = 0
        self._line = ""
        self._length = 0
        self._more = False

    def feed(self, text: str) -> bool:
        """Add the next piece; return True when all requested lines are complete."""
        at = 0
        if (missing := self._first - 1 - self._skipped) > 0:
            if (count := text.count("\n")) < missing:
                self._skipped += count
                return False
            for _ in range(missing):
                at = text.index("\n", at) + 1
            self._skipped = self._first - 1
        while at < len(text):
            if len(self._lines) >= self._limit or self._left <= 0:
                self._more = True
                return True
            end = text.find("\n", at)
            self._add(text, at, len(text) if end < 0 else end)
            if end < 0:
                break
            self._end_line()
            at = end + 1
        return False

    def _add(self, text: str, start: int, end: int) -> None:
        room = MAX_LINE_CHARS + 1 - len(self._line)
        self._line += text[start : min(end, start + room)] if room > 0 else ""
        self._length += end - start

    def _end_line(self) -> None:
        whole = self._length == len(self._line)
        line = cut_line(self._line.rstrip("\r") if whole else self._line, MAX_LINE_CHARS, 0 if whole else self._length)
        self._left -= len(line) + 8
        self._lines.append(line)
        self._line, self._length = "", 0

    def window(self, size: int, encoding: str) -> FileWindow:
        """Return the collected lines, once the text ended or `feed` returned True."""
        if self._length:
            self._end_line()
        return FileWindow(tuple(self._lines), self._skipped, self._more, size, encoding)


DEFAULT_LINES = 2_000


class ReadArgs(Value):
    """The arguments of Read."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES}

    file_path: Annotated[str, "Absolute or relative path"]
    offset: Annotated[int | None, "First line to read, from 1 (PDF: page)"] = None
    limit: Annotated[int | None, "Number of lines (default 2000; PDF: pages, 20)"] = None


class Read(Tool[ReadArgs]):
    """Reads a file: text in any usual encoding, images, PDFs and notebooks."""

    name = "Read"
    Args = ReadArgs
    small_arguments = ("file_path", "offset", "limit")
    paths = ("file_path",)
    example: ClassVar = {"file_path": "README.md"}
    file_argument = "file_path"
    explores = "read"
    shows_file = True
    reopens = True
    result_size = "page"
    repeatable = True
    rule_names = "path"
    rule_covers = ("read",)
    parallel_safe = True

    def effects(self, args: ReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.file_path))),)

    def summary(self, args: ReadArgs, ctx: ToolContext) -> str:
        unit = "page" if args.file_path.lower().endswith(".pdf") else "line"
        part = f" from {unit} {args.offset}" if args.offset and args.offset > 1 else ""
        return f"Read {display_path(args.file_path, ctx)}{part}"

    def run(self, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        first, limit = (
            (1 if args.offset is None else args.offset),
            (DEFAULT_LINES if args.limit is None else args.limit),
        )
        if first < 0 or limit < 1:
            raise ToolError("offset counts lines from 1, and limit must be at least 1.")
        first = max(first, 1)
        path = ctx.workspace.resolve(args.file_path)
        if ctx.small_model and path.is_dir():  # it has no LS tool
            return ls.LS().run(ls.LSArgs(args.file_path), ctx)
        if _is_large(path):
            return _show_large(path, first, limit, ctx)
        data = ctx.workspace.read_if_there(path)
        if data is None:
            raise not_found_error(path, ctx)
        name = ctx.workspace.spell(path)
        if data.startswith(b"%PDF-"):
            return pdf.show_pdf(data, name, args.offset, args.limit, ctx)
        text = decode_text(data)
        if text is None:
            return _show_binary(data, name, ctx)
        return _show_text(text, data, path, first, limit, ctx)


def _show_text(text: TextFile, data: bytes, path: Path, first: int, limit: int, ctx: ToolContext) -> ToolResult:
    """Show a notebook as cells, any other text as lines."""
    name, note = ctx.workspace.spell(path), ""
    if path.suffix.lower() == ".ipynb" and text.content.strip():
        try:
            notebook = parse_notebook(text.content, name)
        except ToolError as error:
            note = f"{str(error).rstrip('.')}: shown as text"
        else:
            result = show_notebook(notebook, name, ctx.workspace.show(path), ctx, first, limit)
            if isinstance(result.display, FileView):
                view = result.display
                read_state.note_view(path, data, ctx, view.first, view.lines, view.total)
            return result
    result, lines = _show_lines(text, path, first, limit, note, ctx)
    read_state.note_read(path, data, ctx, lines)
    return result


def _show_lines(
    text: TextFile, path: Path, first: int, limit: int, note: str, ctx: ToolContext
) -> tuple[ToolResult, read_state.Ranges | None]:
    """Show numbered lines of a file that is loaded. Also return those that are shown in full; None for all."""
    name = ctx.workspace.spell(path)
    lines = split_lines(text.content)
    if first > max(len(lines), 1):
        raise ToolError(f"{name} has only {counted(len(lines), 'line')}; offset {first} is past its end.")
    shown = [
        _shown_line(n, cut_line(line.rstrip(chr(13) + chr(10))), ctx)
        for n, line in enumerate(lines[first - 1 : first - 1 + limit], first)
    ]
    count = fit(shown, ctx.result_limits.most("page"))
    last = first - 1 + count
    view = FileView(ctx.workspace.show(path), first, count, len(lines), text.content.endswith("\n"))
    if not lines:
        return ToolResult(f"{name} is empty (0 characters).", view), None
    notes = [note] if note else []
    if first > 1 or last < len(lines):
        notes.append(f"lines {first}-{last} of {len(lines):,}")
    notes += _encoding_notes(text)
    if last < len(lines):
        notes.append(f"continue with offset={last + 1}")
    result = ToolResult("\n".join(shown[:count]) + (f"\n[{'; '.join(notes)}]" if notes else ""), view)
    full = [n for n in range(first, last + 1) if len(lines[n - 1].rstrip("\r\n")) <= MAX_LINE_CHARS]
    return result, None if len(full) == len(lines) else tuple((n, n) for n in full)


def _shown_line(number: int, line: str, ctx: ToolContext) -> str:
    """Return a line with its number; without it for a small model, which would copy it into its edits."""
    return line if ctx.small_model else numbered_line(number, line)


def _is_large(path: Path) -> bool:
    """Return True if a file is too large to load."""
    try:
        return lstat_resolved(path).st_size > MAX_FILE_BYTES
    except OSError:
        return False


def _show_large(path: Path, first: int, limit: int, ctx: ToolContext) -> ToolResult:
    """Show numbered lines of a large file. It does not count as read, since it is too large to edit."""
    name = ctx.workspace.spell(path)
    try:
        window = read_window(path, name, first, limit, ctx.result_limits.most("page"), ctx.cancel)
    except UnusableFileError as error:
        raise ctx.workspace.advised(error) from None
    if not window.lines:
        raise ToolError(f"{name} has fewer than {first:,} lines; offset {first} is past its end.")
    last = first - 1 + len(window.lines)
    notes = [f"lines {first}-{last} of a file of {window.size:,} bytes"]
    if window.encoding != "utf-8":
        notes.append(f"encoding {window.encoding}")
    search = ctx.workspace.advice("Grep", "or {} for what you need")
    hint = f"more follow: continue with offset={last + 1}{',' if search else ''}{search}"
    notes.append(hint if window.more else "the end")
    shown = [numbered_line(n, line) for n, line in enumerate(window.lines, first)]
    return ToolResult("\n".join(shown) + f"\n[{'; '.join(notes)}]", Note(f"lines {first}-{last}"))


def _show_binary(data: bytes, name: str, ctx: ToolContext) -> ToolResult:
    """Show an image, if the model accepts images. Raises ToolError naming the kind of any other file."""
    if (image := images.sniff(data)) is not None:
        return images.read_image(data, image, name, ctx)
    raise ToolError(f"{name} is {describe_binary(data)} ({len(data):,} bytes), which Read cannot show.")


def _encoding_notes(text: TextFile) -> list[str]:
    """Return notes about an unusual encoding or line ends, which the numbered lines do not show."""
    notes = []
    if text.encoding != "utf-8" or text.mark:
        sure = any(text.encoding == encoding for _, encoding in BYTE_ORDER_MARKS)
        how = " with byte order mark" if text.mark else "" if sure else " (a guess from its bytes)"
        notes.append(f"encoding {text.encoding}{how}; edits preserve it")
    if line_end(text.content) == "\r\n":
        notes.append("lines end in CRLF; edits preserve it")
    return notes
