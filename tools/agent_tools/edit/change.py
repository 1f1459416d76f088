"""Changes to files, computed before they are made; shared by preview and run, and by Write, Edit and MultiEdit."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.edit import folding
from agent_tools.edit.diff import Difference, short_patch
from agent_tools.fs import read_state
from agent_tools.fs.encoding import TextFile, decode_text, describe_binary
from agent_tools.record import Value
from agent_tools.results import Diff, Diffs
from agent_tools.text import MAX_LINE_CHARS, counted, cut_line, fit, one_line

# Of the lines that were not shown, in an error.
_MAX_RANGES = 10
_SINGULAR = {"were": "was", "are": "is"}


class Change(Value):
    """A change to the file at a resolved path.

    before, after: its bytes; before is None for a new file, after for a deleted one.
    old, new: its decoded text.
    note: a remark for the model about how the place was found.
    written: what the model wrote of the new text.
    since: what others changed in the file since the model last saw it, for the model; "" for nothing.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    old: str
    new: str
    note: str = ""
    written: read_state.Written = "changes"
    since: str = ""

    @cached_property
    def difference(self) -> Difference:
        """What it changes in the text."""
        return Difference(self.old, self.new)

    def diff(self, ctx: ToolContext) -> Diff:
        """Return the change as a diff for the user."""
        patch, added, removed = self.difference.patch
        return Diff(ctx.workspace.show(self.path), patch, added, removed, self.before is None, self.after is None)

    def make(self, ctx: ToolContext) -> None:
        """Write or delete the file, and mark its content as known. Raises ToolError; nothing is changed then."""
        if self.after is None:
            ctx.workspace.remove(self.path, self.before or b"")
            read_state.forget(self.path, ctx)
            return
        created = _missing_directories(self)
        try:
            ctx.workspace.replace(self.path, self.after, self.before)
        except BaseException:  # also for an interrupt: leave no directories behind for a file that was not written
            ctx.workspace.remove_empty(created[::-1])
            raise
        if self.since and self.before is not None:
            # Of a notebook, `old` is the source of a cell.
            text = decode_text(self.before) if self.written == "cell" else None
            read_state.note_told(self.path, self.before, text.content if text else self.old, ctx, at_once=True)
        read_state.note_change(self.path, self.before, self.after, self.difference, ctx, self.written)

    def new_excerpt(self) -> str:
        """Return the changed lines with their new content, and what others changed, for the model."""
        since = f"\n{self.since}" if self.since else ""
        if not self.new:
            return f" It is empty now.{since}"
        shown = self.difference.excerpt()
        return (f" It now reads:\n{shown}" if shown else "") + since


class FileToChange(Value):
    """A file as it is before a call changes it: its bytes and text; None and an empty text for a new one.

    sight: what the model knows of it; None for a new one.
    found_by: the tool that showed lines of it, if it was not read and has changed since.
    """

    path: Path
    before: bytes | None
    text: TextFile
    sight: read_state.Sight | None
    found_by: str = ""

    def since(self, ctx: ToolContext) -> str:
        """Return what others changed in it since the model last saw it, as a note for the model; "" for nothing."""
        return self._told(ctx)[0]

    def refuse(self, error: ToolError, ctx: ToolContext) -> ToolError:
        """Return an error with the note on what others changed. The model is then taken to have read that."""
        note, whole = self._told(ctx)
        if whole and self.before is not None and not read_state.is_told(self.path, self.before, ctx):
            read_state.note_told(self.path, self.before, self.text.content, ctx)
        return ToolError(f"{error}\n{note}") if note else error

    def _told(self, ctx: ToolContext) -> tuple[str, bool]:
        if self.sight is None or (self.sight.current if self.sight.read else not self.found_by):
            return "", False
        name = ctx.workspace.spell(self.path)
        if self.before is not None and read_state.is_told(self.path, self.before, ctx):
            return f"[{name} has changed since you last saw it: see the difference above.]", True
        if self.found_by:  # by the time alone: perhaps the same command changed it first
            told = f"[{name} may have changed since you saw lines of it with {self.found_by}; read the rest again.]"
            return told, False
        by = f" with {' and '.join(self.sight.by)}" if self.sight.by else ""
        if self.sight.known is None:
            rest = "the difference is not known. Read it before you rely on the rest"
            return f"[{name} has changed since you last saw it{by}; {rest}.]", False
        lines, counts, whole = short_patch(Difference(self.sight.known, self.text.content))
        head = f"[{name} has changed since you last saw it{by} ({counts}), by the user, a formatter or a command:]"
        return "\n".join([head, *lines]), whole


