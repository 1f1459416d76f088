"""What a copy changed, and its way back into the project.

A file that the project has changed as well is merged in three ways; if both changed the same lines, or it is no text,
the project keeps its own. Nothing of the user's is overwritten that they have not seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from agent_cli.stage.copy import MAX_KEPT_BYTES, StageCopy, is_same
from agent_cli.stage.tree import (
    TreeEntry,
    copy_entry,
    look,
    open_entry,
    read_entry,
    remove_entry,
    replace_entry,
    set_mode,
)
from agent_tools.edit.diff import diff_parts, parse_hunks, unified
from agent_tools.fs import files
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.process.guarded_git import GitError, find_git, isolated_git
from agent_tools.results import Diff, ToolError


class StagedChange(NamedTuple):
    """A path that the copy changed.

    before, after: what lies there in the copy's base, and in the copy. old, new: its content; None for none, or too
        much to be merged.
    diff: as it is shown. parts: the number of parts that can be taken separately.
    other: what the user did to it meanwhile: "" for nothing, "merged" for changes elsewhere in the file, "conflict".
    """

    path: str
    before: TreeEntry | None
    after: TreeEntry | None
    old: bytes | None
    new: bytes | None
    diff: Diff
    parts: int
    other: Literal["", "merged", "conflict"]


class Applied(NamedTuple):
    """What came into the project. kept: what the user changed in the same place. failed: with reasons."""

    done: tuple[str, ...]
    merged: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    failed: Mapping[str, str]


def staged_changes(copy: StageCopy) -> list[StagedChange]:
    """Return what the copy changed and the project lacks, a folder before what is in it. Raises StageError, OSError."""
    found = []
    same = []
    for path in copy.changed():
        change = _change(copy, path)
        if change is None:
            same.append(path)
        else:
            found.append(change)
    if same:
        copy.record(same)
    return found


def signature(changes: Sequence[StagedChange]) -> str:
    """Return what identifies changes: other ones, also of the same size, have another signature."""
    plain = json.dumps([(change.path, change.before, change.after) for change in changes])
    return hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()


def _change(copy: StageCopy, path: str) -> StagedChange | None:
    """Return the change of a path; None if the project has it already."""
    known = copy.base.get(path)
    before, after, real = known and known.copy, look(copy.tree, path), look(copy.root, path)
    theirs = real != (known and known.real)
    if real is after is None or is_same(copy.root, copy.tree, path, real, after):
        return None
    new = _content(copy.tree, path, after)
    old = copy.content_then(path)
    if old is None and not theirs:
        old = _content(copy.root, path, real)
    diff = _diff(path, before, after, old, new)
    parts = len(diff_parts(diff))
    other: Literal["", "merged", "conflict"] = ""
    if theirs:
        other = "merged" if _merged(copy, path, old, new, real, after) is not None else "conflict"
    return StagedChange(path, before, after, old, new, diff, parts, other)


def _content(root: Path, path: str, entry: TreeEntry | None) -> bytes | None:
    if entry is None or entry.kind != "file":
        return None
    return read_entry(root, path, MAX_KEPT_BYTES)


def _text(data: bytes | None) -> str | None:
    text = decode_text(data) if data is not None else None
    return text.content if text is not None else None


def _diff(path: str, before: TreeEntry | None, after: TreeEntry | None, old: bytes | None, new: bytes | None) -> Diff:
    """Return the change as a diff; what is no text is described in words."""
    created, deleted = before is None, after is None
    kinds = {entry.kind for entry in (before, after) if entry is not None}
    if kinds == {"file"}:
        texts = ["" if created else _text(old), "" if deleted else _text(new)]
        if texts[0] is not None and texts[1] is not None:
            patch, added, removed = unified(texts[0], texts[1])
            if before and after and before.mode != after.mode:
                patch = "\n".join(filter(None, [f"(permissions: {before.mode:o} -> {after.mode:o})", patch]))
            return Diff(path, patch or "(empty)", added, removed, created, deleted)
    return Diff(path, f"({_words(before, after)})", 0, 0, created, deleted)


def _words(before: TreeEntry | None, after: TreeEntry | None) -> str:
    if after is None:
        return f"{before.kind if before else 'file'}, deleted"
    if after.kind == "link":
        return f"a link to {after.target}"
    if after.kind == "folder":
        return f"permissions: {before.mode:o} -> {after.mode:o}" if before and before.kind == "folder" else "a folder"
    return f"{'no text' if after.size <= MAX_KEPT_BYTES else 'large'}: {after.size:,} bytes"


def without_parts(change: StagedChange, left_out: Collection[int]) -> bytes | None:
    """Return the new content of a file without some of its parts, counted from 0."""
    if not left_out:
        return change.new
    old, new = decode_text(change.old or b""), decode_text(change.new or b"")
    assert old is not None and new is not None
    a, b = split_lines(old.content), split_lines(new.content)
    for number, hunk in reversed([*enumerate(parse_hunks(change.diff.patch))]):
        if number in left_out:
            (i, count), (j, there) = hunk.old, hunk.new
            first, other = max(i - (count != 0), 0), max(j - (there != 0), 0)
            b[other : other + there] = a[first : first + count]
    return new.encode("".join(b))


def _merged(
    copy: StageCopy, path: str, old: bytes | None, new: bytes | None, real: TreeEntry | None, after: TreeEntry | None
) -> bytes | None:
    """Return the file with the changes of both sides; None if they exclude each other, or one is no text."""
    theirs = _content(copy.root, path, real)
    if after is None or after.kind != "file" or any(_text(data) is None for data in (old, new, theirs)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("theirs", "old", "new")]
        for name, data in zip(names, (theirs, old, new), strict=True):
            Path(name).write_bytes(data or b"")
        git = isolated_git(find_git(os.environ.get("PATH", os.defpath), str(copy.root)))
        try:
            return git.run("merge-file", "-p", "-q", *names)
        except GitError:  # its code is the number of conflicts
            return None


def apply_changes(copy: StageCopy, changes: Sequence[StagedChange], left_out: Mapping[str, Collection[int]]) -> Applied:
    """Bring changes into the project; return what came of it.

    left_out: the parts that do not come, by path. Their places in the copy become what the project has.
    """
    done: list[str] = []
    merged: list[str] = []
    kept: list[str] = []
    out: list[str] = []
    failed: dict[str, str] = {}
    for change in _in_order(changes):
        parts = left_out.get(change.path, ())
        if len(parts) >= change.parts:
            out.append(change.path)
            continue
        try:
            how = _apply(copy, change, parts)
        except (OSError, ToolError) as error:
            failed[change.path] = str(getattr(error, "strerror", None) or error)
            continue
        if how == "conflict":
            kept.append(change.path)
            continue
        (merged if how == "merged" else done).append(change.path)
        if parts:
            out.append(change.path)
    for change in sorted(changes, key=lambda change: change.path, reverse=True):
        if change.path in done and change.after is not None and change.after.kind == "folder":
            real = look(copy.root, change.path)
            if real is not None and real.mode == change.after.mode | 0o700 != change.after.mode:
                set_mode(copy.root, change.path, change.after.mode)
    again = {*out, *merged}
    copy.record(path for path in done if path not in again)
    copy.take(again)
    for path in kept:  # from now on the copy's version is a change of what the user has
        _rebase(copy, path)
    copy.save()
    return Applied(tuple(done), tuple(merged), tuple(kept), tuple(out), failed)


def _in_order(changes: Iterable[StagedChange]) -> Iterator[StagedChange]:
    """Yield deletions, the deepest first, then the rest, a folder before what is in it."""
    every = list(changes)
    yield from (change for change in reversed(every) if change.after is None)
    yield from (change for change in every if change.after is not None)


def _apply(copy: StageCopy, change: StagedChange, left_out: Collection[int]) -> str:
    """Bring one change into the project. Raises OSError, ToolError."""
    path, after = change.path, change.after
    known, real = copy.base.get(path), look(copy.root, path)
    theirs = real != (known and known.real)
    if look(copy.tree, path) != after:
        raise ToolError("it changed in the copy a moment ago")
    if after is not None and after.kind == "file" and change.new is not None and (real is None or real.kind == "file"):
        data = without_parts(change, left_out)
        if theirs:
            data = _merged(copy, path, change.old, data, real, after)
        if data is None:
            return "conflict"
        _write(copy.root / path, data, _whole(copy.root, path) if real is not None else None, change)
        return "merged" if theirs else "done"
    kept = real is not None and after is not None and real.kind == after.kind != "link"
    if theirs:  # both made a folder: its permissions are the user's
        both = kept and change.before is None and after is not None and after.kind == "folder"
        return "done" if both else "conflict"
    if real is not None and not kept:
        remove_entry(copy.root, path)
    if after is None:
        return "done"
    _make_folders(copy, path)
    if after.kind == "file":
        replace_entry(copy.tree, copy.root, path, real if kept else None)
    elif not kept:
        copy_entry(copy.tree, copy.root, path, after)
    if after.kind == "folder":
        set_mode(copy.root, path, after.mode | 0o700)  # until what is in it has come
    return "done"


def _write(place: Path, data: bytes, theirs: bytes | None, change: StagedChange) -> None:
    files.replace_file(place, data, theirs)
    assert change.after is not None
    if change.before is None or change.after.mode != change.before.mode:
        place.chmod(change.after.mode)


def _whole(root: Path, path: str) -> bytes:
    with open_entry(root, path) as file:
        return file.read()


def _make_folders(copy: StageCopy, path: str) -> None:
    """Make the folders of a path in the project that it lacks, as the copy has them."""
    above = [parent.as_posix() for parent in Path(path).parents][-2::-1]
    for folder in above:
        entry = look(copy.tree, folder)
        if look(copy.root, folder) is None and entry is not None:
            copy_entry(copy.tree, copy.root, folder, entry._replace(mode=entry.mode | 0o700))


def _rebase(copy: StageCopy, path: str) -> None:
    """Let what the project has at a path now count as the base of the copy's change."""
    copy.set_base(path, look(copy.root, path), _content(copy.root, path, look(copy.root, path)))
