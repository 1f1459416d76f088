"""The Edit tool: replace one occurrence, or all occurrences, of a text in a file."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff
from agent_tools.schema import FILE_NAMES, NEW_NAMES, OLD_NAMES
from agent_tools.text import counted

if TYPE_CHECKING:
    from agent_tools.edit.change import Change
    from agent_tools.edit.matching import EditedText

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import diff as edit_diff
    from agent_tools.edit import formatters, matching


class EditArgs(Value):
    """The arguments of Edit."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "old_string": OLD_NAMES, "new_string": NEW_NAMES}

    file_path: Annotated[str, "Absolute path, or relative to the working directory"]
    old_string: Annotated[str, "The text to replace, exactly as in the file; empty to create or fill an empty file"]
    new_string: Annotated[str, "The text to put in its place"]
    replace_all: Annotated[bool, "Replace every occurrence (default false)"] = False


class Edit(Tool[EditArgs]):
    """Replaces text in a file that the model has read."""

    name = "Edit"
    Args = EditArgs
    small_arguments = ("file_path", "old_string", "new_string", "replace_all")
    paths = ("file_path",)
    example: ClassVar = {"file_path": "hello.txt", "old_string": "hello", "new_string": "goodbye"}
    file_argument = "file_path"
    changes_files = True
    composed = True
    editable = "new_string"
    in_parts = True
    hook_defaults: ClassVar = {"replace_all": False}
    rule_names = "path"
    rule_covers = ("write",)

    def effects(self, args: EditArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        path = str(ctx.workspace.resolve(args.file_path))
        return (Effect("read", path), Effect("write", path))

    def summary(self, args: EditArgs, ctx: ToolContext) -> str:
        _, added, removed = edit_diff.unified(args.old_string, args.new_string)
        every = ", everywhere" if args.replace_all else ""
        return f"Edit {display_path(args.file_path, ctx)} (+{added} -{removed}{every})"

    def preview(self, args: EditArgs, ctx: ToolContext) -> Diff:
        change, _ = self._change(args, ctx)
        return change.diff(ctx)

    def run(self, args: EditArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        change, edited = self._change(args, ctx)
        diff = change.diff(ctx)
        change.make(ctx)
        (final,), notes = yield from formatters.after_edit((change,), ctx)
        name = ctx.workspace.spell(change.path)
        if diff.created:
            return ToolResult(f"Created {name} ({counted(diff.added, 'line')}).{notes}", final.diff(ctx))
        count = f" in {len(edited.splices)} places" if len(edited.splices) > 1 else ""
        head = " ".join(filter(None, (f"Edited {name}{count} (+{diff.added} -{diff.removed}).", edited.note)))
        return ToolResult(f"{head}{final.new_excerpt()}{notes}", final.diff(ctx))

    def _change(self, args: EditArgs, ctx: ToolContext) -> tuple[Change, EditedText]:
        path = ctx.workspace.resolve(args.file_path)
        before, text = edit_change.current_text(path, ctx, "edit", args.old_string)
        if before is None and args.old_string:
            raise not_found_error(path, ctx)
        edited = apply_edit(text.content, args.old_string, args.new_string, args.replace_all, exists=before is not None)
        after = text.encode(edited.content)
        return edit_change.Change(path, before, after, text.content, edited.content), edited


def apply_edit(content: str, old: str, new: str, replace_all: bool, *, exists: bool) -> EditedText:
    """Apply an edit to `content`; an empty `old` fills an empty text. exists: the file exists. Raises ToolError."""
    if old:
        return matching.replace(content, old, new, replace_all)
    if content:
        raise ToolError(
            "old_string is empty, which is only for new and empty files, and this file has content. "
            "Give the text to replace, or write the whole file."
        )
    if exists and not new:
        raise ToolError("old_string and new_string are both empty: there is nothing to change.")
    return matching.EditedText(new, (matching.Splice(0, 0, new),))
