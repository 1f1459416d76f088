"""The MultiEdit tool: several edits in one or more files, all or none."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.edit.edit import apply_edit
from agent_tools.fs.encoding import TextFile
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.fs.workspace import ResolvedPath
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs
from agent_tools.schema import FILE_NAMES, NEW_NAMES, OLD_NAMES
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_tools.edit.change import Change

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import formatters


class OneEdit(Value):
    """One of several edits. file_path: overrides that of the call."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "old_string": OLD_NAMES, "new_string": NEW_NAMES}

    old_string: str
    new_string: str
    replace_all: bool = False
    file_path: str | None = None


class MultiEditArgs(Value):
    """The arguments of MultiEdit."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES}

    edits: Annotated[tuple[OneEdit, ...], "Made in order, each on the result of the ones before"]
    file_path: Annotated[str | None, "The file of all edits that name none themselves"] = None


class _File:
    """The state of a file between edits. first: number of its first edit."""

    def __init__(self, path: Path, before: bytes | None, text: TextFile, first: int) -> None:
        self.path, self.before, self.text, self.first = path, before, text, first
        self.content = text.content
        self.after = before

    def apply(self, edit: OneEdit, ctx: ToolContext) -> str:
        """Apply one more edit and return its note. Raises ToolError."""
        exists = self.after is not None
        if not exists and edit.old_string:
            raise not_found_error(self.path, ctx)
        edited = apply_edit(self.content, edit.old_string, edit.new_string, edit.replace_all, exists=exists)
        self.content, self.after = edited.content, self.text.encode(edited.content)
        return edited.note

    def change(self) -> Change | None:
        """Return the combined change; None if the edits cancel out."""
        if self.after is None or self.after == self.before:
            return None
        return edit_change.Change(self.path, self.before, self.after, self.text.content, self.content)


class MultiEdit(Tool[MultiEditArgs]):
    """Makes several edits at once."""

    name = "MultiEdit"
    Args = MultiEditArgs
    file_argument = "file_path"
    changes_files = True
    composed = True
    in_parts = True
    rule_names = "path"
    rule_covers = ("write",)

    def resolve_paths(self, args: MultiEditArgs, ctx: ToolContext) -> MultiEditArgs:
        named = [
            ResolvedPath(edit.file_path or args.file_path or "", path)
            for edit, path in zip(args.edits, _paths(args, ctx), strict=True)
        ]
        return args.replace(
            edits=tuple(edit.replace(file_path=name) for edit, name in zip(args.edits, named, strict=True))
        )

    def effects(self, args: MultiEditArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        paths = dict.fromkeys(str(path) for path in _paths(args, ctx))
        return tuple(Effect(kind, path) for path in paths for kind in ("read", "write"))

    def summary(self, args: MultiEditArgs, ctx: ToolContext) -> str:
        names = list(dict.fromkeys(display_path(edit.file_path or args.file_path or "", ctx) for edit in args.edits))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"Edit {', '.join(names[:3])}{more} ({counted(len(args.edits), 'edit')})"

    def preview(self, args: MultiEditArgs, ctx: ToolContext) -> Diff | Diffs:
        changes, _ = self._changes(args, ctx)
        return edit_change.combined_diff([change for _, change in changes], ctx)

    def run(self, args: MultiEditArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        changes, notes = self._changes(args, ctx)
        ctx.cancel.check()
        edit_change.make_all(changes, ctx)
        final, more = yield from formatters.after_edit([change for _, change in changes], ctx)
        where = f" in {len(final)} files" if len(final) > 1 else ""
        lines = [" ".join([f"Made {counted(len(args.edits), 'edit')}{where}.", *notes])]
        for (_, change), now in zip(changes, final, strict=True):
            diff, name = change.diff(ctx), ctx.workspace.spell(change.path)
            if diff.created:
                lines.append(f"Created {name} ({counted(diff.added, 'line')}).")
            else:
                lines.append(f"Edited {name} (+{diff.added} -{diff.removed}).{now.new_excerpt()}")
        return ToolResult("\n".join(lines) + more, edit_change.combined_diff(final, ctx))

    def _changes(self, args: MultiEditArgs, ctx: ToolContext) -> tuple[list[tuple[str, Change]], list[str]]:
        """Return the combined change of each file, with a name for it in errors, and the notes of the edits."""
        files: dict[Path, _File] = {}
        notes = []
        for number, (edit, path) in enumerate(zip(args.edits, _paths(args, ctx), strict=True), 1):
            again = path in files
            try:
                if not again:
                    files[path] = _File(path, *edit_change.current_text(path, ctx, "edit"), number)
                note = files[path].apply(edit, ctx)
            except ToolError as error:
                text = f"{_edit_label(args, number, path, ctx)}: {error}"
                if "nothing was changed" not in text:
                    text += " No file was changed."
                if again:
                    text += " Line numbers are those after the preceding edits."
                raise ToolError(text) from None
            if note:
                notes.append(f"Edit {number}: {note}")
        changes = [(_edit_label(args, f.first, f.path, ctx), change) for f in files.values() if (change := f.change())]
        if not changes:
            raise ToolError("The edits undo one another: there is nothing to change.")
        return changes, notes


def _edit_label(args: MultiEditArgs, number: int, path: Path, ctx: ToolContext) -> str:
    return f"edit {number} of {len(args.edits)} ({shorten(ctx.workspace.spell(path), 300)})"


def _paths(args: MultiEditArgs, ctx: ToolContext) -> list[Path]:
    """Return the resolved path of each edit. Raises ToolError naming the edit that has none."""
    if not args.edits:
        raise ToolError("edits is empty: there is nothing to change.")
    paths = []
    for number, edit in enumerate(args.edits, 1):
        text = edit.file_path or args.file_path
        if not text:
            raise ToolError(f"edit {number} of {len(args.edits)} has no file: give file_path in it or next to edits.")
        try:
            paths.append(ctx.workspace.resolve(text))
        except ToolError as error:
            raise ToolError(f"edit {number} of {len(args.edits)}: {error}") from None
    return paths
