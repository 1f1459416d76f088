"""Edit a call before it runs: change its main argument, or select hunks of its change.

If the user selects hunks of the diff, or changes its result elsewhere, the call is rewritten to make only that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import ApprovalRequested
from agent_tools.base import ToolError
from agent_tools.edit.diff import changed_ranges, diff_parts, parse_hunks, unified
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import TraitsOf, tool_traits
from agent_tools.results import Diff, Diffs, Display
from agent_tools.text import MAX_LINE_CHARS

_NO_END = "\\"
# What the model reads about a call that the user rewrote, if there is nothing more to say about it.
ARGUMENTS_CHANGED = "[The user changed the arguments of this call.]"


class Hunk(Value):
    """One hunk of a change.

    first: index of its first old line, counted from 0.
    old: the lines that it replaces.
    new: the lines that replace them.
    patch: its text in the diff.
    number: among all of a call whose parts are chosen by number; -1 for another.
    """

    path: str
    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    patch: str
    number: int = -1

    @property
    def diff(self) -> Diff:
        """The hunk alone, as a diff to show."""
        signs = [line[:1] for line in self.patch.split("\n")[1:]]
        return Diff(self.path, self.patch, signs.count("+"), signs.count("-"))


def hunks_of(tool: str, preview: Display | None, workspace: Workspace, traits_of: TraitsOf = tool_traits) -> list[Hunk]:
    """Return the hunks of a proposed change if there are several and each can be applied separately; else none."""
    diffs = preview.files if isinstance(preview, Diffs) else (preview,) if isinstance(preview, Diff) else ()
    if traits_of(tool).numbered_parts:
        named = [(diff.path, patch) for diff in diffs for patch in diff_parts(diff)]
        return [Hunk(path, 0, (), (), patch, n) for n, (path, patch) in enumerate(named)] if len(named) > 1 else []
    if not traits_of(tool).in_parts or any(diff.created for diff in diffs):
        return []
    found: list[Hunk] = []
    for diff in diffs:
        parts = _parsed(diff, lines) if (lines := _lines(diff.path, workspace)) is not None else None
        if not parts:
            return []
        found += parts
    if len(found) < 2 or len({hunk.path for hunk in found}) != len(diffs):
        return []
    return found


def _arguments_for(selected: Sequence[Hunk], arguments: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Return the arguments of a call that makes only these hunks. arguments: of the call that proposed all."""
    if isinstance(inner := arguments.get("arguments"), dict):  # of a tool that was found by ToolSearch
        return {**arguments, "arguments": _arguments_for(selected, inner, workspace)}
    if "content" in arguments:
        lines = _lines(selected[0].path, workspace) or []
        for hunk in sorted(selected, key=lambda h: -h.first):
            lines[hunk.first : hunk.first + len(hunk.old)] = hunk.new
        return {**arguments, "content": "".join(lines)}
    files = dict.fromkeys(hunk.path for hunk in selected)
    edits = [_edit([hunk for hunk in selected if hunk.path == path], workspace) for path in files]
    return edits[0] if "old_string" in arguments else {"edits": edits}


def take_hunks(
    selected: Sequence[Hunk], every: Sequence[Hunk], arguments: dict[str, Any], workspace: Workspace
) -> tuple[dict[str, Any], str]:
    """Return the arguments of a call that makes some of its hunks, and what the model reads about the selection."""
    taken = {hunk.number for hunk in selected}
    if every[0].number >= 0:
        made = {**arguments, "leave_out": [hunk.number for hunk in every if hunk.number not in taken]}
    else:
        made = _arguments_for(selected, arguments, workspace)
    return made, _describe_selection(selected, every)


def _describe_selection(selected: Sequence[Hunk], every: Sequence[Hunk]) -> str:
    """Describe the selection for the model: the number of applied hunks, and the rejected ones in full."""
    shown = "\n".join(f"{hunk.path}\n{hunk.patch}" for hunk in every if hunk not in selected)
    return (
        f"[The user took {len(selected)} of the {len(every)} parts of this change. "
        f"These were not made, and are not wanted:\n{shown}]"
    )


