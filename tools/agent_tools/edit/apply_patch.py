"""The apply_patch tool: one patch that changes, adds, deletes and moves files, for models that are trained on it.

    *** Begin Patch
    *** Update File: src/a.py
    @@ def total(prices):
    -    return sum(prices[1:])
    +    return sum(prices)
    *** Add File: b.txt
    +one line
    *** Delete File: c.txt
    *** End Patch

Lines of a change begin with " " (context), "-" or "+". "@@ TEXT" names a line above the change. Follows the grammar
that OpenAI publishes for this tool. Text is found as in Edit (`matching`), in the order of the patch.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from agent_tools.base import Effect, Freeform, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.edit import matching
from agent_tools.fs.encoding import decode_text
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_tools.edit.change import Change, FileToChange

with lazy_imports():
    from agent_tools.edit import change as edit_change
    from agent_tools.edit import formatters, omissions

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
    trained_models = ("gpt-4.1", "gpt-5", "gpt-oss", "o3", "o4", "codex")
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
            parts = parse_patch(args.patch)
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
        head = [f"Changed {len(final)} files."] if final[1:] else []
        lines = [" ".join([*head, *notes])] if head or notes else []
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
    for part in parse_patch(args.patch):
        path = edit_change.resolve_file(part.path, ctx)
        move = edit_change.resolve_file(part.move, ctx) if part.move else None
        both = {path} if move is None else {path, move}
        if both & seen:
            raise ToolError(f"{part.path} is named twice in this patch: put all of its changes under one header.")
        seen |= both
        found.append((part, path, None if move == path else move))
    return found


def _parts(args: ApplyPatchArgs, ctx: ToolContext) -> Any:
    return args.patch.parts if isinstance(args.patch, ResolvedPatch) else _resolve_parts(args, ctx)


def _changes(args: ApplyPatchArgs, ctx: ToolContext) -> tuple[list[tuple[str, Change]], list[str]]:
    """Compute the change of each file, paired with its name in errors, and notes.

    Raises one ToolError for all parts that do not fit.
    """
    changes: list[tuple[str, Change]] = []
    notes: list[str] = []
    errors: list[str] = []
    files: list[FileToChange] = []
    for part, path, move in _parts(args, ctx):
        name = ctx.workspace.spell(path)
        try:
            if part.kind == "update":
                files.append(edit_change.read_editable(path, ctx))
                made = _update(part, files[-1], move, ctx)
            else:
                made = _add_or_delete(part, path, ctx)
        except ToolError as error:
            errors.append(f"{name}: {error}")
            continue
        for change, note in made:
            changes.append((name, change))
            notes += note
    if errors:
        failed = ToolError("\n".join([*errors[:-1], f"{errors[-1]} No file was changed."]))
        for file in files:
            failed = file.refuse(failed, ctx)
        raise failed
    return changes, notes


def _add_or_delete(part: FilePatch, path: Path, ctx: ToolContext) -> list[tuple[Change, tuple[str, ...]]]:
    make, before = edit_change.Change, ctx.workspace.read_if_there(path)
    if part.kind == "add":
        if before is not None:
            raise ToolError("the file exists already: change it with *** Update File.")
        omissions.reject_omissions(None, part.text)
        return [(make(path, None, part.text.encode(), "", part.text), ())]
    if before is None:
        raise not_found_error(path, ctx)
    text = decode_text(before)
    return [(make(path, before, None, text.content if text else "", ""), ())]


def _update(
    part: FilePatch, file: FileToChange, move: Path | None, ctx: ToolContext
) -> list[tuple[Change, tuple[str, ...]]]:
    """Return the changes of a file that stays, perhaps elsewhere. A patch quotes its lines, so no Read is due."""
    make = edit_change.Change
    if file.before is None:
        raise not_found_error(file.path, ctx)
    old = file.text.content
    content, notes = apply_hunks(old, part.hunks) if part.hunks else (old, ())
    omissions.reject_omissions(old, content)
    after = file.text.encode(content)
    if move is None:
        return [(make(file.path, file.before, after, old, content, since=file.since(ctx)), notes)]
    if ctx.workspace.read_if_there(move) is not None:
        raise ToolError(f"{ctx.workspace.spell(move)} exists already: the file cannot be moved there.")
    return [(make(move, None, after, "", content), notes), (make(file.path, file.before, None, old, ""), ())]


_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)")
_KINDS: dict[str, Literal["add", "delete", "update"]] = {"Add": "add", "Delete": "delete", "Update": "update"}
_BEGIN, _END, _MOVE, _EOF = "*** Begin Patch", "*** End Patch", "*** Move to: ", "*** End of File"


class PatchHunk(Value):
    """One change of a file.

    anchors: lines above it that locate it.
    old, new: its lines before and after.
    at_end: it is at the end of the file.
    """

    anchors: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool = False


class FilePatch(Value):
    """The part of a patch for one file. text: content of an added file. move: its new path."""

    kind: Literal["add", "delete", "update"]
    path: str
    text: str = ""
    hunks: tuple[PatchHunk, ...] = ()
    move: str = ""


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the parts of a patch. Raises ToolError naming the line that cannot be read."""
    lines = _patch_lines(text)
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        header = _FILE.fullmatch(lines[at].rstrip())
        if header is None:
            raise ToolError(
                f"Line {at + 1} of the patch is not the header of a file: {shorten(lines[at], 80)!r}. Expected "
                '"*** Update File: PATH", "*** Add File: PATH" or "*** Delete File: PATH".'
            )
        end = next((n for n in range(at + 1, len(lines)) if _FILE.fullmatch(lines[n].rstrip())), len(lines))
        found.append(_parse_file(_KINDS[header[1]], header[2].strip(), lines[at + 1 : end], at + 2))
        at = end
    if not found:
        raise ToolError("The patch is empty: there is nothing to change.")
    return tuple(found)


