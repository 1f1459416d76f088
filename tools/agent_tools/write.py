"""The Write tool: create a file or replace its whole content."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.encoding import TextFile, line_end, split_lines
from agent_tools.fs.paths import display_path
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff
from agent_tools.schema import FILE_NAMES
from agent_tools.text import counted

if TYPE_CHECKING:
    from agent_tools.edit.change import Change

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import formatters, omissions


class WriteArgs(Value):
    """The arguments of Write."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "content": ("contents", "file_text", "text")}

    file_path: Annotated[str, "Absolute or relative path"]
    content: Annotated[str, "The whole new content"]


class Write(Tool[WriteArgs]):
    """Creates a file, or replaces one that the model has read."""

    name = "Write"
    Args = WriteArgs
    small_arguments = ("file_path", "content")
    paths = ("file_path",)
    example: ClassVar = {"file_path": "hello.txt", "content": "hello\n"}
    file_argument = "file_path"
    changes_files = True
    replaces_file = True
    composed = True
    editable = "content"
    in_parts = True
    rule_names = "path"

    def effects(self, args: WriteArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("write", str(ctx.workspace.resolve(args.file_path))),)

    def summary(self, args: WriteArgs, ctx: ToolContext) -> str:
        return f"Write {display_path(args.file_path, ctx)} ({counted(len(split_lines(args.content)), 'line')})"

    def preview(self, args: WriteArgs, ctx: ToolContext) -> Diff:
        return self._change(args, ctx).diff(ctx)

    def run(self, args: WriteArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        change = self._change(args, ctx)
        name, diff = ctx.workspace.spell(change.path), change.diff(ctx)
        if change.before == change.after:
            return ToolResult(f"{name} already has exactly this content; it was not changed.", diff)
        change.make(ctx)
        (final,), text = yield from formatters.after_edit((change,), ctx)
        did = (
            f"Created {name} ({counted(diff.added, 'line')})."
            if diff.created
            else f"Wrote {name} (+{diff.added} -{diff.removed})."
        )
        return ToolResult(" ".join(filter(None, (did, change.note))) + text, final.diff(ctx))

    def _change(self, args: WriteArgs, ctx: ToolContext) -> Change:
        path = edit_change.resolve_file(args.file_path, ctx)
        file = edit_change.open_to_change(path, ctx, "write")
        before, text = file.before, file.text
        content, note = args.content, ""
        omissions.reject_omissions(None if before is None else text.content, content)
        if line_end(text.content) == "\r\n" and "\r" not in content:
            content = content.replace("\n", "\r\n")
            note = "Its lines still end in CRLF."
        try:
            after = text.encode(content)
        except ToolError:
            if text.encoding.startswith("utf"):
                raise
            after = TextFile(content).encode(content)
            note = f"It is UTF-8 now, because {text.encoding} lacks some of its characters."
        return edit_change.Change(path, before, after, text.content, content, note, "all")