_SELECTION = re.compile(r"\[The user took (\d+) of the (\d+) parts of this change\.")


def taken_parts(note: str) -> str:
    """Return how many parts of a change a user took, from what the model reads about it; "" if it is not about that."""
    found = _SELECTION.match(note)
    return f"{found[1]} of {found[2]} parts" if found else ""


class WholeChange(Value):
    """A change to one file, whole. path: absolute. old: "" for a new file."""

    path: str
    old: str
    new: str


def whole_change(
    request: ApprovalRequested, workspace: Workspace, traits_of: TraitsOf = tool_traits
) -> WholeChange | None:
    """Return the text of a file before and after a proposed edit; None if that is not known, or of several files."""
    preview = request.preview
    diffs = preview.files if isinstance(preview, Diffs) else (preview,) if isinstance(preview, Diff) else ()
    if len(diffs) != 1 or diffs[0].deleted or not traits_of(request.tool).in_parts:
        return None
    diff = diffs[0]
    lines = [] if diff.created else _lines(diff.path, workspace)
    if lines is None:
        return None
    old = "".join(lines)
    new = text_after(request.arguments, old)
    if new is None:  # the old text is found in it in another way, as with other line ends
        if (hunks := _parsed(diff, lines)) is None:
            return None
        for hunk in reversed(hunks):
            lines[hunk.first : hunk.first + len(hunk.old)] = hunk.new
        new = "".join(lines)
    return WholeChange(str(workspace.cwd / diff.path), old, new)


def text_after(arguments: dict[str, Any], old: str) -> str | None:
    """Return the text of a file after a call with these arguments; None if they do not fit it exactly."""
    if isinstance(content := arguments.get("content"), str):
        return content
    edits = arguments.get("edits", [arguments])
    text = old
    for edit in edits if isinstance(edits, list) else ():
        before, after = (edit.get(name) if isinstance(edit, dict) else None for name in ("old_string", "new_string"))
        if not isinstance(before, str) or not isinstance(after, str) or not before or before not in text:
            return None
        if not edit.get("replace_all") and not _once(before, text):
            return None
        text = text.replace(before, after)
    return text


def arguments_to_write(
    text: str, change: WholeChange, arguments: dict[str, Any], workspace: Workspace
) -> dict[str, Any] | None:
    """Return the arguments of a call that writes this text instead of the proposed one; None if there is none."""
    if "content" in arguments:
        return {**arguments, "content": text}
    path = Path(change.path)
    a, b = split_lines(change.old), split_lines(text)
    name = next((str(value) for key in _PATHS if (value := arguments.get(key))), str(path))
    hunks = [Hunk(name, i, tuple(a[i:j]), tuple(b[k:m]), "") for i, j, k, m in changed_ranges(a, b)]
    if not hunks or _lines(name, workspace) != a:
        return None
    found = _arguments_for(hunks, arguments, workspace)
    return found if text_after(found, change.old) == text else None


def describe_rewrite(request: ApprovalRequested, arguments: dict[str, Any], workspace: Workspace) -> str:
    """Describe for the model how the user rewrote a call: as a diff of the file, if it edits one."""
    change = whole_change(request, workspace)
    new = text_after(arguments, change.old) if change is not None else None
    if change is None or new is None:
        return ARGUMENTS_CHANGED
    patch, _, _ = unified(change.new, new)
    return f"[The user changed the text before it was written. The file differs from your version by this:\n{patch}]"


def _lines(path: str, workspace: Workspace) -> list[str] | None:
    """Return the file's lines with their ends; None if it is not text."""
    try:
        # The path of a diff is resolved; links created since are not followed.
        text = decode_text(workspace.read(workspace.cwd / path))
    except ToolError:
        return None
    return split_lines(text.content) if text is not None else None