def resolve_file(text: str, ctx: ToolContext) -> Path:
    """Return the path of a file to change, which need not exist. Raises ToolError for one that says it is a folder."""
    if text.endswith("/"):
        raise ToolError(f"{one_line(text)} names a folder, as it ends with a slash. Name a file.")
    return ctx.workspace.resolve(text)


def open_to_change(path: Path, ctx: ToolContext, verb: str, old: str = "", *, every: bool = False) -> FileToChange:
    """Return a file that is about to be changed.

    verb, old, every: as for `require_seen`. Raises ToolError as that does, and if it is not a text file.
    """
    file = read_editable(path, ctx)
    if file.before is not None and ctx.require_read_first:
        file = require_seen(file, ctx, verb, old, every=every)
        if (
            verb == "write"
            and file.before is not None
            and file.sight is not None
            and file.sight.whole
            and not read_state.look_up(path, file.before, file.text.content, ctx, earlier=True).whole
        ):
            raise ToolError(
                f"{ctx.workspace.spell(path)} was shown by another call of this answer, so this content was written "
                "without it. Write it in the next answer, with what that call has shown."
            )
    return file


def read_editable(path: Path, ctx: ToolContext) -> FileToChange:
    """Return a file that may be changed. Raises ToolError for binary data."""
    data = ctx.workspace.read_if_there(path)
    if data is None:
        return FileToChange(path, None, TextFile(""), None)
    if (text := decode_text(data)) is None:
        name = ctx.workspace.spell(path)
        raise ToolError(f"{name} is {describe_binary(data)}, not text, and cannot be changed with this tool.")
    return FileToChange(path, data, text, read_state.look_up(path, data, text.content, ctx))


def require_seen(
    file: FileToChange,
    ctx: ToolContext,
    verb: str,
    old: str = "",
    *,
    every: bool = False,
    own: str = "",
    content: str | None = None,
) -> FileToChange:
    """Return the file, or raise ToolError if the model does not know what is about to be changed.

    A file that has changed since may be edited where the text to replace is still there, but not be replaced.

    verb: what the call does, for messages: "edit", or "write" for one that replaces the whole file, for which the model
    must have seen every line.
    old: the text to replace. The file need not have been read if a result showed it, or if a small model gives text
    that is there exactly once.
    every: all places with it are replaced, so each must have been shown.
    own: what earlier edits of this call have written.
    content: the text after these.

    No file needs to be read first if the tool Read is not offered.
    """
    path, data, text, sight = file.path, file.before, file.text, file.sight
    if sight is None or data is None:
        return file
    name, content = ctx.workspace.spell(path), text.content if content is None else content
    if old and not sight.read:
        if ctx.small_model and content.count(old) == 1:
            return file
        there = _lines_with(content, old) if every else [old] if old in content else []
        # Text that differs only in what cannot be seen: a result shows it as the file has it.
        there = there or [content[a:b] for a, b in folding.find_folded(content, old)] or [old]
        shown = read_state.shown_by(path, there, ctx, own)
        if shown is not None:
            return file if shown[1] else file.replace(found_by=shown[0])
        if ctx.small_model:
            raise _not_read_error(path, text, data, old, ctx)
    if not sight.read and not ctx.workspace.offered("Read"):
        return file
    replaces = verb == "write"
    partly = replaces and sight.unseen != ((1, sight.total),)
    if not sight.read and not partly:
        raise ToolError(f"{name} exists and was not read in this conversation. Read it first, then {verb} it.")
    if replaces and sight.read and not sight.current:
        raise file.refuse(_changed_error(name, sight, partly=partly), ctx)
    if replaces and sight.unseen and ctx.workspace.offered("Read"):
        raise _unseen_lines_error(name, text, sight, ctx)
    return file


def _lines_with(content: str, old: str) -> list[str]:
    """Return the whole lines of each place of a text."""
    found, at = [], content.find(old)
    while at >= 0:
        end = content.find("\n", max(at + len(old) - 1, at))
        found.append(content[content.rfind("\n", 0, at) + 1 : len(content) if end < 0 else end])
        at = content.find(old, at + len(old))
    return found


def _changed_error(name: str, sight: read_state.Sight, *, partly: bool) -> ToolError:
    """Return the error for a call that would replace a file which others have changed."""
    head = f"{name} changed since it was last read, and this call would replace the whole of it: nothing was changed."
    new = f" {_describe_lines(sight.unseen)} new to you." if partly and sight.unseen else ""
    return ToolError(f"{head}{new if sight.known is not None else ' Read it again.'} Write it with what is there now.")


