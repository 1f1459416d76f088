"""What a user may change of a call before it runs: its main argument, or which parts of its change are made.

A change taken in parts: a user chooses hunks of its diff, and the call is made to do just those.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agent_cli.core.approvals import Answer, Approve, EditedCall, Reject
from agent_cli.core.events import ApprovalRequested
from agent_tools.base import ToolError
from agent_tools.display import Diff, Diffs, Display
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import ClassOf, tool_class
from agent_tools.text import LINE

_HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NO_END = "\\"


class Hunk(Value):
    """One part of a change. first: where its old lines begin, from 0. patch: as it stands in the diff."""

    path: str
    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    patch: str

    @property
    def diff(self) -> Diff:
        """It alone, as something to show."""
        signs = [line[:1] for line in self.patch.split("\n")[1:]]
        return Diff(self.path, self.patch, signs.count("+"), signs.count("-"))


def hunks_of(tool: str, preview: Display | None, workspace: Workspace, class_of: ClassOf = tool_class) -> list[Hunk]:
    """The parts of a proposed change, where it has several that can be taken one by one; else none."""
    diffs = preview.files if isinstance(preview, Diffs) else (preview,) if isinstance(preview, Diff) else ()
    if not class_of(tool).in_parts or any(diff.created for diff in diffs):
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


def only(kept: Sequence[Hunk], arguments: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The arguments of a call that makes just these hunks. arguments: of the call that proposed them all."""
    if "content" in arguments:
        lines = _lines(kept[0].path, workspace) or []
        for hunk in sorted(kept, key=lambda h: -h.first):
            lines[hunk.first : hunk.first + len(hunk.old)] = hunk.new
        return {**arguments, "content": "".join(lines)}
    files = dict.fromkeys(hunk.path for hunk in kept)
    edits = [_edit([hunk for hunk in kept if hunk.path == path], workspace) for path in files]
    return {"edits": edits} if "edits" in arguments else edits[0]


def taken(kept: Sequence[Hunk], every: Sequence[Hunk], arguments: dict[str, Any], workspace: Workspace) -> Answer:
    """The answer to a call of which a user takes these parts."""
    if not kept:
        return Reject("took none of the parts of this change")
    if len(kept) == len(every):
        return Approve()
    return EditedCall(only(kept, arguments, workspace), told_of(kept, every), settled=True)


def told_of(kept: Sequence[Hunk], every: Sequence[Hunk]) -> str:
    """What the model reads about the choice: which parts were made, and those that were not, in full."""
    left = [hunk for hunk in every if hunk not in kept]
    shown = "\n".join(f"{hunk.path}\n{hunk.patch}" for hunk in left)
    return (
        f"[The user took {len(kept)} of the {len(every)} parts of this change. "
        f"These were not made, and are not wanted:\n{shown}]"
    )


def _lines(path: str, workspace: Workspace) -> list[str] | None:
    """The file's lines with their ends; None where there is no text."""
    try:
        # The path of a diff is a resolved one, and no link that came since is followed.
        text = decode_text(workspace.read(workspace.cwd / path))
    except ToolError:
        return None
    return split_lines(text.content) if text is not None else None


def _parsed(diff: Diff, lines: list[str]) -> list[Hunk] | None:
    """The hunks of a diff, with the file's own line ends; None where the file is not what it says."""
    found: list[Hunk] = []
    for block in re.split(r"^(?=@@ -)", diff.patch, flags=re.M):
        head, _, body = block.rstrip("\n").partition("\n")
        match = _HEAD.match(head)
        if match is None:
            continue
        # "-0,0" is before the first line; other numbers count from 1.
        first = at = max(int(match[1]) - (match[2] != "0"), 0)
        removed = False
        new: list[str] = []
        for line in body.split("\n"):
            if line.startswith(_NO_END):
                if new and not removed:
                    new[-1] = new[-1].rstrip("\r\n")
                continue
            removed = line[:1] == "-"
            if len(line) > LINE:
                return None  # the diff has cut it
            if line[:1] == "+":
                new.append(line[1:] + _end_near(lines, at))
                continue
            if at >= len(lines) or lines[at].rstrip("\r\n") != line[1:].rstrip("\r"):
                return None
            new += [] if removed else [lines[at]]
            at += 1
        found.append(Hunk(diff.path, first, tuple(lines[first:at]), tuple(new), block.rstrip("\n")))
    return found


def _end_near(lines: list[str], at: int) -> str:
    """How lines end there; a diff does not say it, and neither does a last line without an end."""
    near = next(
        (line for line in (*lines[at : at + 1], *reversed(lines[max(at - 2, 0) : at])) if line.endswith("\n")), ""
    )
    return "\r\n" if near.endswith("\r\n") else "\n"


def _edit(kept: Sequence[Hunk], workspace: Workspace) -> dict[str, Any]:
    """One edit of a file from the first hunk to the last, with as many lines around as make its place the only one."""
    lines = _lines(kept[0].path, workspace) or []
    first, end = min(h.first for h in kept), max(h.first + len(h.old) for h in kept)
    whole = "".join(lines)
    while (first > 0 or end < len(lines)) and not _once("".join(lines[first:end]), whole):
        first, end = max(first - 1, 0), min(end + 1, len(lines))
    region = lines[first:end]
    for hunk in sorted(kept, key=lambda h: -h.first):
        at = hunk.first - first
        region[at : at + len(hunk.old)] = hunk.new
    return {"file_path": kept[0].path, "old_string": "".join(lines[first:end]), "new_string": "".join(region)}


def _once(part: str, whole: str) -> bool:
    """Whether a part stands in one place only, overlapping ones counted."""
    return bool(part) and whole.find(part, whole.find(part) + 1) < 0


class Changeable:
    """Of one call. name: the argument that may be changed, "" where there is none. in_line: whether its text fits into
    a line. hunks: the parts of its change, where they can be taken one by one."""

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        hunks: Sequence[Hunk] = (),
        workspace: Workspace | None = None,
        class_of: ClassOf = tool_class,
    ) -> None:
        kind = class_of(tool)
        name, self.in_line = kind.editable, kind.editable_in_line
        text = arguments.get(name)
        self.name, self.text = (name, text) if isinstance(text, str) else ("", "")
        self.hunks = tuple(hunks)
        self._arguments, self._workspace = arguments, workspace

    def edited(self, text: str) -> EditedCall | None:
        """The answer that puts this text in place of the argument; None where that says nothing or nothing new."""
        return EditedCall({**self._arguments, self.name: text}) if text.strip() and text != self.text else None

    def taken(self, kept: Sequence[Hunk]) -> Answer:
        """The answer of a user who takes these of the hunks."""
        assert self._workspace is not None
        return taken(kept, self.hunks, self._arguments, self._workspace)


def changeable(request: ApprovalRequested, workspace: Workspace, class_of: ClassOf = tool_class) -> Changeable:
    """Return what can be changed of the call that a question is about."""
    hunks = hunks_of(request.tool, request.preview, workspace, class_of) if request.arguments else []
    return Changeable(request.tool, request.arguments, hunks, workspace, class_of)