def _parsed(diff: Diff, lines: list[str]) -> list[Hunk] | None:
    """Return the hunks of a diff with the file's own line ends; None if the file does not match the diff."""
    found: list[Hunk] = []
    for hunk in parse_hunks(diff.patch):
        # "-0,0" is before the first line; other numbers count from 1.
        first = at = max(hunk.old[0] - (hunk.old[1] != 0), 0)
        removed = False
        new: list[str] = []
        for line in hunk.lines:
            if line.startswith(_NO_END):
                if new and not removed:
                    new[-1] = new[-1].rstrip("\r\n")
                continue
            removed = line[:1] == "-"
            if len(line) > MAX_LINE_CHARS:
                return None  # the diff was truncated
            if line[:1] == "+":
                new.append(line[1:] + _end_near(lines, at))
                continue
            if at >= len(lines) or lines[at].rstrip("\r\n") != line[1:].rstrip("\r"):
                return None
            new += [] if removed else [lines[at]]
            at += 1
        patch = "\n".join((hunk.header, *hunk.lines))
        found.append(Hunk(diff.path, first, tuple(lines[first:at]), tuple(new), patch))
    return found


def _end_near(lines: list[str], at: int) -> str:
    """Return the line end used near a line, which the diff does not show."""
    near = next(
        (line for line in (*lines[at : at + 1], *reversed(lines[max(at - 2, 0) : at])) if line.endswith("\n")), ""
    )
    return "\r\n" if near.endswith("\r\n") else "\n"


def _edit(selected: Sequence[Hunk], workspace: Workspace) -> dict[str, Any]:
    """Return one edit from the first to the last hunk, with enough context to make its old text unique."""
    lines = _lines(selected[0].path, workspace) or []
    first, end = min(h.first for h in selected), max(h.first + len(h.old) for h in selected)
    whole = "".join(lines)
    while (first > 0 or end < len(lines)) and not _once("".join(lines[first:end]), whole):
        first, end = max(first - 1, 0), min(end + 1, len(lines))
    region = lines[first:end]
    for hunk in sorted(selected, key=lambda h: -h.first):
        at = hunk.first - first
        region[at : at + len(hunk.old)] = hunk.new
    return {"file_path": selected[0].path, "old_string": "".join(lines[first:end]), "new_string": "".join(region)}


def _once(part: str, whole: str) -> bool:
    """Return True if a part occurs exactly once, even with overlaps."""
    return bool(part) and whole.find(part, whole.find(part) + 1) < 0


# Arguments that name the file whose text is edited.
_PATHS = ("file_path", "notebook_path", "path")


class EditableCall:
    """The editable parts of a call.

    name: the argument that may be edited; "" if there is none.
    text: its value.
    single_line: its value can be edited in an input line.
    hunks: the parts of its change that can be applied separately.
    suffix: for a temporary file with its value, so that an editor knows the language.
    """

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        hunks: Sequence[Hunk] = (),
        traits_of: TraitsOf = tool_traits,
    ) -> None:
        kind = traits_of(tool)
        name, self.single_line = kind.editable, kind.editable_in_line
        text = arguments.get(name)
        self.name, self.text = (name, text) if isinstance(text, str) else ("", "")
        self.hunks = tuple(hunks)
        self._arguments = arguments
        path = next((value for name in _PATHS if isinstance(value := arguments.get(name), str)), "")
        self.suffix = ".sh" if self.name and self.name == kind.command_argument else Path(path).suffix or ".txt"

    def edited(self, text: str) -> dict[str, Any] | None:
        """Return the arguments with this text as the editable one; None if it is empty or unchanged."""
        return {**self._arguments, self.name: text} if text.strip() and text != self.text else None


def editable_call(request: ApprovalRequested, workspace: Workspace, traits_of: TraitsOf = tool_traits) -> EditableCall:
    """Return the editable parts of the call in an approval request."""
    hunks = hunks_of(request.tool, request.preview, workspace, traits_of) if request.arguments else []
    return EditableCall(request.tool, request.arguments, hunks, traits_of)
