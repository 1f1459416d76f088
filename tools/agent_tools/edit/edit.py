"""The Edit and MultiEdit tools: replace a text in a file; several edits in one or more files, all or none."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.fs.workspace import ResolvedPath
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs
from agent_tools.schema import FILE_NAMES, NEW_NAMES, OLD_NAMES
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_tools.edit.change import Change
    from agent_tools.edit.matching import EditedText

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import diff as edit_diff
    from agent_tools.edit import (
        formatters,
        matching,
        old_names,  # only for small models
        omissions,
    )


class EditArgs(Value):
    """The arguments of Edit."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "old_string": OLD_NAMES, "new_string": NEW_NAMES}

    file_path: Annotated[str, "Absolute or relative path"]
    old_string: Annotated[str, "The text to replace, exactly as in the file"]
    new_string: Annotated[str, "The text to put in its place"]
    replace_all: Annotated[bool, "Replace every occurrence"] = False


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
        path = display_path(args.file_path, ctx)
        if args.replace_all:
            # In how many places is only known with the file.
            return f"Edit {path} (everywhere)"
        _, added, removed = edit_diff.unified(args.old_string, args.new_string)
        return f"Edit {path} (+{added} -{removed})"

    def preview(self, args: EditArgs, ctx: ToolContext) -> Diff:
        change, _ = self._change(args, ctx)
        return change.diff(ctx)

    def run(self, args: EditArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        change, edited = self._change(args, ctx)
        diff = change.diff(ctx)
        change.make(ctx)
        (final,), notes = yield from formatters.after_edit((change,), ctx)
        if ctx.small_model:
            notes += old_names.still_elsewhere(args.old_string, args.new_string, ctx)
        name = ctx.workspace.spell(change.path)
        if diff.created:
            return ToolResult(f"Created {name} ({counted(diff.added, 'line')}).{notes}", final.diff(ctx))
        count = f" in {len(edited.splices)} places" if len(edited.splices) > 1 else ""
        head = " ".join(filter(None, (f"Edited {name}{count} (+{diff.added} -{diff.removed}).", edited.note)))
        return ToolResult(f"{head}{final.new_excerpt()}{notes}", final.diff(ctx))

    def _change(self, args: EditArgs, ctx: ToolContext) -> tuple[Change, EditedText]:
        path = edit_change.resolve_file(args.file_path, ctx)
        file = edit_change.open_to_change(path, ctx, "edit", args.old_string, every=args.replace_all)
        if file.before is None and args.old_string:
            raise not_found_error(path, ctx)
        old, content = file.before, file.text.content
        try:
            edited = apply_edit(content, args.old_string, args.new_string, args.replace_all, exists=old is not None)
        except ToolError as error:
            raise file.refuse(error, ctx) from None
        after = file.text.encode(edited.content)
        return edit_change.Change(path, old, after, content, edited.content, since=file.since(ctx)), edited


def apply_edit(content: str, old: str, new: str, replace_all: bool, *, exists: bool) -> EditedText:
    """Apply an edit to `content`; an empty `old` fills an empty text. exists: the file exists. Raises ToolError."""
    if old:
        edited = matching.replace(content, old, new, replace_all)
        omissions.reject_omissions(content, edited.content)
        return edited
    if content:
        raise ToolError(
            "old_string is empty, which is only for new and empty files, and this file has content. "
            "Give the text to replace, or write the whole file."
        )
    if exists and not new:
        raise ToolError("old_string and new_string are both empty: there is nothing to change.")
    omissions.reject_omissions(None, new)
    return matching.EditedText(new, (matching.Splice(0, 0, new),))


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

    def __init__(self, path: Path, ctx: ToolContext, first: int) -> None:
        self.path, self.first = path, first
        self.file = edit_change.read_editable(path, ctx)
        self.content = self.file.text.content
        self.after = self.file.before
        self._own = ""

    def apply(self, edit: OneEdit, ctx: ToolContext, *, must_be_read: bool) -> str:
        """Apply one more edit and return its note. must_be_read: the model must know the file. Raises ToolError."""
        exists = self.after is not None
        if not exists and edit.old_string:
            raise not_found_error(self.path, ctx)
        if must_be_read:
            self.file = edit_change.require_seen(
                self.file, ctx, "edit", edit.old_string, every=edit.replace_all, own=self._own, content=self.content
            )
        edited = apply_edit(self.content, edit.old_string, edit.new_string, edit.replace_all, exists=exists)
        self.content, self.after = edited.content, self.file.text.encode(edited.content)
        self._own += f"{edit.new_string}\n"
        return edited.note

    def change(self, ctx: ToolContext) -> Change | None:
        """Return the combined change; None if the edits cancel out."""
        before = self.file.before
        if self.after is None or self.after == before:
            return None
        since = self.file.since(ctx)
        return edit_change.Change(self.path, before, self.after, self.file.text.content, self.content, since=since)


class MultiEdit(Tool[MultiEditArgs]):
    """Makes several edits at once. requires_reading: the model must have read the files."""

    requires_reading: ClassVar[bool] = True
    name = "MultiEdit"
    rare = True
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
        notes, errors = [], []
        for number, (edit, path) in enumerate(zip(args.edits, _paths(args, ctx), strict=True), 1):
            again = path in files
            try:
                if not again:
                    files[path] = _File(path, ctx, number)
                note = files[path].apply(edit, ctx, must_be_read=ctx.require_read_first and self.requires_reading)
            except ToolError as error:
                text = f"{_edit_label(args, number, path, ctx)}: {error}"
                if again:
                    text += " Line numbers are those after the preceding edits."
                errors.append(text)
                continue
            if note:
                notes.append(f"Edit {number}: {note}")
        if errors:
            failed = _failed_edits_error(errors, len(args.edits))
            for each in files.values():
                failed = each.file.refuse(failed, ctx)
            raise failed
        found = [(f, change) for f in files.values() if (change := f.change(ctx))]
        changes = [(_edit_label(args, f.first, f.path, ctx), change) for f, change in found]
        if not changes:
            raise ToolError("The edits undo one another: there is nothing to change.")
        return changes, notes


def _failed_edits_error(errors: list[str], edits: int) -> ToolError:
    """Return one error for all edits of a call that failed."""
    head = f"{len(errors)} of {edits} edits failed:\n" if len(errors) > 1 else ""
    text = head + "\n".join(errors)
    return ToolError(text if "nothing was changed" in errors[-1] else f"{text} No file was changed.")


def _edit_label(args: MultiEditArgs, number: int, path: Path, ctx: ToolContext) -> str:
    return f"edit {number} of {len(args.edits)} ({shorten(ctx.workspace.spell(path), 300)})"


def _paths(args: MultiEditArgs, ctx: ToolContext) -> list[Path]:
    """Return the resolved path of each edit. Raises ToolError naming the edit that has none."""
    if not args.edits:
        raise ToolError("edits is empty: there is nothing to change.")
    paths, errors = [], []
    for number, edit in enumerate(args.edits, 1):
        text = edit.file_path or args.file_path
        if not text:
            errors.append(f"edit {number} of {len(args.edits)} has no file: give file_path in it or next to edits.")
            continue
        try:
            paths.append(edit_change.resolve_file(text, ctx))
        except ToolError as error:
            errors.append(f"edit {number} of {len(args.edits)}: {error}")
    if errors:
        raise ToolError("\n".join(errors))
    return paths