def _patch_lines(text: str) -> list[str]:
    """Return the lines between the markers, without a fence or heredoc around them; without markers, all lines."""
    lines = text.replace("\r\n", "\n").split("\n")
    begin = next((n for n, line in enumerate(lines) if line.strip() == _BEGIN), -1)
    end = next((n for n in range(len(lines) - 1, begin, -1) if lines[n].strip() == _END), len(lines))
    if begin < 0 and not _FILE.fullmatch(lines[0].rstrip()):
        raise ToolError(f'A patch begins with "{_BEGIN}" and ends with "{_END}".')
    inner = lines[begin + 1 : end]
    while inner and not inner[-1]:
        inner.pop()
    return inner


def _parse_file(kind: Literal["add", "delete", "update"], path: str, lines: list[str], first: int) -> FilePatch:
    if kind == "delete":
        if any(line.strip() for line in lines):
            raise ToolError(f"Line {first} of the patch: nothing may follow the deletion of {path}.")
        return FilePatch(kind, path)
    if kind == "add":
        if wrong := next((n for n, line in enumerate(lines, first) if line and not line.startswith("+")), 0):
            raise ToolError(f'Line {wrong} of the patch: every line of the new file {path} must begin with "+".')
        return FilePatch(kind, path, "".join(f"{line[1:]}\n" for line in lines))
    move = ""
    if lines and lines[0].startswith(_MOVE):
        move, lines, first = lines[0].removeprefix(_MOVE).strip(), lines[1:], first + 1
    hunks = tuple(_parse_hunks(path, lines, first))
    if not hunks and not move:
        raise ToolError(f"The patch of {path} has no changes.")
    return FilePatch(kind, path, hunks=hunks, move=move)


