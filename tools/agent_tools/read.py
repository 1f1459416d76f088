"""The Read tool: part of a text file with line numbers; images, PDFs and notebooks in a form for the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.display import FileView, Note
from agent_tools.documents.images import read_image, sniff
from agent_tools.documents.notebook import parse_notebook, show_notebook
from agent_tools.fs.encoding import MARKS, TextFile, decode_text, fingerprint, kind_of, line_end, split_lines
from agent_tools.fs.files import UnusableFileError, lstat_resolved
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.fs.workspace import LIMIT
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.schema import FILE_NAMES
from agent_tools.text import counted, cut_line, fit

with lazy_imports():
    from agent_tools.documents import pdf
    from agent_tools.fs import large_files
    from agent_tools.search import ls

LINES = 2_000


class ReadArgs(Value):
    """The arguments of Read."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES}

    file_path: Annotated[str, "Absolute path, or relative to the working directory"]
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
        first, limit = (1 if args.offset is None else args.offset), (LINES if args.limit is None else args.limit)
        if first < 0 or limit < 1:
            raise ToolError("offset counts lines from 1, and limit must be at least 1.")
        first = max(first, 1)
        path = ctx.workspace.resolve(args.file_path)
        if ctx.small_model and path.is_dir():  # it has no other tool for that
            return ls.LS().run(ls.LSArgs(args.file_path), ctx)
        if _is_large(path):
            return _part_of_large(path, first, limit, ctx)
        data = ctx.workspace.read_if_there(path)
        if data is None:
            raise not_found_error(path, ctx)
        name = ctx.workspace.spell(path)
        if data.startswith(b"%PDF-"):
            # Imported lazily: every start loads this file, but PDFs and images are rare.
            return pdf.show_pdf(data, name, args.offset, args.limit, ctx)
        text = decode_text(data)
        if text is None:
            return _not_text(data, name, ctx)
        result = _shown(text, path, first, limit, ctx)
        ctx.seen[str(path)] = fingerprint(data)
        return result


def _shown(text: TextFile, path: Path, first: int, limit: int, ctx: ToolContext) -> ToolResult:
    """Show a text as lines, a notebook as cells."""
    name, note = ctx.workspace.spell(path), ""
    if path.suffix.lower() == ".ipynb" and text.content.strip():
        try:
            notebook = parse_notebook(text.content, name)
        except ToolError as error:
            note = f"{str(error).rstrip('.')}: shown as text"
        else:
            return show_notebook(notebook, name, ctx.workspace.show(path), ctx, first, limit)
    return _part_of_text(text, path, first, limit, note, ctx)


def _part_of_text(text: TextFile, path: Path, first: int, limit: int, note: str, ctx: ToolContext) -> ToolResult:
    """Show numbered lines of a file that is loaded."""
    name = ctx.workspace.spell(path)
    lines = split_lines(text.content)
    if first > max(len(lines), 1):
        raise ToolError(f"{name} has only {counted(len(lines), 'line')}; offset {first} is past its end.")
    shown = [
        f"{_number(n, ctx)}{cut_line(line.rstrip(chr(13) + chr(10)))}"
        for n, line in enumerate(lines[first - 1 : first - 1 + limit], first)
    ]
    count = fit(shown, ctx.result_limits.most("page"))
    last = first - 1 + count
    view = FileView(ctx.workspace.show(path), first, count, len(lines))
    if not lines:
        return ToolResult(f"{name} is empty (0 characters).", view)
    notes = [note] if note else []
    if first > 1 or last < len(lines):
        notes.append(f"lines {first}-{last} of {len(lines):,}")
    notes += _nature(text)
    if last < len(lines):
        notes.append(f"continue with offset={last + 1}")
    return ToolResult("\n".join(shown[:count]) + (f"\n[{'; '.join(notes)}]" if notes else ""), view)


def _number(line: int, ctx: ToolContext) -> str:
    """Return the number before a line; none for a small model, which copies it into what it writes."""
    return "" if ctx.small_model else f"{line:>6}\t"


def _is_large(path: Path) -> bool:
    """Return True if a file is too large to load."""
    try:
        return lstat_resolved(path).st_size > LIMIT
    except OSError:
        return False


def _part_of_large(path: Path, first: int, limit: int, ctx: ToolContext) -> ToolResult:
    """Show numbered lines of a file that is not loaded. It does not count as read: it is too large to edit."""
    name = ctx.workspace.spell(path)
    try:
        window = large_files.read_window(path, name, first, limit, ctx.result_limits.most("page"), ctx.cancel)
    except UnusableFileError as error:
        raise ctx.workspace.advised(error) from None
    if not window.lines:
        raise ToolError(f"{name} has fewer than {first:,} lines; offset {first} is past its end.")
    last = first - 1 + len(window.lines)
    notes = [f"lines {first}-{last} of a file of {window.size:,} bytes"]
    if window.encoding != "utf-8":
        notes.append(f"encoding {window.encoding}")
    search = ctx.workspace.advice("Grep", "or {} for what you need")
    go_on = f"more follow: continue with offset={last + 1}{',' if search else ''}{search}"
    notes.append(go_on if window.more else "the end")
    shown = [f"{n:>6}\t{line}" for n, line in enumerate(window.lines, first)]
    return ToolResult("\n".join(shown) + f"\n[{'; '.join(notes)}]", Note(f"lines {first}-{last}"))


def _not_text(data: bytes, name: str, ctx: ToolContext) -> ToolResult:
    """Show an image, if the model accepts images. Raises ToolError for any other file, naming what it is."""
    if (image := sniff(data)) is not None:
        return read_image(data, image, name, ctx)
    raise ToolError(f"{name} is {kind_of(data)} ({len(data):,} bytes), which Read cannot show.")


def _nature(text: TextFile) -> list[str]:
    """Return notes about an unusual encoding or line ends, which the numbered lines do not show."""
    notes = []
    if text.encoding != "utf-8" or text.mark:
        sure = any(text.encoding == encoding for _, encoding in MARKS)
        how = " with byte order mark" if text.mark else "" if sure else " (a guess from its bytes)"
        notes.append(f"encoding {text.encoding}{how}; edits preserve it")
    if line_end(text.content) == "\r\n":
        notes.append("lines end in CRLF; edits preserve it")
    return notes
