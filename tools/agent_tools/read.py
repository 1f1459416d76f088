"""Read: part of a text file, with line numbers."""

from __future__ import annotations

from typing import Annotated

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.clipping import cut_line, fit
from agent_tools.display import FileView
from agent_tools.naming import missing, named
from agent_tools.textfile import Text, decode, fingerprint, kind_of, line_end, split_lines
from agent_tools.values import Value

LINES = 2_000
CHARACTERS = 100_000


class ReadArgs(Value):
    """The arguments of Read."""

    file_path: Annotated[str, "Absolute path, or relative to the working directory"]
    offset: Annotated[int | None, "First line to read, from 1"] = None
    limit: Annotated[int | None, "Number of lines (default 2000)"] = None


class Read(Tool[ReadArgs]):
    """Reads a text file in any usual encoding."""

    name = "Read"
    Args = ReadArgs

    def effects(self, args: ReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.file_path))),)

    def summary(self, args: ReadArgs, ctx: ToolContext) -> str:
        part = f" from line {args.offset}" if args.offset and args.offset > 1 else ""
        return f"Read {named(args.file_path, ctx)}{part}"

    def run(self, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        first, limit = (1 if args.offset is None else args.offset), (LINES if args.limit is None else args.limit)
        if first < 0 or limit < 1:
            raise ToolError("offset counts lines from 1, and limit is at least 1.")
        path = ctx.workspace.resolve(args.file_path)
        data = ctx.workspace.read_if_there(path)
        if data is None:
            raise missing(path, ctx)
        name = ctx.workspace.spell(path)
        text = decode(data)
        if text is None:
            raise ToolError(f"{name} is {kind_of(data)} ({len(data):,} bytes), which Read cannot show.")
        lines = split_lines(text.content)
        first = max(first, 1)
        if first > max(len(lines), 1):
            raise ToolError(f"{name} has only {len(lines):,} lines; offset {first} is past its end.")
        shown = [
            f"{n:>6}\t{cut_line(line.rstrip(chr(13) + chr(10)))}"
            for n, line in enumerate(lines[first - 1 : first - 1 + limit], first)
        ]
        count = fit(shown, CHARACTERS)
        last = first - 1 + count
        ctx.seen[str(path)] = fingerprint(data)
        view = FileView(ctx.workspace.show(path), first, count, len(lines))
        if not lines:
            return ToolResult(f"{name} is empty (0 characters).", view)
        notes = _nature(text)
        if first > 1 or last < len(lines):
            notes.insert(0, f"lines {first}-{last} of {len(lines):,}")
        if last < len(lines):
            notes.append(f"go on with offset={last + 1}")
        note = f"\n[{'; '.join(notes)}]" if notes else ""
        return ToolResult("\n".join(shown[:count]) + note, view)


def _nature(text: Text) -> list[str]:
    """What the numbered lines do not show of a file, where it is out of the ordinary."""
    notes = []
    if text.encoding != "utf-8" or text.mark:
        notes.append(f"encoding {text.encoding}{' with byte order mark' if text.mark else ''}, kept by Edit and Write")
    if line_end(text.content) == "\r\n":
        notes.append("lines end in CRLF, kept by Edit and Write")
    return notes