def _parse_hunks(path: str, lines: list[str], first: int) -> Iterator[PatchHunk]:
    anchors: list[str] = []
    old: list[str] = []
    new: list[str] = []
    for number, line in enumerate(lines, first):
        if line.startswith("@@"):
            if old or new:
                yield PatchHunk(tuple(anchors), tuple(old), tuple(new))
                anchors, old, new = [], [], []
            # Drop the line numbers of a unified diff: "@@ -1,2 +1,2 @@".
            text = re.sub(r"^@@ ?(-\d+(,\d+)? \+\d+(,\d+)? @@ ?)?", "", line).removesuffix(" @@")
            anchors += [text] if text.strip() else []
        elif line.rstrip() == _EOF:
            yield PatchHunk(tuple(anchors), tuple(old), tuple(new), at_end=True)
            anchors, old, new = [], [], []
        elif not line or line[0] in " +-":
            # Some models omit the space of an empty context line.
            old += [line[1:]] if line[:1] != "+" else []
            new += [line[1:]] if line[:1] != "-" else []
        else:
            raise ToolError(
                f"Line {number} of the patch, in {path}, is {shorten(line, 80)!r}. "
                'Each line must begin with " ", "+", "-" or "@@".'
            )
    if old or new:
        yield PatchHunk(tuple(anchors), tuple(old), tuple(new))


def apply_hunks(content: str, hunks: tuple[PatchHunk, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the text after the changes, and notes on differences that were ignored. Raises ToolError."""
    # Complete the last line, so that it matches like the others.
    closed = content if content.endswith("\n") or not content else f"{content}\n"
    text, at, notes = closed, 0, []
    errors: list[str] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            text, at, note = _apply_hunk(text, at, hunk)
        except ToolError as error:
            errors.append(f"change {number} of {len(hunks)}: {_reword_for_patch(str(error))}")
        else:
            notes += [_reword_for_patch(note)] if note else []
    if errors:
        raise ToolError("\n".join(errors))
    if closed != content and text.endswith("\n"):
        text = text[:-1]
    if text == content:
        raise ToolError("the changes have no effect on the file.")
    return text, tuple(notes)


def _reword_for_patch(message: str) -> str:
    """Rewrite a message about old_string and new_string for a patch."""
    message = re.sub(", or set replace_all to .*?(?= \\(|$)", ", or name a line above with @@", message)
    message = message.replace("; nothing was changed", "").replace("new_string", "the new text")
    return message.replace("old_string:", "the patch: ").replace("old_string", "the old text")


def _apply_hunk(text: str, at: int, hunk: PatchHunk) -> tuple[str, int, str]:
    """Apply one change after `at`; return the text, the end of the change in it, and a note."""
    for anchor in hunk.anchors:
        at = _after_anchor(text, at, anchor, hunk.old)
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (hunk.old, hunk.new))
    if not old:
        position = len(text) if hunk.at_end or not hunk.anchors else at
        ending = "\r\n" if "\r\n" in text else "\n"
        added = new.replace("\n", ending)
        return text[:position] + added + text[position:], position + len(added), ""
    if old == new:
        # Context only: it moves the start of the next search.
        found = text.find(old, at)
        return text, found + len(old) if found >= 0 else at, ""
    head, rest = text[:at], text[at:]
    if hunk.at_end and rest.endswith(old):
        head, rest = text[: len(text) - len(old)], old
    elif hunk.anchors and rest.count(old) > 1:
        # Take the first place below the anchor.
        first = rest.index(old) + len(old)
        after = matching.replace(rest[:first], old, new)
        return head + after.content + rest[first:], at + after.splices[-1].start + len(after.splices[-1].new), ""
    # Replace the lines above by lines that nothing matches, so that messages have the file's line numbers.
    above = "\0\n" * head.count("\n")
    after = matching.replace(above + rest, old, new)
    last = after.splices[-1]
    shift = len(head) - len(above)
    return head + after.content[len(above) :], last.start + len(last.new) + shift, after.note


def _after_anchor(text: str, at: int, anchor: str, old: tuple[str, ...]) -> int:
    """Return the offset of the line after the anchor, or of the anchor if it is also the first line of the change."""
    for exact in (True, False):
        position = at
        for line in text[at:].splitlines(keepends=True):
            bare = line.rstrip("\r\n")
            if bare == anchor or (not exact and anchor.strip() and anchor.strip() in bare):
                repeated = bool(old) and old[0].strip() == bare.strip()
                return position if repeated else position + len(line)
            position += len(line)
    raise ToolError(f'there is no line {shorten(anchor, 120)!r} for "@@" below the preceding change.')
