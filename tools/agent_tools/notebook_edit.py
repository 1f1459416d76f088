"""NotebookEdit: one cell of a notebook replaced, inserted or deleted; all else in the file stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from agent_tools.arguments import FILE_NAMES
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.display import Diff
from agent_tools.naming import display_path, not_found_error
from agent_tools.notebook_read import cell_words, has_notebooks
from agent_tools.values import Value

if TYPE_CHECKING:
    from agent_tools.change import Change


class NotebookEditArgs(Value):
    """The arguments of NotebookEdit."""

    ALIASES: ClassVar = {"notebook_path": ("file_path", *FILE_NAMES), "new_source": ("source",)}

    notebook_path: Annotated[str, "Absolute path, or relative to the working directory"]
    cell_id: Annotated[
        str | None, "The cell's id, or cell-N by place from 0; for insert, the cell before the new one"
    ] = None
    new_source: Annotated[str | None, "The cell's whole source; not for delete"] = None
    cell_type: Annotated[Literal["code", "markdown", "raw"] | None, "Default: as it is; code for a new cell"] = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], "Default replace"] = "replace"


class NotebookEdit(Tool[NotebookEditArgs]):
    """Changes one cell of a notebook that the model has read."""

    name = "NotebookEdit"
    Args = NotebookEditArgs
    paths = ("notebook_path",)
    file_argument = "notebook_path"
    changes_files = True
    composed = True
    rule_names = "path"
    rule_covers = ("write",)

    def available(self, ctx: ToolContext) -> bool:
        return has_notebooks(ctx)

    def effects(self, args: NotebookEditArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        path = str(ctx.workspace.resolve(args.notebook_path))
        return (Effect("read", path), Effect("write", path))

    def summary(self, args: NotebookEditArgs, ctx: ToolContext) -> str:
        verb = {"replace": "Edit", "insert": "Insert a cell in", "delete": "Delete a cell of"}[args.edit_mode]
        behind = f" after{cell_words(args.cell_id)[1:]}" if args.cell_id and args.edit_mode == "insert" else None
        return f"{verb} {display_path(args.notebook_path, ctx)}{behind or cell_words(args.cell_id)}"

    def preview(self, args: NotebookEditArgs, ctx: ToolContext) -> Diff:
        change, label = self._change(args, ctx)
        return _diff(change, label, ctx)

    def run(self, args: NotebookEditArgs, ctx: ToolContext) -> ToolResult:
        change, label = self._change(args, ctx)
        diff = _diff(change, label, ctx)
        change.make(ctx)
        name = ctx.workspace.spell(change.path)
        did = {"replace": "Replaced", "insert": "Inserted", "delete": "Deleted"}[args.edit_mode]
        said = f"{did} cell {label} of {name} (+{diff.added} -{diff.removed})."
        return ToolResult(" ".join(filter(None, (said, change.note))), diff)

    def _change(self, args: NotebookEditArgs, ctx: ToolContext) -> tuple[Change, str]:
        """What the call will do, and the label of the cell that it is about."""
        # Few conversations edit a notebook, and every start loads this file.
        from agent_tools.change import Change, current_text
        from agent_tools.notebook import parse_notebook
        from agent_tools.notebook_change import change_cell

        path = ctx.workspace.resolve(args.notebook_path)
        before, text = current_text(path, ctx, "edit")
        if before is None:
            raise not_found_error(path, ctx)
        if args.new_source is None and args.edit_mode != "delete":
            raise ToolError(f"{args.edit_mode} needs new_source, the whole source of the cell.")
        notebook = parse_notebook(text.content, ctx.workspace.spell(path))
        changed = change_cell(
            text.content, notebook, args.edit_mode, args.cell_id, args.cell_type, args.new_source or ""
        )
        after = text.encode(changed.content)
        return Change(path, before, after, changed.old, changed.new, changed.note), changed.label


def _diff(change: Change, label: str, ctx: ToolContext) -> Diff:
    """The change of the cell's source as a user sees it."""
    diff = change.diff(ctx)
    return diff.but(path=f"{diff.path}, cell {label}")