def _unseen_lines_error(name: str, text: TextFile, sight: read_state.Sight, ctx: ToolContext) -> ToolError:
    """Return the error for a call that would replace lines that the model was not shown."""
    lines = text.content.split("\n")
    long = all(len(lines[n - 1]) > MAX_LINE_CHARS for first, last in sight.unseen for n in range(first, last + 1)[:50])
    edit = ctx.workspace.advice("Edit apply_patch", "or change only a part with {}")
    edit = f",{edit}" if edit else ""
    if long and sight.total >= len(lines) - 1:
        return ToolError(
            f"{_describe_lines(sight.unseen)} longer than {MAX_LINE_CHARS:,} characters and not shown in full, and "
            f"this call would replace the whole of {name}. Print what is missing{edit}. To replace it anyway, "
            "delete it first."
        )
    state = "were not shown"
    if sight.gone_by and sight.never != sight.unseen:
        gone = f"are no longer in the conversation (last seen with {' and '.join(sight.gone_by)})"
        state = f"were not shown or {gone}" if sight.never else gone
    return ToolError(
        f"{name} has {counted(sight.total, 'line')}, and {_describe_lines(sight.unseen, state)}: this call "
        f"would replace the whole file. Read these lines first{edit}."
    )


def _describe_lines(ranges: read_state.Ranges, state: str = "") -> str:
    """Describe some lines of a file: "lines 4-9 and 12 were not shown"."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MAX_RANGES]]
    more = len(ranges) - len(shown)
    shown += [f"{more} more ranges"] if more else []
    one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    text = f"{'line' if one else 'lines'} {', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]}"
    if state:
        return f"{text} {re.sub('^were|^are', lambda plural: _SINGULAR[plural[0]], state) if one else state}"
    return f"{text.capitalize()} {'is' if one else 'are'}"


def _not_read_error(path: Path, text: TextFile, data: bytes, old: str, ctx: ToolContext) -> ToolError:
    """Return the error for a small model's edit of an unread file; it includes the file, to save a call."""
    name, times = ctx.workspace.spell(path), text.content.count(old)
    lines = [cut_line(line) for line in text.content.splitlines()]
    if fit(lines, ctx.result_limits.most("page")) < len(lines):
        return ToolError(f"old_string is in {name} {times} times, and you have not read {name}. Read it first.")
    read_state.note_read(path, data, ctx)
    what = "Copy more of it, or set replace_all" if times else "Copy it from the file"
    return ToolError(f"old_string is in {name} {counted(times, 'time')}. {what}:\n" + "\n".join(lines))


def combined_diff(changes: Sequence[Change], ctx: ToolContext) -> Diff | Diffs:
    """Return the diff of several changes for the user."""
    diffs = tuple(change.diff(ctx) for change in changes)
    return diffs[0] if len(diffs) == 1 else Diffs(diffs)


def make_all(changes: Sequence[tuple[str, Change]], ctx: ToolContext) -> None:
    """Make changes to several files, all or none. Each is paired with its name in error messages.

    If one fails, those before it are restored byte for byte, unless the file was changed by others meanwhile. Raises
    ToolError, which names the files that remain changed, if any.
    """
    seen = dict(ctx.seen)
    written: list[Change] = []
    created: list[Path] = []
    for name, change in changes:
        written.append(change)
        created += _missing_directories(change)
        try:
            change.make(ctx)
        except BaseException as error:  # also for an interrupt: leave no partial set of changes behind
            left = _roll_back(written, ctx, seen)
            ctx.workspace.remove_empty(created[::-1])
            if not isinstance(error, ToolError):
                raise
            if left:
                ending = f"These files were changed and could not be restored: {'; '.join(left)}. Read them now."
            else:
                ending = "No file was changed." if len(written) == 1 else "All files were restored."
            raise ToolError(f"{name}: {error} {ending}") from None


def _missing_directories(change: Change) -> list[Path]:
    """Return the directories that a change will create, topmost first."""
    return [] if change.before is not None else [p for p in change.path.parents if not os.path.lexists(p)][::-1]


def _roll_back(written: Sequence[Change], ctx: ToolContext, seen: dict[str, str]) -> list[str]:
    """Undo changes, the last first. Return those that could not be undone, with the reason."""
    left: list[str] = []
    for change in reversed(written):
        # The last one failed, but perhaps after its file was in place.
        if change is written[-1] and not _is_applied(change, ctx):
            continue
        try:
            if change.before is None and change.after is not None:
                ctx.workspace.remove(change.path, change.after)
            elif change.before is not None:
                ctx.workspace.replace(change.path, change.before, change.after)
        except ToolError as error:
            left.insert(0, f"{ctx.workspace.spell(change.path)} ({str(error).rstrip('.')})")
            continue
        read_state.forget(change.path, ctx)
        if (known := seen.get(str(change.path))) is not None:
            ctx.seen[str(change.path)] = known
    return left


def _is_applied(change: Change, ctx: ToolContext) -> bool:
    try:
        return ctx.workspace.read_if_there(change.path) == change.after
    except ToolError:
        return False
