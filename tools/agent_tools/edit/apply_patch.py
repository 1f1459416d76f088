"""The apply_patch tool: one patch that changes, adds, deletes and moves files, for models that are trained on it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from agent_tools.base import Effect, Freeform, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.encoding import decode_text, describe_binary
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted

if TYPE_CHECKING:
    from agent_tools.edit.change import Change
    from agent_tools.edit.patch import FilePatch

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import formatters
    from agent_tools.edit import patch as edit_patch

# In lark's notation, which the Responses API accepts for tools with plain-text input.
GRAMMAR = r"""start: begin file+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
file: add | delete | update
add: "*** Add File: " NAME LF added+
delete: "*** Delete File: " NAME LF
update: "*** Update File: " NAME LF move? hunk+
move: "*** Move to: " NAME LF
hunk: anchor* line+ eof?
anchor: ("@@" | "@@ " NAME) LF
added: "+" TEXT? LF
line: ("+" | "-" | " ") TEXT? LF
eof: "*** End of File" LF
NAME: /[^\n]+/
TEXT: /[^\n]+/
%import common.LF
"""


class ApplyPatchArgs(Value):
    """The arguments of apply_patch."""

    ALIASES: ClassVar = {"patch": ("input", "patch_text", "diff", "content")}

    patch: Annotated[str, "The whole patch, from *** Begin Patch to *** End Patch"]


class ResolvedPatch(str):
    """A patch as written, with its parts, each with the absolute paths of its file and of the new location."""

    parts: tuple[tuple[FilePatch, Path, Path | None], ...]


class ApplyPatch(Tool[ApplyPatchArgs]):
    """Changes files by a patch."""

    name = "apply_patch"
    Args = ApplyPatchArgs
    other_names = ("ApplyPatch",)
    example: ClassVar = {"patch": "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"}
    freeform = Freeform("patch", "lark", GRAMMAR, r"(?s)\*\*\* Begin Patch\s*\n.*\n\*\*\* End Patch")
    trained_models = r"(^|/)(gpt-(4\.1|5|oss)|o[34](-|$)|codex)"
    instead_of = ("Edit", "MultiEdit")
    changes_files = True
    composed = True
    rule_names = "path"
    rule_covers = ("write",)

    def resolve_paths(self, args: ApplyPatchArgs, ctx: ToolContext) -> ApplyPatchArgs:
        patch = ResolvedPatch(args.patch)
        patch.parts = tuple(_resolve_parts(args, ctx))
        return args.replace(patch=patch)

    def effects(self, args: ApplyPatchArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        paths = dict.fromkeys(str(p) for _, path, move in _parts(args, ctx) for p in (path, move) if p is not None)
        return tuple(Effect(kind, path) for path in paths for kind in ("read", "write"))

    def summary(self, args: ApplyPatchArgs, ctx: ToolContext) -> str:
        try:
            parts = edit_patch.parse_patch(args.patch)
        except ToolError:
            return "Apply a patch"
        verbs = {"add": "Add", "delete": "Delete", "update": "Edit"}
        names = [
            f"Move {display_path(part.path, ctx)} to {display_path(part.move, ctx)}"
            if part.move
            else f"{verbs[part.kind]} {display_path(part.path, ctx)}"
            for part in parts
        ]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def preview(self, args: ApplyPatchArgs, ctx: ToolContext) -> Diff | Diffs:
        changes, _ = _changes(args, ctx)
        return edit_change.combined_diff([change for _, change in changes], ctx)

    def run(self, args: ApplyPatchArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        changes, notes = _changes(args, ctx)
        ctx.cancel.check()
        edit_change.make_all(changes, ctx)
        final, report = yield from formatters.after_edit([change for _, change in changes], ctx)
        lines = [" ".join([f"Changed {counted(len(final), 'file')}.", *notes])]
        for now in final:
            diff, name = now.diff(ctx), ctx.workspace.spell(now.path)
            if now.after is None:
                lines.append(f"Deleted {name}.")
            elif diff.created:
                lines.append(f"Created {name} ({counted(diff.added, 'line')}).")
            else:
                lines.append(f"Edited {name} (+{diff.added} -{diff.removed}).{now.new_excerpt()}")
        return ToolResult("\n".join(lines) + report, edit_change.combined_diff(final, ctx))


def _resolve_parts(args: ApplyPatchArgs, ctx: ToolContext) -> list[tuple[FilePatch, Path, Path | None]]:
    """Return the parts with their resolved paths. Raises ToolError, also if a file occurs twice."""
    found: list[tuple[FilePatch, Path, Path | None]] = []
    seen: set[Path] = set()
    for part in edit_patch.parse_patch(args.patch):
        path = ctx.workspace.resolve(part.path)
        move = ctx.workspace.resolve(part.move) if part.move else None
        both = {path} if move is None else {path, move}
        if both & seen:
            raise ToolError(f"{part.path} is named twice in this patch: put all of its changes under one header.")
        seen |= both
        found.append((part, path, None if move == path else move))
    return found


def _parts(args: ApplyPatchArgs, ctx: ToolContext) -> Any:
    return args.patch.parts if isinstance(args.patch, ResolvedPatch) else _resolve_parts(args, ctx)


def _changes(args: ApplyPatchArgs, ctx: ToolContext) -> tuple[list[tuple[str, Change]], list[str]]:
    """Compute the change of each file, paired with its name in errors, and notes. Raises ToolError."""
    changes: list[tuple[str, Change]] = []
    notes: list[str] = []
    for part, path, move in _parts(args, ctx):
        name = ctx.workspace.spell(path)
        try:
            for change, note in _change(part, path, move, ctx):
                changes.append((name, change))
                notes += note
        except ToolError as error:
            raise ToolError(f"{name}: {error} No file was changed.") from None
    return changes, notes


def _change(part: FilePatch, path: Path, move: Path | None, ctx: ToolContext) -> list[tuple[Change, tuple[str, ...]]]:
    make = edit_change.Change
    before = ctx.workspace.read_if_there(path)
    if part.kind == "add":
        if before is not None:
            raise ToolError("the file exists already: change it with *** Update File.")
        return [(make(path, None, part.text.encode(), "", part.text), ())]
    if before is None:
        raise not_found_error(path, ctx)
    text = decode_text(before)
    if part.kind == "delete":
        return [(make(path, before, None, text.content if text else "", ""), ())]
    if text is None:
        raise ToolError(f"it is {describe_binary(before)}, not text, and cannot be changed with this tool.")
    content, notes = edit_patch.apply_hunks(text.content, part.hunks) if part.hunks else (text.content, ())
    after = text.encode(content)
    if move is None:
        return [(make(path, before, after, text.content, content), notes)]
    if ctx.workspace.read_if_there(move) is not None:
        raise ToolError(f"{ctx.workspace.spell(move)} exists already: the file cannot be moved there.")
    return [(make(move, None, after, "", content), notes), (make(path, before, None, text.content, ""), ())]
